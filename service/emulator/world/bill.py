"""The bill of the emulated cloud: every billable second, from the state changes of nodes.

Tests compare the service's ledger with this bill, so it shares no code with the ledger.
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
    """A node's change of state. `before` is empty at its creation, `after` once it is gone."""

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
    """The whole seconds of one READY period, in unix seconds; `end` is None while it lasts."""

    name: str
    uid: int
    accelerator_type: str
    zone: str
    provisioning_model: str
    start: int
    end: int | None
    chips: int
    rule: str = READY_RULE

    def with_end(self, now: int) -> BillEntry:
        return replace(self, end=max(now, self.start)) if self.end is None else self

    def clipped_to(self, start: float, end: float) -> BillEntry | None:
        """Return the part inside a window, in whole seconds; None if there is none."""
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

    def record_transition(self, transition: Transition) -> None:
        if transition.before == "READY":
            index = self._open.pop(transition.uid)
            self._entries[index] = self._entries[index].with_end(math.floor(transition.at))
        if transition.after == "READY":
            self._open[transition.uid] = len(self._entries)
            self._entries.append(
                BillEntry(
                    name=transition.name,
                    uid=transition.uid,
                    accelerator_type=transition.accelerator_type,
                    zone=transition.zone,
                    provisioning_model=transition.provisioning_model,
                    start=math.floor(transition.at),
                    end=None,
                    chips=transition.chips,
                )
            )
        created = math.floor(transition.created)
        if transition.after == "PREEMPTED" and math.floor(transition.at) - created < FREE_SECONDS:
            for index in range(len(self._entries) - 1, -1, -1):
                entry = self._entries[index]
                # Entries before the creation of the node are skipped for speed.
                if entry.start < created:
                    break
                if entry.uid == transition.uid:
                    self._entries[index] = replace(entry, rule=FREE_RULE)

    def list_entries(
        self, now: float, start: float = -math.inf, end: float = math.inf
    ) -> list[dict[str, Any]]:
        """List the entries of a window of time; open entries end now."""
        closed = (entry.with_end(math.floor(now)) for entry in self._entries)
        if math.isinf(start) and math.isinf(end):
            return [entry.as_dict() for entry in closed]
        low, high = max(start, 0.0), min(end, now + 1)
        clipped = (entry.clipped_to(low, high) for entry in closed)
        return [entry.as_dict() for entry in clipped if entry is not None]

    def clear(self) -> None:
        self._entries.clear()
        self._open.clear()
