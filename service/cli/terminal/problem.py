"""What the API says is wrong (RFC 9457), as lines that say what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SHOWN = 12
"""Of a list of what would do instead, no more than so many are shown."""

_MEANT = {
    "compatible": "these fit",
    "offered_in": "it is offered in",
    "closest": "closest",
    "served_by": "served by",
    "dimensions": "there are",
    "generations": "there are",
    "projects": "there are",
    "topologies": "there are",
}
_NO_ADVICE = frozenset({"type", "title", "detail", "status", "instance", "errors", "field"})


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether it says what is wrong as TPU Steward does."""
    return any(isinstance(document.get(name), str) for name in ("detail", "title"))


def is_google_s(document: Mapping[str, Any]) -> bool:
    """Whether it says what is wrong as Google's APIs do, and the emulator with them."""
    error = document.get("error")
    return isinstance(error, Mapping) and {"code", "message", "status"} <= error.keys()


def lines(status: int, document: Mapping[str, Any]) -> list[str]:
    """The trouble in one line, then one for each thing that helps and is not said in it yet."""
    if status == 401:
        return ["the service needs a token: set STEWARD_TOKEN"]
    detail = str(document.get("detail") or document.get("title") or f"the API answered {status}")
    found = [*_errors(document)] or [detail]
    said = " ".join(found)
    found += [
        f"  {_MEANT.get(name, name.replace('_', ' '))}: {_some(values)}"
        for name, values in document.items()
        if name not in _NO_ADVICE and _helps(values) and not _is_said(values, said)
    ]
    return found


def _errors(document: Mapping[str, Any]) -> Iterator[str]:
    """Each field of the request that makes no sense."""
    errors = document.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, Mapping):
            yield f"{error.get('field', 'the request')}: {error.get('message', 'makes no sense')}"


def _helps(values: object) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(value, str | int) for value in values)
    )


def _is_said(values: list[object], text: str) -> bool:
    return all(str(value) in text for value in values)


def _some(values: list[object]) -> str:
    shown = ", ".join(map(str, values[:SHOWN]))
    more = len(values) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
