"""A tick of the cleanup daemon, with ten thousand nodes in one project."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog
from google.cloud.monitoring_v3 import ListTimeSeriesResponse
from sqlalchemy import update

from service.application.cleanup.daemon import DaemonActs
from service.cloud.google.telemetry import GoogleTelemetry
from service.cloud.ports import Sample
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import TelemetryReader, at_once
from service.controllers.idle.report_reads import ReportReader
from service.domain.idle.assess import IdleTimes
from service.domain.idle.policy import Action
from service.domain.idle.signals.signal import MONITORED, Kind
from service.domain.nodes.node import IdlePolicy, NodeState, Place
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure
from tests.bench.monitoring import measure_pages
from tests.databases import fresh_database
from tests.hands import NOON, HandClock

NODES = 10_000
WARM, TICKS = 8, 10
LONG_AGO = NOON - 7_200
POLICY = IdlePolicy(after_seconds=3_600, grace_seconds=900, action="delete")
WORKS = {
    Kind.DUTY_CYCLE: 80.0,
    Kind.TENSORCORE: 40.0,
    Kind.TENSORCORE_IDLE: 0.0,
    Kind.ACTIVE_CHIPS: 8.0,
    Kind.UTILIZED_CHIPS: 8.0,
    Kind.SCHEDULED_CHIPS: 8.0,
    Kind.CPU: 60.0,
    Kind.NETWORK: 2e6,
}
RESTS = {kind: 1e6 if kind is Kind.TENSORCORE_IDLE else 0.0 for kind in MONITORED}
RESTING_SHARE = 4
"""One node in so many rests, the others work."""
DARK_SHARE = 20
"""One node in so many has no metrics, so that its reports are read."""


MOST_CALLS = 9
"""Calls of a tick: one for each metric, and two for the network, each of one page."""


class CountingClient:
    """Google's client as far as it is used: counts its calls, and answers one empty page."""

    def __init__(self) -> None:
        self.calls = 0

    def list_time_series(self, **_call: Any) -> SimpleNamespace:
        """One more call."""
        self.calls += 1
        return SimpleNamespace(pages=[ListTimeSeriesResponse()])


class MinuteTelemetry:
    """Every metric of every node, a point a minute; a read brings those of the time it asks for.
    Its calls are made by the real reader with a counting client."""

    def __init__(self) -> None:
        self.client = CountingClient()
        client: Any = self.client
        self._google = GoogleTelemetry(client)
        self._points: dict[Kind, dict[int, list[Sample]]] = {kind: {} for kind in MONITORED}

    def measure(self, start: int) -> None:
        """A minute goes by."""
        for kind in MONITORED:
            minutes = self._points[kind]
            minutes[start + 60] = [
                Sample(
                    str(number),
                    0,
                    "",
                    start,
                    start + 60,
                    (WORKS if number % RESTING_SHARE else RESTS)[kind],
                )
                for number in range(NODES)
                if number % DARK_SHARE
            ]
            minutes.pop(start - 360, None)

    def read_samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        """The calls of the real reader; then the points, which its client does not carry."""
        self._google.read_samples(project, kind, since, until)
        minutes = self._points[kind].items()
        return list(chain.from_iterable(some for end, some in minutes if since < end <= until))


class NamingCloud:
    """Answers the report of each worker with the id of its instance, and counts the reads."""

    def __init__(self) -> None:
        self.reads = 0

    def guest_attributes(self, place: Place, _namespace: str) -> Sequence[Mapping[str, str]]:
        """One worker, which names its instance."""
        self.reads += 1
        report = {"v": 1, "seq": 1, "instance": place.cloud_id.removeprefix("n-")}
        return [{"report": json.dumps(report)}]


def measure() -> list[Figure]:
    """The median tick in CPU of this process, reading and writing included; the calls for it. The
    pages of Google's client are counted apart."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        measured = [figure for kind in ("sqlite", "postgresql") for figure in _measure(kind)]
        return [*measured, *measure_pages(NODES)]
    finally:
        structlog.reset_defaults()


def _measure(kind: str) -> list[Figure]:
    with fresh_database(kind, Path(tempfile.mkdtemp())) as address:
        engine, clock = make_engine(address), HandClock()
        units, telemetry = Units(engine), MinuteTelemetry()
        fill_fleet(units)
        cloud: Any = NamingCloud()
        reports = ReportReader(cloud, clock, IdleTimes(), at_once)
        controller = IdleController(
            units,
            PriceBookCache(),
            clock,
            TelemetryReader(telemetry, clock, 300, at_once),
            DaemonActs(),
            IdleSettings(IdleTimes(), Action.DELETE, lambda: float(clock()), reports),
        )
        with units() as unit:
            lease = unit.leases.take("lab", "bench", 36_000)
        assert lease is not None
        with engine.begin() as connection:
            connection.execute(update(leases).values(held_since=LONG_AGO))
        took, reads = [], 0
        for number in range(WARM + TICKS):
            reads = cloud.reads if number == WARM else reads
            telemetry.measure(clock())
            clock.pass_(60)
            start = time.process_time()
            controller.tick(lease)
            took.append(time.process_time() - start)
        engine.dispose()
    measured = sorted(took[WARM:])
    calls = telemetry.client.calls / (WARM + TICKS)
    dark = NODES // DARK_SHARE
    name = f"cleanup of {NODES} nodes, {kind}"
    return [
        Figure(
            f"{name}: s of CPU for a tick",
            measured[len(measured) // 2],
            2,
            detail=f"slowest {measured[-1]:.2f} s, first {took[0]:.2f} s",
        ),
        Figure(f"{name}: calls of Monitoring in a tick", calls, MOST_CALLS),
        Figure(
            f"{name}: reads of reports in a tick",
            (cloud.reads - reads) / TICKS,
            dark / 5,
            detail=f"{dark} nodes are not covered",
        ),
    ]


def fill_fleet(units: Units) -> None:
    with units() as unit:
        for number in range(NODES):
            unit.usage.save(factories.usage(node_id=f"node-{number:05}", start=LONG_AGO))
            unit.nodes.add(
                factories.node(
                    id=f"node-{number:05}",
                    project="lab",
                    attempt=1,
                    state=NodeState.READY,
                    state_since=LONG_AGO,
                    up_since=LONG_AGO,
                    ready_at=LONG_AGO,
                    sent_at=LONG_AGO - 60,
                    cloud_id=f"n-{number}",
                    cloud_uid=str(number),
                    name=f"n-{number}",
                    owner=f"owner-{number % 50}",
                    idle=POLICY,
                    supervisor=True,
                    next_try_at=None,
                )
            )
