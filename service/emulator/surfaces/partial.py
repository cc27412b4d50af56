"""Partial responses: the `fields` parameter, as `nodes(name,state),nextPageToken`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from service.emulator.errors import ApiError, Code

TOKEN = re.compile(r"[A-Za-z_@*][\w@.-]*|[(),/]|\S")
MAX_TOKENS = 500
Selection = dict[str, Any]
"""By field: what of it is wanted; empty for all of it."""


def selection(text: str) -> Selection:
    """Read the parameter; raises ApiError. Nothing at all selects everything."""
    tokens = TOKEN.findall(text)
    if not tokens or len(tokens) > MAX_TOKENS:
        raise _refusal(text)
    left = iter([*tokens, ""])
    try:
        chosen, last = _several(left, 0)
    except StopIteration:
        last = "("
        chosen = {}
    if last:
        raise _refusal(text)
    return chosen


def select(shown: Any, chosen: Selection) -> Any:
    """Keep what is chosen of a JSON value; a list is cut item by item."""
    if not chosen:
        return shown
    if isinstance(shown, list):
        return [select(each, chosen) for each in shown]
    if not isinstance(shown, dict):
        return shown
    if "*" in chosen:
        return {key: select(value, chosen["*"]) for key, value in shown.items()}
    return {key: select(value, chosen[key]) for key, value in shown.items() if key in chosen}


def _several(left: Iterator[str], depth: int) -> tuple[Selection, str]:
    """Read names joined by commas up to a token that is none of theirs, and give that, too."""
    chosen: Selection = {}
    while True:
        last = _one(left, chosen, depth)
        if last != ",":
            return chosen, last


def _one(left: Iterator[str], chosen: Selection, depth: int) -> str:
    """Read a name, with a path or a list in brackets behind it, and give the token after it."""
    name = next(left)
    if not re.match(r"[\w@*]", name):
        return "("
    inner: Selection = chosen.setdefault(name, {})
    last = next(left)
    if last == "/":
        return _one(left, inner, depth)
    if last == "(" and depth < 20:
        inside, end = _several(left, depth + 1)
        inner.update(inside)
        if end != ")":
            return "("
        last = next(left)
    return last


def _refusal(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid field selection {text[:200]}")
