"""The controller of the jobs, with five hundred of them on fifty four-host nodes."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import structlog

from service.store.engine import make_engine
from service.store.unit import Units
from tests.bench.figure import Figure
from tests.controllers.jobs.conftest import JobLab
from tests.controllers.jobs.fleet import JobFleet
from tests.databases import fresh_database
from tests.fakes import FakeCloud
from tests.hands import HandClock

NODES, IN_LINE = 50, 10
MINUTES = 10


def measure() -> list[Figure]:
    """The slowest tick of ten minutes in which every node works, in CPU of this process; the calls
    of those minutes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        return [figure for kind in ("sqlite", "postgresql") for figure in _measure(kind)]
    finally:
        structlog.reset_defaults()


def _measure(kind: str) -> list[Figure]:
    with fresh_database(kind, Path(tempfile.mkdtemp())) as address:
        engine, clock = make_engine(address), HandClock()
        fleet = JobFleet(JobLab(Units(engine), engine, clock, FakeCloud(clock)))
        fleet.add(NODES, IN_LINE)
        took = []
        for _ in range(MINUTES * 12):
            start = time.process_time()
            fleet.tick()
            took.append(time.process_time() - start)
        engine.dispose()
    updates, changes = fleet.updates().total(), fleet.changes.total()
    median = sorted(took)[len(took) // 2]
    name = f"500 jobs on 50 four-host nodes, {kind}"
    return [
        Figure(f"{name}: s of CPU, slowest tick", max(took), 1, detail=f"median {median:.3f} s"),
        Figure(f"{name}: updates for each change", updates / changes, 1, detail=f"{updates}"),
        Figure(f"{name}: reads of a node in a minute", max(fleet.reads.values()), 4),
    ]
