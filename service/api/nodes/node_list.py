"""Parses the query of `GET /v1/nodes` by hand: the route gets more requests than all others
together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.api.http.schemas import LABEL, whole_pattern
from service.api.http.validation_errors import describe_unknown, parameter_error
from service.domain.nodes.node import NodeState
from service.store.node_list import NodeFilter

MOST = 100
"""Largest number of parameters in a query. Databases limit the parameters of a statement."""

_STATES = frozenset(NodeState)
_FIELDS = {
    "state": "Only in this state.",
    "team": "Only of this team.",
    "owner": "Only of this owner.",
    "zone": "Only in this zone.",
    "generation": "Only of this generation.",
    "name": "Only of this name.",
    "project": "Only of this project.",
}
_KNOWN = (*_FIELDS, "label", "page_size", "page_token")


def read_query(items: Iterable[tuple[str, str]]) -> tuple[NodeFilter, int, str]:
    """The filter, the size of the page and its token. Raises RequestValidationError."""
    fields: dict[str, Any] = {}
    labels: dict[str, str] = {}
    single: dict[str, str] = {}
    for number, (name, value) in enumerate(items):
        _check_parameter(number, name, value)
        if name in _FIELDS:
            fields.setdefault(name, []).append(value)
        elif name == "label":
            key, _, wanted = value.partition(":")
            if re.fullmatch(LABEL, value) is None:
                raise parameter_error("query", "label", "should be written as key:value")
            if key in labels:
                twice = f"the key {key!r} was given twice; a node has one value"
                raise parameter_error("query", "label", twice)
            labels[key] = wanted
        elif name in single:
            raise parameter_error("query", name, "was given twice")
        else:
            single[name] = value
    only = replace(NodeFilter(labels=labels), **fields)
    text = single.get("page_size", "100")
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not 1 <= size <= 1000:
        raise parameter_error("query", "page_size", "should be a number from 1 to 1000")
    return only, size, single.get("page_token", "")


def _check_parameter(number: int, name: str, value: str) -> None:
    if number >= MOST:
        raise parameter_error(
            "query", name, f"at most {MOST} parameters are allowed in one request"
        )
    if name not in _KNOWN:
        raise parameter_error("query", name, describe_unknown("query parameter", name, _KNOWN))
    if len(value) > 200:
        raise parameter_error("query", name, "should have at most 200 characters")
    if name == "state" and value not in _STATES:
        raise parameter_error("query", name, describe_unknown("state", value, _STATES))


def _describe_parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


_LABELS = "key:value; of several, a node has to have all."
PARAMETERS = [
    *(
        _describe_parameter(
            name,
            f"{text} May be repeated: any of them.",
            type="array",
            items={"type": "string"} | ({"enum": sorted(_STATES)} if name == "state" else {}),
        )
        for name, text in _FIELDS.items()
    ),
    _describe_parameter(
        "label",
        _LABELS,
        type="array",
        items={"type": "string", "pattern": whole_pattern(LABEL)},
        examples=[["run:17"]],
    ),
    _describe_parameter(
        "page_size",
        "The most items to return.",
        type="integer",
        minimum=1,
        maximum=1000,
        default=100,
    ),
    _describe_parameter(
        "page_token", "The `next_page_token` of the previous page.", type="string", default=""
    ),
]
"""The parameters for the OpenAPI document."""
