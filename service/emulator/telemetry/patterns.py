"""Regular expressions of callers, run by Google's RE2, which takes linear time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@lru_cache(maxsize=256)
def compile_search(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a text contains a match. Raises ValueError with the reason."""
    compiled = _compile_pattern(pattern)
    return lambda text: compiled.search(text) is not None


@lru_cache(maxsize=256)
def compile_full_match(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a whole text matches. Raises ValueError with the reason."""
    compiled = _compile_pattern(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _compile_pattern(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None
