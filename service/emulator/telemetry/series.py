"""The time series of a metric, computed from the activity of each node on request."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from service.emulator.config.telemetry_settings import Telemetry
from service.emulator.nodes.activity import ActivityRun, Interruption, chips_per_worker
from service.emulator.nodes.nodes import NodeRecord, instance_id
from service.emulator.nodes.worker import Worker
from service.emulator.telemetry.metrics import (
    GCE_INSTANCE,
    GCE_WORKER,
    INTERRUPTION,
    Metric,
    is_silent,
)
from service.emulator.telemetry.samples import PERIOD, Spot, make_sampler
from service.emulator.wire import Node
from service.emulator.world.world import World

FULL_SECONDS = 42 * 86_400
"""After six weeks only one point in ten is left."""
LEGACY_ONLY = {"tpu/mxu/utilization"}

Labels = dict[str, str]


class Point(NamedTuple):
    """A value for the span from `start` to `end`, which are equal for a gauge."""

    end: float
    start: float
    value: float


@dataclass(frozen=True)
class SeriesWindow:
    """The requested span: after `start` up to `end`, with the points visible at `now`."""

    start: float
    end: float
    now: float

    def covers_moment(self, at: float) -> bool:
        return self.start < at <= self.end or at == self.start == self.end


@dataclass(frozen=True)
class Series:
    """The labels of one series, and the function that returns its points, newest first."""

    metric: Labels
    resource: Labels
    points: Callable[[SeriesWindow], list[Point]]

    @property
    def key(self) -> str:
        return json.dumps([self.resource, self.metric])


def list_series(
    world: World, project: str, metric: Metric, window: SeriesWindow
) -> Iterator[Series]:
    """Yield every series that a metric may have in a window, always in the same order."""
    records = sorted((*world.past, *world.nodes.values()), key=lambda record: record.message.id)
    for record in records:
        # Legacy TPU Nodes have no accelerator metrics, and TPU VMs have no legacy metrics.
        is_legacy = record.message.api_version == Node.ApiVersion.V1
        gce_only = metric.resource in {GCE_WORKER, GCE_INSTANCE}
        lacks_metric = gce_only if is_legacy else metric.path in LEGACY_ONLY
        if record.place.project == project and not lacks_metric:
            # A run counts until a minute after its end: an interruption counts at the end of its
            # minute.
            runs = [
                run
                for run in record.activity.runs
                if run.end is None or run.end + PERIOD >= window.start
            ]
            yield from _node_series(world, record, metric, runs)


def _node_series(
    world: World, record: NodeRecord, metric: Metric, runs: list[ActivityRun]
) -> Iterator[Series]:
    if not runs:
        return
    missing = world.config.telemetry.missing
    place = record.place
    where = place.zone, record.accelerator.generation, record.name
    for worker in range(record.accelerator.hosts):
        if missing and is_silent(metric, (*where, f"worker-{worker}"), missing):
            continue
        instance = str(instance_id(record, worker))
        if metric.resource == GCE_WORKER:
            resource = {
                "resource_container": place.project,
                "location": place.zone,
                "worker_id": instance,
            }
        elif metric.resource == GCE_INSTANCE:
            resource = {"project_id": place.project, "zone": place.zone, "instance_id": instance}
        else:
            resource = {
                "project_id": place.project,
                "zone": place.zone,
                "node_id": str(record.message.id),
                "worker_id": str(worker),
            }

        if metric.path == "instance/interruption_count":
            yield from _interruption_series(world, record, worker, resource)
            continue
        for labels, part, parts in _list_parts(world, record, worker, metric):
            spots = [Spot(record, run, worker, part, parts) for run in runs]
            yield Series(
                labels, resource, _Sampled(world, metric, spots, resource, labels).list_points
            )


def _list_parts(
    world: World, record: NodeRecord, worker: int, metric: Metric
) -> Iterator[tuple[Labels, int | None, int]]:
    """Name the chips or cores that have a series of their own, or the host as a whole."""
    chips = chips_per_worker(record)
    if metric.labels == ("core",):
        cores = world.config.telemetry.cores
        yield from (({"core": str(core)}, core, cores) for core in range(cores))
    elif metric.labels == ("chip",):
        yield from (({"chip": str(chip)}, chip, chips) for chip in range(chips))
    elif metric.labels == ("accelerator_id",):
        instance = instance_id(record, worker)
        for chip in range(chips):
            number = chip_coordinate(record, worker, chip) if "duty_cycle" in metric.path else chip
            yield {"accelerator_id": f"{instance}-{number}"}, chip, chips
    else:
        yield {}, 0, 1


def chip_coordinate(record: NodeRecord, worker: int, chip: int) -> int:
    """Return a chip's number by its place in the slice, where hosts are blocks of 2x2 chips.

    Seen in the field: duty cycles use this number, other metrics the number within the host.
    """
    sides = [int(side) for side in record.accelerator.topology.split("x")]
    width, height = sides[0], sides[1]
    across = min(width, 2)
    down = chips_per_worker(record) // across
    column, rest = worker % (width // across), worker // (width // across)
    row, layer = rest % max(1, height // down), rest // max(1, height // down)
    x, y = column * across + chip % across, row * down + chip // across
    return x + width * (y + height * layer)


class _Sampled:
    """The points of one series: one a minute while the machine was up."""

    def __init__(
        self, world: World, metric: Metric, spots: list[Spot], resource: Labels, labels: Labels
    ) -> None:
        self._metric = metric
        self._spots = spots
        self._dice = _Dice(
            world, f"{metric.path}{sorted(resource.items())}{sorted(labels.items())}"
        )

    def list_points(self, window: SeriesWindow) -> list[Point]:
        found: list[Point] = []
        for spot in reversed(self._spots):
            sample = None
            for at in self._list_moments(spot, window):
                if not self._dice.is_visible(at, window.now):
                    continue
                sample = sample or make_sampler(self._metric.path, spot)
                value = sample(at)
                if value is not None:
                    start = at - PERIOD if self._metric.kind == "DELTA" else at
                    found.append(Point(at, start, value))
        return found

    def _list_moments(self, spot: Spot, window: SeriesWindow) -> Iterator[float]:
        """Yield the minutes of a window backwards, at this worker's own second of the minute."""
        run, since = spot.run, spot.record.activity.since
        phase = instance_id(spot.record, spot.worker) % PERIOD
        last = min(window.end, window.now, math.inf if run.end is None else run.end)
        first = max(window.start, run.start, since)
        at = float((last - phase) // PERIOD * PERIOD + phase)
        while at >= first:
            old = window.now - at > FULL_SECONDS and (at // PERIOD) % 10
            if window.covers_moment(at) and at > run.start and not old:
                yield at
            at -= PERIOD


class _Dice:
    """Which points of a series are late and which are lost, always the same for one seed."""

    def __init__(self, world: World, series: str) -> None:
        self._settings: Telemetry = world.config.telemetry
        self._speed = world.config.speed
        self._series = zlib.crc32(f"{world.seed}/{series}/".encode())
        self._delay = self._scaled_delay(self._draw_share("delay"))

    def is_visible(self, at: float, now: float) -> bool:
        # Most points are read long after they became visible.
        settings = self._settings
        if settings.gap_share and self._draw_share(f"gap/{at}") < settings.gap_share:
            return False
        late = settings.late_share and self._draw_share(f"late/{at}") < settings.late_share
        return at + self._delay + (self._scaled_delay(1.0) if late else 0.0) <= now

    def _scaled_delay(self, share: float) -> float:
        return share * self._settings.delay_seconds / self._speed

    def _draw_share(self, what: str) -> float:
        # Continues the checksum of the series' name: equal to the checksum of the whole text.
        return zlib.crc32(what.encode(), self._series) / 2**32


def _interruption_series(
    world: World, record: NodeRecord, worker: int, resource: Labels
) -> Iterator[Series]:
    """Yield the interruption counts, at the end of their minute; other minutes have no point."""
    name = Worker(record, worker).name

    def kind_of(interruption: Interruption) -> tuple[str, str]:
        return interruption.type, interruption.reason

    interruptions = sorted(record.activity.interruptions, key=kind_of)
    for (type_, reason), group in groupby(interruptions, kind_of):
        labels = dict(zip(INTERRUPTION, (name, type_, reason), strict=True))
        moments = [math.ceil(interruption.at / PERIOD) * PERIOD for interruption in group]
        dice = _Dice(world, f"interruption/{resource}/{labels}")
        yield Series(labels, resource, _Counted(moments, dice).list_points)


@dataclass(frozen=True)
class _Counted:
    moments: list[int]
    dice: _Dice

    def list_points(self, window: SeriesWindow) -> list[Point]:
        ends = sorted({float(at) for at in self.moments if window.covers_moment(at)}, reverse=True)
        return [
            Point(at, at, self.moments.count(int(at)))
            for at in ends
            if self.dice.is_visible(at, window.now)
        ]
