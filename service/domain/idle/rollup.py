"""Rollups: what a node did in each five minutes, as late points tell it. Pure.

Monitoring forgets; this is our own record. A slot in which anything was seen at work stays busy,
whatever comes later; one of which nothing was known becomes idle or busy as points come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.clock import HOUR
from service.domain.idle.activity import Slot
from service.domain.idle.proof import COVERAGE_PERCENT
from service.domain.idle.signal import DEVICE_KINDS, Kind, Level, Reading, Track, level_of

SLOT_SECONDS = 300
SLOTS = HOUR // SLOT_SECONDS

BUSY, IDLE, UNKNOWN = "B", "I", "."


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of an incarnation of a node from `start`, a whole UTC second: a letter for each
    slot, and the highest value of each signal over all workers in it; None where there was none."""

    node_id: str
    incarnation: int
    start: int
    levels: str = UNKNOWN * SLOTS
    values: Mapping[Kind, Sequence[float | None]] = field(default_factory=dict)


def with_readings(hour: Hour, readings: Iterable[Reading]) -> Hour:
    """The hour with what readings show: the highest values, and the slots in which a device was at
    work. A reading belongs to every slot that it overlaps."""
    levels = list(hour.levels)
    values = {kind: list(known) for kind, known in hour.values.items()}
    for reading in readings:
        is_work = (
            reading.kind in (*DEVICE_KINDS, Kind.ACTIVE_CHIPS)
            and level_of(reading, was_quiet=False) is Level.ACTIVE
        )
        known = values.setdefault(reading.kind, [None] * SLOTS)
        for slot in _slots(hour, reading.start, reading.end):
            before = known[slot]
            known[slot] = reading.value if before is None else max(before, reading.value)
            if is_work:
                levels[slot] = BUSY
    return Hour(hour.node_id, hour.incarnation, hour.start, "".join(levels), values)


def with_rest(
    hour: Hour, tracks: Mapping[tuple[int, Kind], Track], workers: int, until: int
) -> Hour:
    """The hour with the slots that ended by `until` and in which every worker is proved at rest."""
    levels = list(hour.levels)
    for slot in range(SLOTS):
        start = hour.start + slot * SLOT_SECONDS
        if levels[slot] == UNKNOWN and start + SLOT_SECONDS <= until:
            rest = workers > 0 and all(_rests(tracks, one, start) for one in range(workers))
            levels[slot] = IDLE if rest else UNKNOWN
    return Hour(hour.node_id, hour.incarnation, hour.start, "".join(levels), hour.values)


def with_work(hour: Hour, start: int, end: int) -> Hour:
    """The hour with work in [start, end) that no reading shows: a job, a heartbeat."""
    levels = list(hour.levels)
    for slot in _slots(hour, start, end):
        levels[slot] = BUSY
    return Hour(hour.node_id, hour.incarnation, hour.start, "".join(levels), hour.values)


def slots_of(hours: Iterable[Hour]) -> Iterator[Slot]:
    """What the hours say, in order; slots of which nothing is known are left out."""
    for hour in hours:
        for number, level in enumerate(hour.levels):
            if level != UNKNOWN:
                start = hour.start + number * SLOT_SECONDS
                yield Slot(start, start + SLOT_SECONDS, level == BUSY, level == IDLE)


def _slots(hour: Hour, start: int, end: int) -> range:
    """The slots of the hour that [start, end) overlaps."""
    first, last = max(start, hour.start), min(end, hour.start + HOUR)
    if first >= last:
        return range(0)
    return range((first - hour.start) // SLOT_SECONDS, (last - 1 - hour.start) // SLOT_SECONDS + 1)


def _rests(tracks: Mapping[tuple[int, Kind], Track], worker: int, start: int) -> bool:
    """Whether one device signal of a worker covers nine tenths of the slot at rest."""
    end = start + SLOT_SECONDS
    return any(
        100 * track.covered(start, end) >= COVERAGE_PERCENT * SLOT_SECONDS
        for kind in DEVICE_KINDS
        if (track := tracks.get((worker, kind))) is not None
    )
