"""What a node did with its money: seconds that were busy, idle, starting or unknown. Pure.

The cuts are what signals tell, and late points may move them. They divide what the ledger charges,
and never change its sum: `Meter.charge` gives the same total however time is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from service.domain.metering.meter import Meter

FOREVER = 2**53
"""Later than every instant."""


class Activity(StrEnum):
    """What a node was seen doing."""

    STARTING = "starting"
    """From READY until it worked or its warm-up was over."""
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ActivitySlot:
    """What rollups say of [start, end): whether anything was at work, and whether every worker was
    seen at rest."""

    start: int
    end: int
    is_busy: bool
    is_at_rest: bool


@dataclass(frozen=True, slots=True)
class ActivityCost:
    """Billed seconds, chip-seconds and nano-dollars."""

    seconds: int = 0
    chip_seconds: int = 0
    cost: int = 0

    def plus(self, meter: Meter, start: int, end: int) -> ActivityCost:
        """The sum with what a meter charges for [start, end)."""
        return ActivityCost(
            self.seconds + end - start,
            self.chip_seconds + meter.chip_seconds(start, end),
            self.cost + meter.charge(start, end),
        )


def marks(
    slots: Sequence[ActivitySlot], ready_at: int | None, warm_at: int
) -> Sequence[tuple[int, Activity]]:
    """From when on a node did what, in order: the first mark is the beginning of time. Slots are in
    order and apart; between them nothing is known, but for the time before the warm-up was over."""
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
            found += [(start, _of(slot)), (slot.end, Activity.UNKNOWN)]
    return tuple(_merged(found))


def _of(slot: ActivitySlot) -> Activity:
    if slot.is_busy:
        return Activity.BUSY
    return Activity.IDLE if slot.is_at_rest else Activity.UNKNOWN


def _merged(found: Sequence[tuple[int, Activity]]) -> Iterator[tuple[int, Activity]]:
    """Of marks at one instant the last one counts; what stays the same needs no mark."""
    latest: dict[int, Activity] = dict(found)
    before = None
    for at in sorted(latest):
        if latest[at] is not before:
            before = latest[at]
            yield at, before


def amounts(
    meters: Sequence[Meter], found: Sequence[tuple[int, Activity]]
) -> Mapping[Activity, ActivityCost]:
    """What the meters of a node charge, by what it did. The four come to what the ledger charges,
    to the nano-dollar."""
    totals = dict.fromkeys(Activity, ActivityCost())
    for meter in meters:
        first, last = meter.usage.start, meter.end
        for (at, activity), (until, _) in pairwise([*found, (FOREVER, Activity.UNKNOWN)]):
            start, end = max(at, first), min(until, last)
            if start < end:
                totals[activity] = totals[activity].plus(meter, start, end)
    return totals
