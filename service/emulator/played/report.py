"""The report of a played worker, and the limits of its PUTs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MINUTE = 60.0


class Weight(IntEnum):
    """The urgency of a change of the report."""

    DETAIL = 1
    STATE = 2
    END = 3


MOST_PUTS = {Weight.DETAIL: 2, Weight.STATE: 3, Weight.END: 4}
"""The allowed PUTs in a minute by weight, always below five; further reports wait."""


@dataclass
class Record:
    """The record of one attempt on a worker's disk. Instants are whole UTC seconds."""

    attempt: str
    boot: str = ""
    """The boot in which the container started; empty before."""
    seen_in: int = 0
    """The last boot, counted from 1, with a step of this attempt."""
    released: bool = False
    state: str = "IDLE"
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    pull_started_at: int | None = None
    pulled_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    image_digest: str = ""
    access: str = ""
    done_at: int | None = None
    checkpoint: int | None = None
    checkpoint_at: int | None = None
    step: int | None = None
    step_at: int | None = None
    shipped: int = 0
    """Bytes of output."""
    lines: int = 0

    @property
    def has_ended(self) -> bool:
        return self.state == "EXITED"

    def to_report(self) -> dict[str, Any]:
        """Return the report's fields of the attempt; defaults after its release."""
        record = Record("") if self.released else self
        hidden = {"attempt", "boot", "seen_in", "released", "shipped", "lines"}
        shown = {name: value for name, value in vars(record).items() if name not in hidden}
        counts = {"shipped": record.shipped, "lines": record.lines, "dropped": 0, "cut": 0}
        logs = {**counts, "error": ""}
        return {**shown, "devices": None, "logs": logs, "tail": "", "warnings": []}


@dataclass
class Puts:
    """The PUTs of the last minute, fewer than five in any sixty seconds."""

    speed: float
    times: deque[float] = field(default_factory=lambda: deque(maxlen=max(MOST_PUTS.values())))

    def free_at(self, at: float, weight: Weight, least: float) -> float:
        """Return the earliest time from `at` on when a report of that weight may be PUT.

        Details wait at least `least` seconds after the last PUT.
        """
        minute = MINUTE / self.speed
        recent = [time for time in self.times if time > at - minute]
        allowed = MOST_PUTS[weight]
        free = recent[-allowed] + minute if len(recent) >= allowed else at
        if weight is Weight.DETAIL and recent:
            free = max(free, recent[-1] + least / self.speed)
        return max(free, at)
