"""What a look at ten thousand nodes costs on which nothing has changed."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, update

from service.cloud.google.channel import open_channel, tpu_client
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.orphans.orphans import OrphanController
from service.domain.clock import wall_clock
from service.domain.nodes.node import Node, Place
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.tables import nodes
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure, median_of
from tests.databases import fresh_database

NODES = 10_000
RUNS = 7
PROGRAMS = {"steward-supervisor": "x" * 10_000, "steward-meter": "x" * 5_000}
ZONES = ("us-west4-a", "us-central1-a", "us-east5-b", "europe-west4-b")


def measure() -> list[Figure]:
    """Writes and calls of one tick, and its CPU against only iterating the client's pages."""
    fleet = [
        factories.sent(id=f"00000000-0000-7000-8000-{n:012x}", zone=ZONES[n % 4], cloud_id=f"n-{n}")
        for n in range(NODES)
    ]
    folder = Path(tempfile.mkdtemp())
    with _emulator(fleet, PROGRAMS) as address:
        carrying = _look(address)
    with _emulator(fleet) as address:
        bare = _look(address)
    with _emulator(fleet) as address, fresh_database("sqlite", folder) as database:
        client = tpu_client(open_channel(address))
        engine = make_engine(database)
        house = _House(engine, GoogleTpus(client, Pace(time.monotonic)), fleet)
        writes = _writes(engine, house.inventory)
        floor = median_of(RUNS, lambda: _only_iterate(client), time.process_time)
        tick = median_of(RUNS, house.inventory, time.process_time)
        together = median_of(RUNS, house.all, time.process_time)
        pages = house.cloud.inventory(factories.PROJECT).pages
        engine.dispose()
    detail = f"{tick * 1e3:.1f} ms of CPU against {floor * 1e3:.1f} ms, {pages} pages"
    return [
        Figure(f"inventory tick, {NODES} unchanged nodes: database writes", writes, 0),
        Figure("inventory tick: CPU against iterating the pages", tick / floor, 3, detail=detail),
        Figure(
            f"a look at {NODES} nodes that carry the supervisor: CPU against without",
            carrying / bare,
            1.25,
            detail=f"{carrying * 1e3:.1f} ms of CPU against {bare * 1e3:.1f} ms",
        ),
        Figure("inventory, garbage and lifecycle ticks together: s of CPU", together, 1),
    ]


class _House:
    """The controllers over a fleet that is as it was asked for."""

    def __init__(self, engine: Engine, cloud: GoogleTpus, fleet: list[Node]) -> None:
        self.cloud, units = cloud, Units(engine)
        shared = units, cloud, PriceBookCache(), wall_clock
        with units() as unit:
            lease = unit.leases.take(factories.PROJECT, "bench", 3_600)
            for node in fleet:
                unit.nodes.add(node)
        assert lease is not None
        self._lease = lease
        self._garbage = OrphanController(*shared, Installation("bench", 15))
        self._inventory = InventoryController(*shared, onlookers=(self._garbage,))
        self._lifecycle = LifecycleController(
            *shared, Steps(StepContext(*shared, Installation("bench", 5)))
        )
        self.inventory()  # the first look writes everything down
        with engine.begin() as connection:
            connection.execute(update(nodes).values(next_try_at=None))
        self.all()

    def inventory(self) -> None:
        self._inventory.tick(self._lease)

    def all(self) -> None:
        self.inventory()
        self._garbage.tick(self._lease)
        self._lifecycle.tick(self._lease)


def _writes(engine: Engine, work: Callable[[], None]) -> int:
    """How many statements change anything."""
    found: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "BEGIN")):
            found.append(statement)

    event.listen(engine, "before_cursor_execute", count)
    work()
    event.remove(engine, "before_cursor_execute", count)
    return len(found)


def _look(address: str) -> float:
    """CPU seconds of one look at all nodes, read out."""
    channel = open_channel(address)
    cloud = GoogleTpus(tpu_client(channel), Pace(time.monotonic))
    seconds = median_of(
        RUNS, lambda: cloud.inventory(factories.PROJECT).sightings(), time.process_time
    )
    channel.close()
    return seconds


def _only_iterate(client: Any) -> None:
    request = {"parent": f"projects/{factories.PROJECT}/locations/-", "page_size": 1_000}
    pages = client.list_nodes(request=request, timeout=60).pages
    assert sum(1 for page in pages for _ in type(page).pb(page).nodes) == NODES


@contextmanager
def _emulator(fleet: list[Node], metadata: Mapping[str, str] | None = None) -> Iterator[str]:
    """An emulator in a process of its own, so that its CPU is not counted; its gRPC address."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    places = [(node.place, node.id) for node in fleet]
    process = context.Process(
        target=_serve, args=(there, places, dict(metadata or {})), daemon=True
    )
    process.start()
    there.close()  # so that its death is seen
    yield here.recv()
    here.send("stop")
    process.join(10)


def _serve(pipe: Connection, places: list[tuple[Place, str]], metadata: Mapping[str, str]) -> None:
    from google.cloud import tpu_v2  # noqa: PLC0415 - in the child only

    from service.emulator.api import methods  # noqa: PLC0415
    from service.emulator.api.calls import dispatch  # noqa: PLC0415
    from service.emulator.app import build_world, run_in_thread  # noqa: PLC0415

    world = build_world(speed=1_000_000, seed=1)
    (create,) = (
        method
        for service in methods.SERVICES
        for method in service.methods
        if (service.name, method.name) == ("google.cloud.tpu.v2.Tpu", "CreateNode")
    )
    for place, node_id in places:
        request = tpu_v2.CreateNodeRequest(
            parent=f"projects/{place.project}/locations/{place.zone}",
            node_id=place.cloud_id,
            node=tpu_v2.Node(
                accelerator_type="v5litepod-8",
                runtime_version="v2-alpha-tpuv5-lite",
                labels={"steward-id": node_id},
                metadata=metadata,
            ),
        )
        answer = dispatch.answer_message(world, create, tpu_v2.CreateNodeRequest.pb(request))
        assert answer.error is None, answer.error
    time.sleep(0.1)
    world.run_pending_events()
    with run_in_thread(world) as emulator:
        pipe.send(emulator.grpc_address)
        pipe.recv()
