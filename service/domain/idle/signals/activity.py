"""The cost of a node by activity: seconds that were busy, idle, starting or unknown. Pure.

The cuts come from signals, and late points may move them. They divide the ledger's charge, and
never change its sum: `Meter.charge_in` gives the same total however time is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FOREVER = 2**53
"""Later than every instant."""


class Activity(StrEnum):
    """What a node was seen doing."""

    STARTING = "starting"
    """From READY until the first work or the end of the warm-up."""
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ActivitySlot:
    """The activity in [start, end) by rollups: whether a worker, a job or a heartbeat showed work,
    and whether every worker was quiet."""

    start: int
    end: int
    is_busy: bool
    is_at_rest: bool


def list_marks(
    slots: Sequence[ActivitySlot], ready_at: int | None, warm_at: int
) -> Sequence[tuple[int, Activity]]:
    """Return the activities of a node, each with its start, in order. The first starts at 0. Slots
    are in order and apart; the time between them is unknown, except for the warm-up. Of several
    activities at one instant the last counts, and an unchanged activity is not repeated."""
    found: list[tuple[int, Activity]] = [(0, Activity.UNKNOWN)]
    if ready_at is not None:
        worked = next(
            (slot.start for slot in slots if slot.is_busy and slot.end > ready_at), warm_at
        )
        until = max(ready_at, min(worked, warm_at))
        found += [(ready_at, Activity.STARTING), (until, Activity.UNKNOWN)]
    starting_until = found[-1][0]
    for slot in slots:
        start = max(slot.start, starting_until)
        if start < slot.end:
            quiet = Activity.IDLE if slot.is_at_rest else Activity.UNKNOWN
            activity = Activity.BUSY if slot.is_busy else quiet
            found += [(start, activity), (slot.end, Activity.UNKNOWN)]
    merged: list[tuple[int, Activity]] = []
    for at, activity in sorted(dict(found).items()):
        if not merged or merged[-1][1] is not activity:
            merged.append((at, activity))
    return tuple(merged)
