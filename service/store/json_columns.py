"""Between rows and domain objects: JSON documents as text, frozen dataclasses both ways."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[Any, Callable[[str], Any]] = {}
_lock = threading.Lock()


def dumps(value: object) -> str:
    """A JSON document of plain values and frozen dataclasses."""
    return msgspec.json.encode(value).decode()


def loads(document: str, kind: type[T]) -> T:
    """The value of that kind in a JSON document."""
    return decoder(kind)(document)


def decoder(kind: type[T]) -> Callable[[str], T]:
    """What makes values of a kind from JSON documents. Only one thread at a time learns kinds:
    msgspec keeps what it knows of a class before it knows all, and a second thread that finds this
    half ends the process (a segmentation fault, seen with msgspec 0.22)."""
    known = _decoders.get(kind)
    if known is None:
        with _lock:
            known = _decoders.setdefault(kind, msgspec.json.Decoder(kind).decode)
    return known
