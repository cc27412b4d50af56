"""Lists in pages: a token says where the next page begins, and for which list it was made."""

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


def page(
    items: Sequence[T], key: Callable[[T], str], of: str, size: int, token: str
) -> tuple[Sequence[T], str]:
    """Cut one page out of items sorted by key, and give the token of the next.

    `of` says which list it is: what is listed, of whom, and by which filter. The token holds the
    last key shown, so that a list that changes meanwhile loses nothing.
    """
    limit = size_of(size, DEFAULT_SIZE, MAX_SIZE)
    first = bisect_right(items, read_token(token, of), key=key) if token else 0
    shown = items[first : first + limit]
    return shown, write_token(key(shown[-1]), of) if first + limit < len(items) else ""


def size_of(asked: int, usual: int, highest: int) -> int:
    """Say how many items a page may have, 0 asking for the usual; raises ApiError."""
    if asked < 0:
        raise ApiError(Code.INVALID_ARGUMENT, f"page_size must not be negative: {asked}")
    return min(asked or usual, highest)


def write_token(after: str, of: str) -> str:
    return base64.urlsafe_b64encode(f"{_mark(after, of)}{after}".encode()).decode()


def read_token(token: str, of: str) -> str:
    """Give back what a token was made of, where it belongs to this list; raises ApiError."""
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, ValueError):
        text = ""
    mark, after = text[:16], text[16:]
    if mark != _mark(after, of):
        raise ApiError(Code.INVALID_ARGUMENT, "The page token is invalid for this list.")
    return after


def _mark(after: str, of: str) -> str:
    return hashlib.sha256(f"{of}\n{after}".encode()).hexdigest()[:16]
