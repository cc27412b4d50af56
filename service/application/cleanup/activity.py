"""What a node did lately, from the recorded activity of its five-minute slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.idle.rollup import BUSY, IDLE, SLOT_SECONDS, SLOTS, ActivityHour
from service.domain.idle.signals.activity import Activity
from service.domain.idle.signals.signal import Kind


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """The activity of a node from `start` on, in slots of `SLOT_SECONDS`: BUSY, IDLE or UNKNOWN.
    `values` has the highest value of each signal over all workers in each slot; None without a
    value."""

    start: int
    slots: Sequence[Activity] = ()
    values: Mapping[Kind, Sequence[float | None]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The end of the last slot."""
        return self.start + SLOT_SECONDS * len(self.slots)


_ACTIVITIES: Mapping[str, Activity] = {BUSY: Activity.BUSY, IDLE: Activity.IDLE}


def join_hours(hours: Sequence[ActivityHour], start: int, end: int) -> RecentActivity:
    """The slots of [start, end), whole slots, from hours of one or several incarnations. Pure.

    A slot without a record is UNKNOWN. Of two incarnations in one slot, the later one counts where
    it knows something.
    """
    count = (end - start) // SLOT_SECONDS
    slots = [Activity.UNKNOWN] * count
    values: dict[Kind, list[float | None]] = {}
    for hour in hours:
        for number in range(SLOTS):
            place = (hour.start - start) // SLOT_SECONDS + number
            if not 0 <= place < count:
                continue
            known = _ACTIVITIES.get(hour.levels[number])
            slots[place] = slots[place] if known is None else known
            for kind, of_kind in hour.values.items():
                if of_kind[number] is not None:
                    values.setdefault(kind, [None] * count)[place] = of_kind[number]
    return RecentActivity(start, slots, values)
