"""Turns what validation says into sentences that say what to do, field by field."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

MOST = 10
"""A body may be wrong in a hundred thousand places; nobody reads more than the first."""

_SHOWN = 80
_SHORTER = {
    "missing": "this field is required",
    "string_unicode": "should be valid Unicode",
    "model_attributes_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
    "tuple_type": "should be a JSON array",
}


def refusal(place: str, field: str, message: str) -> RequestValidationError:
    """What a route that reads its parameters itself raises; `place` is query, header or body."""
    error = {"type": "value_error", "loc": (place, field), "msg": message}
    return RequestValidationError([error])


def unknown(noun: str, name: str, known: Collection[str]) -> str:
    """That there is no such field, which one may be meant, and which there are."""
    shown = name[:_SHOWN]
    begun = [one for one in known if len(shown) > 1 and one.startswith(shown)]
    close = begun or difflib.get_close_matches(shown, known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown {noun} {shown!r}{hint}; known {noun}s are {', '.join(sorted(known))}"


def complaints_of(
    errors: Sequence[Any], endpoint: Callable[..., Any] | None
) -> list[Mapping[str, str]]:
    """The first complaints, each with its field as in `framework.version`; no input is repeated."""
    return [
        {"field": _field(error["loc"]), "message": _message(error, endpoint)}
        for error in errors[:MOST]
    ]


def _field(loc: Sequence[str | int]) -> str:
    return ".".join(str(part)[:_SHOWN] for part in loc[1:] or loc)[: 3 * _SHOWN]


def _message(error: Mapping[str, Any], endpoint: Callable[..., Any] | None) -> str:
    loc = error["loc"]
    if error["type"] == "extra_forbidden":
        noun = "query parameter" if loc[0] == "query" else "field"
        return unknown(noun, str(loc[-1]), _known_at(endpoint, loc))
    if len(loc) > 1 and error["type"] != "missing" and error.get("input", loc) is None:
        return "cannot be null; leave it out, or give a value"
    if (size := _size(error)) is not None:
        return size
    text = _SHORTER.get(error["type"], str(error["msg"]))
    return text.removeprefix("Value error, ").replace("Input should", "should")[: 4 * _SHOWN]


def _size(error: Mapping[str, Any]) -> str | None:
    """What is wrong with the length of a text; None for any other error."""
    facts = error.get("ctx", {})
    is_text = error["type"].startswith("string_") or facts.get("field_type") == "Value"
    if is_text and "min_length" in facts:
        least = facts["min_length"]
        return "should not be empty" if least == 1 else f"should have at least {least} characters"
    if is_text and "max_length" in facts:
        return f"should have at most {facts['max_length']} characters"
    return None


def _known_at(endpoint: Callable[..., Any] | None, loc: Sequence[str | int]) -> list[str]:
    """The fields of the model that the unknown one was found in."""
    model = _model_of(endpoint, in_query=loc[0] == "query")
    for part in loc[1:-1]:
        if model is not None and part in model.model_fields:
            model = _model_in(model.model_fields[str(part)].annotation)
    return [] if model is None else list(model.model_fields)


def _model_of(endpoint: Callable[..., Any] | None, *, in_query: bool) -> type[BaseModel] | None:
    """The model that a route reads its query parameters, or its body, into."""
    if endpoint is None:
        return None
    for hint in get_type_hints(endpoint, include_extras=True).values():
        is_query = any(isinstance(one, params.Query) for one in get_args(hint)[1:])
        model = _model_in(hint)
        if model is not None and is_query is in_query:
            return model
    return None


def _model_in(hint: Any) -> type[BaseModel] | None:
    """The model that an annotation speaks of, be it optional or annotated."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    for one in (hint, *get_args(hint)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None
