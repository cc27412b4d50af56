"""Reads documents that any process on a worker may have written; invalid values are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST_TEXT = 500
_MAX_INT = 2**53


def read_mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object that a worker's document claims under a name; empty if there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def read_text(
    document: Mapping[str, Any], name: str, longest: int = LONGEST_TEXT, *, lines: bool = False
) -> str:
    """The text that a document claims, fit to store and show: valid Unicode, without NUL, and
    short.

    With `lines`, its end and its line breaks are kept. Empty if there is no text.
    """
    value = document.get(name)
    if not isinstance(value, str):
        return ""
    cut = value[-longest:] if lines else value[:longest]
    clean = cut.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean if lines else " ".join(clean.split())


def read_texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The first 20 texts of a list that a document claims; empty if there is none."""
    value = document.get(name)
    if not isinstance(value, list):
        return ()
    return tuple(read_text({"text": item}, "text") for item in value[:20] if isinstance(item, str))


def read_whole_number(document: Mapping[str, Any], name: str) -> int | None:
    """The whole number from 0 to 2**53 that a document claims; None for any other value."""
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_INT else None


def read_instant(document: Mapping[str, Any], name: str, now: int) -> int | None:
    """The instant that a document claims, `now` at the latest; None for any other value. So a fast
    clock cannot move charges."""
    value = read_whole_number(document, name)
    return None if value is None else min(value, now)
