"""Between rows and domain objects: JSON documents as text, frozen dataclasses both ways."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def dumps(value: object) -> str:
    """A JSON document of plain values and frozen dataclasses."""
    return msgspec.json.encode(value).decode()


def loads(document: str, kind: type[T]) -> T:
    """The value of that kind in a JSON document."""
    return msgspec.json.decode(document, type=kind)
