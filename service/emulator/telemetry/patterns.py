"""Regular expressions of callers: in Google's own RE2, which no expression can keep busy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@lru_cache(maxsize=256)
def search(pattern: str) -> Callable[[str], bool]:
    """Give the test whether a text has a match somewhere; raises ValueError that says why not."""
    compiled = _compiled(pattern)
    return lambda text: compiled.search(text) is not None


@lru_cache(maxsize=256)
def full_match(pattern: str) -> Callable[[str], bool]:
    """Give the test whether a text matches as a whole; raises ValueError that says why not."""
    compiled = _compiled(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _compiled(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, OPTIONS)
    except re2.error as error:
        raise ValueError(_why(error)) from None


def _why(error: Exception) -> str:
    reason = error.args[0]
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
