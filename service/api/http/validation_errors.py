"""Validation errors as messages that say what to do, field by field."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

MOST = 10
"""Largest number of errors in an answer. A body can have a hundred thousand."""

_SHOWN = 80
_SHORTER = {
    "missing": "this field is required",
    "string_unicode": "should be valid Unicode",
    "model_attributes_type": "should be a JSON object",
    "dict_type": "should be a JSON object",
    "tuple_type": "should be a JSON array",
}


def parameter_error(place: str, field: str, message: str) -> RequestValidationError:
    """The error of a route that parses its parameters itself. `place` is query, header or body."""
    error = {"type": "value_error", "loc": (place, field), "msg": message}
    return RequestValidationError([error])


def describe_unknown(noun: str, name: str, known: Collection[str]) -> str:
    """Message for an unknown name, with the closest known name and all known names."""
    shown = name[:_SHOWN]
    begun = [candidate for candidate in known if len(shown) > 1 and candidate.startswith(shown)]
    close = begun or difflib.get_close_matches(shown, known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown {noun} {shown!r}{hint}; known {noun}s are {', '.join(sorted(known))}"


def complaints_of(
    errors: Sequence[Any], endpoint: Callable[..., Any] | None
) -> list[Mapping[str, str]]:
    """The first errors, each with its field, such as `framework.version`. Without the input."""
    found: list[Mapping[str, str]] = []
    for error in errors[:MOST]:
        loc: Sequence[str | int] = error["loc"]
        field = ".".join(str(part)[:_SHOWN] for part in loc[1:] or loc)[: 3 * _SHOWN]
        found.append({"field": field, "message": _describe_error(error, endpoint)})
    return found


def _describe_error(error: Mapping[str, Any], endpoint: Callable[..., Any] | None) -> str:
    loc = error["loc"]
    if error["type"] == "extra_forbidden":
        noun = "query parameter" if loc[0] == "query" else "field"
        model = _find_root_model(endpoint, in_query=loc[0] == "query")
        for part in loc[1:-1]:
            if model is not None and part in model.model_fields:
                model = _find_model(model.model_fields[str(part)].annotation)
        return describe_unknown(noun, str(loc[-1]), () if model is None else model.model_fields)
    if len(loc) > 1 and error["type"] != "missing" and error.get("input", loc) is None:
        return "cannot be null; leave it out, or give a value"
    facts = error.get("ctx", {})
    is_text = error["type"].startswith("string_") or facts.get("field_type") == "Value"
    if is_text and "min_length" in facts:
        least = facts["min_length"]
        return "should not be empty" if least == 1 else f"should have at least {least} characters"
    if is_text and "max_length" in facts:
        return f"should have at most {facts['max_length']} characters"
    text = _SHORTER.get(error["type"], str(error["msg"]))
    return text.removeprefix("Value error, ").replace("Input should", "should")[: 4 * _SHOWN]


def _find_root_model(
    endpoint: Callable[..., Any] | None, *, in_query: bool
) -> type[BaseModel] | None:
    """The model of a route's query parameters, or of its body. None without one."""
    if endpoint is None:
        return None
    for hint in get_type_hints(endpoint, include_extras=True).values():
        is_query = any(isinstance(extra, params.Query) for extra in get_args(hint)[1:])
        model = _find_model(hint)
        if model is not None and is_query is in_query:
            return model
    return None


def _find_model(hint: Any) -> type[BaseModel] | None:
    """The model in an annotation, also an optional or annotated one. None without one."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
