"""What nodes did in their billed seconds, from the recorded signals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from service.domain.idle.rollup import slots_of
from service.domain.idle.signals.activity import FOREVER, Activity, ActivitySlot, list_marks
from service.domain.metering.meter import Usage
from service.store.unit import Unit

Mark = tuple[int, Activity]
"""The start of an activity, which lasts until the next mark."""


class Activities:
    """Cuts usage by the activity of its node. `warmup` is the number of seconds from READY that
    count as starting unless the node works sooner."""

    def __init__(self, slots: Mapping[str, Sequence[ActivitySlot]], warmup: int) -> None:
        """`slots` are the known slots of each node, in order."""
        self._slots = slots
        self._warmup = warmup
        self._marks: dict[str, Sequence[Mark]] = {}

    @classmethod
    def read_for(
        cls, unit: Unit, usages: Iterable[Usage], start: int, end: int, warmup: int
    ) -> Activities:
        """The activities of the nodes of `usages` in [start, end)."""
        ids = {usage.node_id for usage in usages if not usage.is_purchase}
        # a node that started before the window may have finished its start before it
        known = unit.idle_rollups.list_hours(ids, start - warmup, end)
        return cls({node_id: list(slots_of(hours)) for node_id, hours in known.items()}, warmup)

    def cut_usage(self, usage: Usage, start: int, end: int) -> Iterator[tuple[int, int, Activity]]:
        """The pieces of [start, end) of a usage, in order, each with the activity of the node. The
        activity of a reservation is unknown: it pays for capacity, used or not."""
        marks_of = self._marks.get(usage.id)
        if marks_of is None:
            marks_of = self._marks[usage.id] = self._marks_of(usage)
        first = max(0, bisect_right(marks_of, start, key=lambda mark: mark[0]) - 1)
        for (at, activity), (until, _) in pairwise(
            [*marks_of[first:], (FOREVER, Activity.UNKNOWN)]
        ):
            if at >= end:
                return
            if max(at, start) < min(until, end):
                yield max(at, start), min(until, end), activity

    def _marks_of(self, usage: Usage) -> Sequence[Mark]:
        if usage.is_purchase:
            return ((0, Activity.UNKNOWN),)
        # The slots that overlap the usage, each once: two incarnations of a node may share one.
        found: dict[int, ActivitySlot] = {}
        for slot in self._slots.get(usage.node_id, ()):
            if slot.end <= usage.start or (usage.end is not None and slot.start >= usage.end):
                continue
            other = found.get(slot.start)
            found[slot.start] = slot if other is None or slot.is_busy else other
        slots = [found[start] for start in sorted(found)]
        return list_marks(slots, usage.start, usage.start + self._warmup)
