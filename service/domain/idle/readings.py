"""Which node and worker a measurement is about, and what is known from many of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from service.domain.clock import DAY
from service.domain.idle.proof import MetricFamily
from service.domain.idle.signal import COUNTED, MONITORED, Kind, Reading, SignalTrack, read

ABSENT_SECONDS = DAY
"""A metric without any series for so long is one that the project does not have."""


class MeasuredValue(Protocol):
    """A value of one worker; see `service.cloud.ports.Sample`."""

    @property
    def node_uid(self) -> str: ...
    @property
    def worker(self) -> int: ...
    @property
    def instance_id(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def value(self) -> float: ...


@dataclass(frozen=True, slots=True)
class WorkerNames:
    """How the cloud calls the workers of our nodes. `parts` has the node and the number of its
    first worker by Google's id of the node or slice, `instances` the node and the worker by the id
    of its instance, as its supervisor reports it, `up_since` when each node came up."""

    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    instances: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    up_since: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FamilyRead:
    """What was read of one metric of a project: the end of its newest series, when a read succeeded
    last (whole UTC seconds, None for never), and why the newest one failed."""

    seen_at: int | None = None
    read_at: int | None = None
    error: str = ""


Tracks = Mapping[tuple[int, Kind], SignalTrack]


@dataclass(frozen=True, slots=True)
class Measurements:
    """What samples brought: the tracks of the nodes that changed, the readings that were not known
    yet, and the samples of machines that are not ours, or not known to be, by metric."""

    tracks: Mapping[str, Tracks]
    readings: Mapping[str, Sequence[Reading]]
    strange: Mapping[Kind, Sequence[MeasuredValue]] = field(default_factory=dict)


def with_samples(
    tracks: Mapping[str, Tracks],
    workers: WorkerNames,
    samples: Iterable[tuple[Kind, Iterable[MeasuredValue]]],
    oldest: int,
) -> Measurements:
    """The newer tracks of nodes after measurements; what was at rest before `oldest` is forgotten.
    The order of the samples does not matter, and what is known already changes nothing."""
    changed: dict[str, dict[tuple[int, Kind], SignalTrack]] = {}
    readings: dict[str, list[Reading]] = {}
    strange: dict[Kind, list[MeasuredValue]] = {}
    parts, instances = workers.parts, workers.instances
    for kind, some in samples:
        for sample in sorted(some, key=_IN_ORDER):
            if sample.instance_id:
                place, number = instances.get(sample.instance_id), 0
            else:
                place, number = parts.get(sample.node_uid), sample.worker
            if place is None:
                strange.setdefault(kind, []).append(sample)
                continue
            node_id, worker = place[0], place[1] + number
            key = (worker, kind)
            mine = changed.get(node_id)
            known = tracks.get(node_id, _NO_TRACKS) if mine is None else mine
            before = known.get(key)
            end = sample.end
            reading = Reading(worker, kind, sample.start, end, sample.value)
            if kind is Kind.TENSORCORE_IDLE:
                reading = _from_boot(reading, workers.up_since.get(node_id, 0))
            if before is not None and end < before.end and before.holds(reading):
                continue
            if mine is None:
                mine = changed[node_id] = {**known}
                readings[node_id] = []
            mine[key] = read(before, reading, oldest)
            readings[node_id].append(reading)
    return Measurements(changed, readings, strange)


_NO_TRACKS: Tracks = {}


_IN_ORDER = attrgetter("node_uid", "instance_id", "end")
"""Node by node, the earlier first. To go through ten thousand nodes in the same order for each
metric is faster, as memory is read from front to back."""
_END = attrgetter("end")


def _from_boot(reading: Reading, up_since: int) -> Reading:
    """An idle counter that is below its span because the machine has just come up shows no work:
    then it tells of rest since the counter began."""
    began = reading.end - int(reading.value)
    is_below = reading.start < began < reading.end
    is_of_boot = is_below and began <= up_since + reading.end - reading.start
    return reading._replace(start=began) if is_of_boot else reading


def family_of(read: FamilyRead, now: int, patience: int) -> MetricFamily:
    """What a project has of one metric. FAILED where the newest read failed, or none succeeded for
    longer than `patience`: to know that a metric is absent takes a read that succeeds."""
    if read.error or read.read_at is None or now - read.read_at > patience:
        return MetricFamily.FAILED
    is_there = read.seen_at is not None and now - read.seen_at < ABSENT_SECONDS
    return MetricFamily.PRESENT if is_there else MetricFamily.ABSENT


def families_of(
    reads: Mapping[Kind, FamilyRead], now: int, telemetry: int, period: int
) -> Mapping[Kind, MetricFamily]:
    """What a project has of each metric that is read."""
    patience = patience_of(telemetry, period)
    return {kind: family_of(reads.get(kind, FamilyRead()), now, patience) for kind in MONITORED}


def is_read_since(
    reads: Mapping[Kind, FamilyRead], families: Mapping[Kind, MetricFamily], since: int
) -> bool:
    """Whether every metric that counts, and that the project has, was read since then."""
    present = [kind for kind in COUNTED if families.get(kind) is MetricFamily.PRESENT]
    return all((reads[kind].read_at or 0) >= since for kind in present)


def patience_of(telemetry: int, period: int) -> int:
    """For how many seconds a read counts: as long as points are late, and three ticks more."""
    return telemetry + 3 * period


def newest(samples: Iterable[MeasuredValue]) -> int | None:
    """The end of the newest one; None for none."""
    return max(map(_END, samples), default=None)
