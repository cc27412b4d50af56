"""Converts between JSON text columns and domain objects."""

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
    return get_decoder(kind)(document)


def get_decoder(kind: type[T]) -> Callable[[str], T]:
    """The function that makes values of a kind from JSON documents. Only one thread at a time
    creates decoders: msgspec publishes what it knows of a class before it is complete, and a second
    thread that uses it then ends the process (a segmentation fault, seen with msgspec 0.22)."""
    known = _decoders.get(kind)
    if known is None:
        with _lock:
            known = _decoders.setdefault(kind, msgspec.json.Decoder(kind).decode)
    return known
