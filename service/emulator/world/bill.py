"""The emulated cloud's own account of every billable second, kept from what nodes went through.

It is the truth that a ledger can be held against, so it shares nothing with one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

FREE_SECONDS = 60
READY_RULE = "ready"
FREE_RULE = "preempted-in-first-minute"


@dataclass(frozen=True, slots=True)
class Transition:
    """A node going from one state to another; `before` is empty at birth, `after` at the end."""

    at: float
    name: str
    uid: int
    accelerator_type: str
    chips: int
    zone: str
    provisioning_model: str
    created: float
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class BillEntry:
    """Whole seconds from READY to leaving READY; `end` is None while it lasts."""

    name: str
    uid: int
    accelerator_type: str
    zone: str
    provisioning_model: str
    start: int
    end: int | None
    chips: int
    rule: str = READY_RULE

    def closed(self, now: int) -> BillEntry:
        return replace(self, end=max(now, self.start)) if self.end is None else self

    def clipped(self, start: float, end: float) -> BillEntry | None:
        """Keep the whole seconds inside the window, or None if it has no part in it."""
        assert self.end is not None
        low, high = max(self.start, math.ceil(start)), min(self.end, math.ceil(end))
        instant = self.start == self.end and start <= self.start < end
        return replace(self, start=low, end=high) if low < high or instant else None

    def as_dict(self) -> dict[str, Any]:
        assert self.end is not None
        seconds = 0 if self.rule == FREE_RULE else self.end - self.start
        return {**asdict(self), "seconds": seconds}


class Bill:
    """Entries outlive their nodes."""

    def __init__(self) -> None:
        self._entries: list[BillEntry] = []
        self._open: dict[int, int] = {}

    def observe(self, transition: Transition) -> None:
        if transition.before == "READY":
            index = self._open.pop(transition.uid)
            self._entries[index] = self._entries[index].closed(math.floor(transition.at))
        if transition.after == "READY":
            self._open[transition.uid] = len(self._entries)
            self._entries.append(_opened(transition))
        if transition.after == "PREEMPTED" and _in_first_minute(transition):
            self._waive(transition.uid, math.floor(transition.created))

    def entries(
        self, now: float, start: float = -math.inf, end: float = math.inf
    ) -> list[dict[str, Any]]:
        """List what was billed in a window of time, open entries up to now."""
        closed = (entry.closed(math.floor(now)) for entry in self._entries)
        if math.isinf(start) and math.isinf(end):
            return [entry.as_dict() for entry in closed]
        low, high = max(start, 0.0), min(end, now + 1)
        clipped = (entry.clipped(low, high) for entry in closed)
        return [entry.as_dict() for entry in clipped if entry is not None]

    def clear(self) -> None:
        self._entries.clear()
        self._open.clear()

    def _waive(self, uid: int, created: int) -> None:
        """Look at no entry that began before the node was created."""
        for index in range(len(self._entries) - 1, -1, -1):
            entry = self._entries[index]
            if entry.start < created:
                return
            if entry.uid == uid:
                self._entries[index] = replace(entry, rule=FREE_RULE)


def _opened(transition: Transition) -> BillEntry:
    return BillEntry(
        name=transition.name,
        uid=transition.uid,
        accelerator_type=transition.accelerator_type,
        zone=transition.zone,
        provisioning_model=transition.provisioning_model,
        start=math.floor(transition.at),
        end=None,
        chips=transition.chips,
    )


def _in_first_minute(transition: Transition) -> bool:
    return math.floor(transition.at) - math.floor(transition.created) < FREE_SECONDS
