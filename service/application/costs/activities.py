"""What nodes did with their billed seconds, from our own record of their signals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from service.domain.idle.activity import FOREVER, Activity, ActivitySlot, marks
from service.domain.idle.rollup import slots_of
from service.domain.metering.meter import Usage
from service.store.unit import Unit

Mark = tuple[int, Activity]
"""From when on a node did what, until the next mark."""


class Activities:
    """Cuts usage by what its node did: `warmup` is how many seconds from READY on count as starting
    unless the node works sooner."""

    def __init__(self, slots: Mapping[str, Sequence[ActivitySlot]], warmup: int) -> None:
        """`slots` are what is known of each node, in order."""
        self._slots = slots
        self._warmup = warmup
        self._marks: dict[str, Sequence[Mark]] = {}

    @classmethod
    def read(
        cls, unit: Unit, usages: Iterable[Usage], start: int, end: int, warmup: int
    ) -> Activities:
        """What is known of the nodes of usages in [start, end)."""
        ids = {usage.node_id for usage in usages if not usage.is_purchase}
        # a node that started before the window may have worked before it: it starts no more
        known = unit.idle_rollups.of(ids, start - warmup, end)
        return cls({node_id: list(slots_of(hours)) for node_id, hours in known.items()}, warmup)

    def cut(self, usage: Usage, start: int, end: int) -> Iterator[tuple[int, int, Activity]]:
        """[start, end) of a usage in pieces, in order, each with what the node did. Of a
        reservation nothing is known: it pays for capacity, used or not."""
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
        slots = _within(self._slots.get(usage.node_id, ()), usage)
        return marks(slots, usage.start, usage.start + self._warmup)


def _within(slots: Sequence[ActivitySlot], usage: Usage) -> Sequence[ActivitySlot]:
    """The slots that overlap a usage, each once: two incarnations of a node may share one."""
    found: dict[int, ActivitySlot] = {}
    for slot in slots:
        if slot.end <= usage.start or (usage.end is not None and slot.start >= usage.end):
            continue
        other = found.get(slot.start)
        found[slot.start] = slot if other is None or slot.is_busy else other
    return [found[start] for start in sorted(found)]
