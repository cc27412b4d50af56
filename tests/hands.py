"""A clock whose hands a test moves."""

from __future__ import annotations

NOON = 1_793_880_000
"""2026-11-05T12:00:00Z, a quiet Thursday."""


class HandClock:
    """Answers the same second until it is moved."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_(self, seconds: int) -> int:
        """Let seconds pass; answers the new instant."""
        self.now += seconds
        return self.now
