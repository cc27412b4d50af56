"""What a caller says so that the same wish told twice is one wish."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A caller's Idempotency-Key, and what tells the body that it came with from any other."""

    text: str
    digest: str
