"""Pages of lists: a token holds the start of the next page, and the list that it is for."""

from __future__ import annotations

import base64
import binascii
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from service.emulator.errors import ApiError, Code

DEFAULT_SIZE = 500
MAX_SIZE = 1000
T = TypeVar("T")


def cut_page(
    items: Sequence[T], key: Callable[[T], str], of: str, size: int, token: str
) -> tuple[Sequence[T], str]:
    """Return one page of items sorted by key, and the token of the next; raises ApiError.

    `of` identifies the list: its kind, its parent and its filter. The token holds the last key
    shown, so that a change of the list between two pages skips no item.
    """
    limit = size_of(size, DEFAULT_SIZE, MAX_SIZE)
    first = bisect_right(items, read_token(token, of), key=key) if token else 0
    shown = items[first : first + limit]
    return shown, write_token(key(shown[-1]), of) if first + limit < len(items) else ""


def size_of(asked: int, usual: int, highest: int) -> int:
    """Return the size of a page, the usual one for 0; raises ApiError."""
    if asked < 0:
        raise ApiError(Code.INVALID_ARGUMENT, f"page_size must not be negative: {asked}")
    return min(asked or usual, highest)


def write_token(after: str, of: str) -> str:
    return base64.urlsafe_b64encode(f"{_compute_mark(after, of)}{after}".encode()).decode()


def read_token(token: str, of: str) -> str:
    """Return the key that a token holds; raises ApiError if the token is of another list."""
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, ValueError):
        text = ""
    mark, after = text[:16], text[16:]
    if mark != _compute_mark(after, of):
        raise ApiError(Code.INVALID_ARGUMENT, "The page token is invalid for this list.")
    return after


def _compute_mark(after: str, of: str) -> str:
    return hashlib.sha256(f"{of}\n{after}".encode()).hexdigest()[:16]
