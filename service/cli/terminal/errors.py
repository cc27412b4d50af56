"""What a command that fails tells the user: lines and an exit code. Problem documents of the API
(RFC 9457) become such lines too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAILED = 1
MISUSED = 2
SHOWN = 12
"""Largest number of alternatives that a line shows."""

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


class Failure(Exception):
    """The error and the next step, in lines. The program ends with exit code `code`."""

    def __init__(self, *lines: str, code: int = FAILED) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


def is_text(said: str) -> bool:
    """Whether an argument or a variable was UTF-8. Other bytes have become surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in said)


def is_problem(document: Mapping[str, Any]) -> bool:
    """Whether the document is a problem document of TPU Steward."""
    return any(isinstance(document.get(name), str) for name in ("detail", "title"))


def is_google_error(document: Mapping[str, Any]) -> bool:
    """Whether the document is an error of a Google API, or of the emulator."""
    error = document.get("error")
    return isinstance(error, Mapping) and {"code", "message", "status"} <= error.keys()


def problem_to_lines(status: int, document: Mapping[str, Any]) -> list[str]:
    """The problem in one line, or in one for each invalid field. Then a line for each list of
    alternatives that the problem does not name yet."""
    if status == 401:
        return ["the service needs a token: set STEWARD_TOKEN"]
    detail = str(document.get("detail") or document.get("title") or f"the API answered {status}")
    errors = document.get("errors")
    found = [
        f"{error.get('field', 'the request')}: {error.get('message', 'makes no sense')}"
        for error in (errors if isinstance(errors, list) else ())
        if isinstance(error, Mapping)
    ] or [detail]
    said = " ".join(found)
    for name, values in document.items():
        is_list = isinstance(values, list) and all(isinstance(value, str | int) for value in values)
        if name in _NO_ADVICE or not is_list:
            continue
        if not all(str(value) in said for value in values):
            shown = ", ".join(map(str, values[:SHOWN]))
            more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
            found.append(f"  {_MEANT.get(name, name.replace('_', ' '))}: {shown}{more}")
    return found
