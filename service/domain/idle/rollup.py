"""Rollups: the activity of a node in each five minutes, also by late points. Pure.

Monitoring deletes old points; rollups are our own record. A busy slot stays busy; an unknown slot
becomes idle or busy as points come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.clock import HOUR
from service.domain.idle.proof import COVERAGE_PERCENT
from service.domain.idle.signals.activity import ActivitySlot
from service.domain.idle.signals.signal import (
    CHIPS_KINDS,
    DEVICE_KINDS,
    Kind,
    Level,
    Reading,
    SignalTrack,
    level_of,
)

SLOT_SECONDS = 300
SLOTS = HOUR // SLOT_SECONDS

BUSY, IDLE, UNKNOWN = "B", "I", "."

_WORKS = frozenset({*DEVICE_KINDS, *CHIPS_KINDS})

LONGEST_LATE = 6 * HOUR
"""Points that are later than this change no hour."""


@dataclass(frozen=True, slots=True)
class ActivityHour:
    """One hour of an incarnation of a node from `start`, a whole UTC second: a letter for each
    slot, and the highest value of each signal over all workers in it; None without a value."""

    node_id: str
    incarnation: int
    start: int
    levels: str = UNKNOWN * SLOTS
    values: Mapping[Kind, Sequence[float | None]] = field(default_factory=dict)


@dataclass(slots=True)
class UnwrittenUse:
    """The activity of a node that its written hours lack: by the start of each slot the highest
    value of each signal, and the slots with work."""

    values: dict[int, dict[Kind, float]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    def add(self, reading: Reading) -> None:
        """Add a reading to every slot that it overlaps."""
        _, kind, slot, end, value = reading
        values, busy = self.values, self.busy
        is_work = kind in _WORKS
        slot -= slot % SLOT_SECONDS
        while slot < end:
            highest = values.get(slot)
            if highest is None:
                values[slot] = {kind: value}
            elif value > highest.get(kind, -1.0):  # no signal is below zero
                highest[kind] = value
            if is_work and slot not in busy:
                is_work = level_of(reading, was_quiet=False) is Level.ACTIVE
                if is_work:
                    busy.add(slot)
            slot += SLOT_SECONDS

    def add_work(self, start: int, end: int) -> None:
        """Add work in [start, end) that no reading shows: a job, a heartbeat."""
        self.busy.update(range(start - start % SLOT_SECONDS, end, SLOT_SECONDS))

    @property
    def first_slot(self) -> int | None:
        """The start of the earliest slot; None without a slot."""
        return min((*self.busy, *self.values), default=None)


def with_lately(hour: ActivityHour, lately: UnwrittenUse) -> ActivityHour:
    """Return the rollup of an hour with the activity that it lacks; the same hour without such
    activity."""
    first, end = hour.start, hour.start + HOUR
    busy = [start for start in lately.busy if first <= start < end]
    new = [start for start in lately.values if first <= start < end]
    if not busy and not new:
        return hour
    levels = list(hour.levels)
    for start in busy:
        levels[(start - first) // SLOT_SECONDS] = BUSY
    values = {kind: list(known) for kind, known in hour.values.items()}
    for start in new:
        slot = (start - first) // SLOT_SECONDS
        for kind, value in lately.values[start].items():
            known = values.setdefault(kind, [None] * SLOTS)
            before = known[slot]
            if before is None or value > before:
                known[slot] = value
    return ActivityHour(hour.node_id, hour.incarnation, first, "".join(levels), values)


def with_rest(
    hour: ActivityHour, tracks: Mapping[tuple[int, Kind], SignalTrack], workers: int, until: int
) -> ActivityHour:
    """Return the rollup of an hour with the slots that ended by `until` in proved rest. Every
    worker is proved to be quiet: readings of one device signal cover nine tenths of the slot."""
    if UNKNOWN not in hour.levels:
        return hour
    resting = [
        [
            track
            for kind in DEVICE_KINDS
            if (track := tracks.get((worker, kind))) is not None and track.at_rest
        ]
        for worker in range(workers)
    ]
    if not resting or not all(resting):
        return hour
    levels = list(hour.levels)
    for slot in range(SLOTS):
        start = hour.start + slot * SLOT_SECONDS
        end = start + SLOT_SECONDS
        if levels[slot] == UNKNOWN and end <= until:
            rest = all(
                any(
                    100 * track.seconds_at_rest(start, end) >= COVERAGE_PERCENT * SLOT_SECONDS
                    for track in signals
                )
                for signals in resting
            )
            levels[slot] = IDLE if rest else UNKNOWN
    return ActivityHour(hour.node_id, hour.incarnation, hour.start, "".join(levels), hour.values)


def hours_since(first: int | None, now: int) -> range:
    """Return the starts of the hours whose rollups change by activity from `first` on. Slots that
    are proved to be quiet only now change them as well."""
    earliest = now - HOUR // 3
    start = max(min(earliest if first is None else first, earliest), now - LONGEST_LATE)
    return range(start // HOUR * HOUR, now + 1, HOUR)


def slots_of(hours: Iterable[ActivityHour]) -> Iterator[ActivitySlot]:
    """Yield the slots of the hours' rollups in order, without unknown slots."""
    for hour in hours:
        for number, level in enumerate(hour.levels):
            if level != UNKNOWN:
                start = hour.start + number * SLOT_SECONDS
                yield ActivitySlot(start, start + SLOT_SECONDS, level == BUSY, level == IDLE)
