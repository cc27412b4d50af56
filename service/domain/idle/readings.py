"""The node and worker of each measurement, and the tracks after many measurements. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from service.domain.clock import DAY
from service.domain.idle.proof import MetricFamily
from service.domain.idle.signals.signal import (
    COUNTED,
    MONITORED,
    Kind,
    Reading,
    SignalTrack,
    with_reading,
)

ABSENT_SECONDS = DAY
"""A metric without a series for this long counts as absent from the project."""


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
    """The cloud's names of the workers of our nodes. `parts` has the node and the number of its
    first worker by Google's id of the node or slice, `instances` the node and the worker by the
    instance id that its supervisor reports, `up_since` when each node came up."""

    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    instances: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    up_since: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FamilyRead:
    """The reads of one metric of a project: the end of its newest series, the last successful read
    (whole UTC seconds, None for never), and the error of the newest read."""

    seen_at: int | None = None
    read_at: int | None = None
    error: str = ""


Tracks = Mapping[tuple[int, Kind], SignalTrack]


@dataclass(frozen=True, slots=True)
class Measurements:
    """The result of samples: the tracks of the changed nodes, the new readings, and by metric the
    samples of machines that are not known as ours."""

    tracks: Mapping[str, Tracks]
    readings: Mapping[str, Sequence[Reading]]
    strange: Mapping[Kind, Sequence[MeasuredValue]] = field(default_factory=dict)


def with_samples(
    tracks: Mapping[str, Tracks],
    workers: WorkerNames,
    samples: Iterable[tuple[Kind, Iterable[MeasuredValue]]],
    oldest: int,
) -> Measurements:
    """Return the newer tracks of nodes with the readings of measurements. Rest before `oldest` is
    dropped. The order of the samples does not matter, and known samples change nothing."""
    changed: dict[str, dict[tuple[int, Kind], SignalTrack]] = {}
    readings: dict[str, list[Reading]] = {}
    strange: dict[Kind, list[MeasuredValue]] = {}
    parts, instances = workers.parts, workers.instances
    for kind, of_kind in samples:
        for sample in sorted(of_kind, key=_IN_ORDER):
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
                reading = _cut_at_boot(reading, workers.up_since.get(node_id, 0))
            if before is not None and end < before.end and before.includes_reading(reading):
                continue
            if mine is None:
                mine = changed[node_id] = {**known}
                readings[node_id] = []
            mine[key] = with_reading(before, reading, oldest)
            readings[node_id].append(reading)
    return Measurements(changed, readings, strange)


_NO_TRACKS: Tracks = {}


_IN_ORDER = attrgetter("node_uid", "instance_id", "end")
"""Samples by node, the earlier first. The same order of ten thousand nodes for each metric is
faster, as memory is read from front to back."""
_END = attrgetter("end")


def _cut_at_boot(reading: Reading, up_since: int) -> Reading:
    """The reading of an idle counter, from the counter's begin if the machine has just come up. A
    counter below its span then shows no work, but rest since its begin."""
    began = reading.end - int(reading.value)
    is_below = reading.start < began < reading.end
    is_of_boot = is_below and began <= up_since + reading.end - reading.start
    return reading._replace(start=began) if is_of_boot else reading


def family_of(read: FamilyRead, now: int, patience: int) -> MetricFamily:
    """Return whether a project has readings of a metric, by the latest reads. FAILED where the
    newest read failed, or none succeeded for longer than `patience`: only a successful read shows
    that a metric is absent."""
    if read.error or read.read_at is None or now - read.read_at > patience:
        return MetricFamily.FAILED
    is_there = read.seen_at is not None and now - read.seen_at < ABSENT_SECONDS
    return MetricFamily.PRESENT if is_there else MetricFamily.ABSENT


def families_of(
    reads: Mapping[Kind, FamilyRead], now: int, telemetry: int, period: int
) -> Mapping[Kind, MetricFamily]:
    """Return for each metric whether the project has readings of it."""
    patience = patience_of(telemetry, period)
    return {kind: family_of(reads.get(kind, FamilyRead()), now, patience) for kind in MONITORED}


def is_read_since(
    reads: Mapping[Kind, FamilyRead], families: Mapping[Kind, MetricFamily], since: int
) -> bool:
    """Whether the readings of every metric that counts, and that the project has, were read since
    `since`."""
    present = [kind for kind in COUNTED if families.get(kind) is MetricFamily.PRESENT]
    return all((reads[kind].read_at or 0) >= since for kind in present)


def patience_of(telemetry: int, period: int) -> int:
    """Return the seconds for which readings of a metric count: the delay of points, and three
    ticks."""
    return telemetry + 3 * period


def newest_end(samples: Iterable[MeasuredValue]) -> int | None:
    """Return the end of the newest reading among the samples; None without a sample."""
    return max(map(_END, samples), default=None)
