"""Idempotency keys, with which a repeated request takes effect once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A caller's Idempotency-Key, and the digest of the request body."""

    text: str
    digest: str
