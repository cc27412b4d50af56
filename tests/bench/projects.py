"""A hundred projects of a hundred nodes under one daemon, of which one project never answers."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from service.application.nodes.nodes import NodeService
from service.controllers.base import Controller
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.controllers.orphans.orphans import OrphanController
from service.daemon.daemon import Daemon
from service.daemon.leaseholder import LEASE_SECONDS
from service.domain.clock import wall_clock
from service.domain.nodes.node import Node, NodeState
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.fakes import FakeCloud

PROJECTS, NODES = 100, 100
HANGS = "p-000"
LIFECYCLE, INVENTORY, METERING = 5, 15, 60
ROUNDS = 3
PATIENCE = 120


def measure() -> list[Figure]:
    """How late deletions are sent and leases are renewed, on both databases."""
    found = []
    for kind in ("sqlite", "postgresql"):
        with fresh_database(kind, Path(tempfile.mkdtemp())) as address, capture_logs():
            found += _of_database(kind, address)
    return found


class Clouds:
    """A cloud for each project; the one that hangs answers nothing until the end."""

    def __init__(self, projects: Sequence[str]) -> None:
        clock: Any = wall_clock
        self.of = {project: FakeCloud(clock) for project in projects}
        self.gate = threading.Event()
        self.sent: dict[str, float] = {}
        """By the full name of a node: when its deletion was sent."""

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(first: Any, *more: Any, **named: Any) -> Any:
            place = getattr(first, "place", first)
            project = place if isinstance(place, str) else place.project
            if project == HANGS:
                self.gate.wait()
            if verb == "delete":
                self.sent.setdefault(place.path, time.monotonic())
            return getattr(self.of[project], verb)(first, *more, **named)

        return call

    def operation(self, name: str) -> Any:
        """The operation of that name, of whichever project."""
        return next(project.done[name] for project in self.of.values() if name in project.done)


def _of_database(kind: str, address: str) -> list[Figure]:
    projects = [f"p-{number:03}" for number in range(PROJECTS)]
    engine, clouds = make_engine(address), Clouds(projects)
    units = Units(engine)
    fleet = fill_fleet(units, clouds, projects)
    renewed: list[float] = []
    daemon = _daemon(units, clouds, projects, address, renewed)
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=[stop], daemon=True)
    running.start()
    try:
        _wait(lambda: _looked_at(units, projects[1:]), "each project to be looked at")
        late = max(_round(units, clouds, projects[1:], fleet, number) for number in range(ROUNDS))
    finally:
        clouds.gate.set()
        stop.set()
        running.join(PATIENCE)
        engine.dispose()
    gap = max(after - before for before, after in pairwise(renewed))
    where = f"{PROJECTS} projects of {NODES} nodes, one daemon, one project hangs, {kind}"
    return [
        Figure(
            f"{where}: the latest DELETE of the others, in lifecycle periods",
            late / LIFECYCLE,
            2,
            detail=f"{late:.1f} s after it was asked for, {PROJECTS - 1} at once, {ROUNDS} times",
        ),
        Figure(
            f"{where}: the longest time between renewals, of a lease's time",
            gap / LEASE_SECONDS,
            0.5,
            detail=f"{gap:.1f} s, {len(renewed)} renewals",
        ),
    ]


def fill_fleet(units: Units, clouds: Clouds, projects: Sequence[str]) -> dict[str, list[Node]]:
    """Nodes that are READY, and asked for long ago."""
    now, fleet = wall_clock(), {}
    for project in projects:
        fleet[project] = [
            factories.sent(
                project=project,
                cloud_id=f"n-{number}",
                cloud_uid=f"{hash((project, number)) & 0xFFFFFF}",
                state=NodeState.READY,
                operation="",
                created_at=now - 7_200,
                sent_at=now - 7_200,
                state_since=now - 7_000,
                seen_at=now - 60,
                ready_at=now - 7_000,
                up_since=now - 7_000,
                next_try_at=None,
            )
            for number in range(NODES)
        ]
        with units() as unit:
            for node in fleet[project]:
                unit.nodes.add(node)
                cloud = clouds.of[project]
                cloud.nodes[node.place.path] = factories.sight(node, uid=node.cloud_uid)
    return fleet


def _daemon(
    units: Units, clouds: Any, projects: Sequence[str], address: str, renewed: list[float]
) -> Daemon:
    prices = PriceBookCache()
    shared = units, clouds, prices, wall_clock
    garbage = OrphanController(*shared, Installation("bench", INVENTORY))
    lifecycle = LifecycleController(
        *shared, Steps(StepContext(*shared, Installation("bench", LIFECYCLE)))
    )
    controllers: dict[int, Sequence[Controller]] = {
        LIFECYCLE: [lifecycle],
        INVENTORY: [InventoryController(*shared, onlookers=(garbage,)), garbage],
        METERING: [MeteringController(units, prices, wall_clock)],
    }
    lease_units = Units(make_engine(address, pool_size=1), first=True)
    daemon = Daemon(units, projects, controllers, lease_units=lease_units)
    renew = daemon._leases.renew
    latest = 0.0  # until when the leases are held, by the last renewal that succeeded

    def noting() -> Any:
        nonlocal latest
        taken = renew()
        until = max((end for _, end in daemon._leases._held.values()), default=0.0)
        if until > latest:
            latest = until
            renewed.append(time.monotonic())
        return taken

    daemon._leases.renew = noting  # type: ignore[method-assign]
    return daemon


def _looked_at(units: Units, projects: Sequence[str]) -> bool:
    with units.reading() as unit:
        return all(unit.leases.looked_at(project) for project in projects)


def _round(
    units: Units,
    clouds: Clouds,
    projects: Sequence[str],
    fleet: dict[str, list[Node]],
    number: int,
) -> float:
    """Seconds after which the last deletion was sent, of one in each project."""
    service = NodeService(units, PriceBookCache(), wall_clock, projects)
    asked = {}
    for project in projects:
        node = fleet[project][number]
        service.delete(node.id)
        asked[node.place.path] = time.monotonic()
    _wait(lambda: asked.keys() <= clouds.sent.keys(), "the deletions to be sent")
    return max(clouds.sent[path] - at for path, at in asked.items())


def _wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s for {what} in vain")
        time.sleep(0.1)
