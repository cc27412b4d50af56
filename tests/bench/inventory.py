"""What a look at ten thousand nodes costs on which nothing has changed."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sqlalchemy import event

from service.cloud.google.channel import connect, tpu_client
from service.cloud.google.tpus import GoogleTpus
from service.cloud.pace import Pace
from service.controllers.inventory import InventoryController
from service.domain.clock import wall_clock
from service.domain.node import Node, Place
from service.store.engine import make_engine
from service.store.pricebook import PriceShelf
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure, median_of
from tests.databases import fresh_database

NODES = 10_000
RUNS = 7
ZONES = ("us-west4-a", "us-central1-a", "us-east5-b", "europe-west4-b")


def measure() -> list[Figure]:
    """Writes and calls of one tick, and its CPU against only iterating the client's pages."""
    fleet = [
        factories.sent(id=f"00000000-0000-7000-8000-{n:012x}", zone=ZONES[n % 4], cloud_id=f"n-{n}")
        for n in range(NODES)
    ]
    folder = Path(tempfile.mkdtemp())
    with _emulator(fleet) as address, fresh_database("sqlite", folder) as database:
        client = tpu_client(connect(address))
        cloud = GoogleTpus(client, Pace(time.monotonic))
        engine = make_engine(database)
        units = Units(engine)
        with units() as unit:
            lease = unit.leases.take(factories.PROJECT, "bench", 3_600)
            for node in fleet:
                unit.nodes.add(node)
        assert lease is not None
        controller = InventoryController(units, cloud, PriceShelf(), wall_clock)
        controller.tick(lease)  # the first look writes everything down

        writes = 0

        def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            nonlocal writes
            writes += not statement.lstrip().upper().startswith(("SELECT", "BEGIN"))

        event.listen(engine, "before_cursor_execute", count)
        pages = cloud.inventory(factories.PROJECT).pages
        parent = f"projects/{factories.PROJECT}/locations/-"

        def only_iterate() -> int:
            seen = 0
            request = {"parent": parent, "page_size": 1_000}
            for page in client.list_nodes(request=request, timeout=60).pages:
                for _ in type(page).pb(page).nodes:
                    seen += 1
            assert seen == NODES
            return seen

        floor = median_of(RUNS, only_iterate, time.process_time)
        tick = median_of(RUNS, lambda: controller.tick(lease), time.process_time)
        engine.dispose()
    detail = f"{tick * 1e3:.1f} ms of CPU against {floor * 1e3:.1f} ms, {pages} pages"
    return [
        Figure(f"inventory tick, {NODES} unchanged nodes: database writes", writes, 0),
        Figure("inventory tick: CPU against iterating the pages", tick / floor, 3, detail=detail),
    ]


@contextmanager
def _emulator(fleet: list[Node]) -> Iterator[str]:
    """An emulator in a process of its own, so that its CPU is not counted; its gRPC address."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    places = [(node.place, node.id) for node in fleet]
    process = context.Process(target=_serve, args=(there, places), daemon=True)
    process.start()
    yield here.recv()
    here.send("stop")
    process.join(10)


def _serve(pipe: Connection, places: list[tuple[Place, str]]) -> None:
    from google.cloud import tpu_v2  # noqa: PLC0415 - in the child only

    from service.emulator.api import call, methods  # noqa: PLC0415
    from service.emulator.app import build_world, running  # noqa: PLC0415

    world = build_world(speed=1_000_000, seed=1)
    (create,) = (
        method
        for service in methods.SERVICES
        for method in service.methods
        if method.name == "CreateNode"
    )
    for place, node_id in places:
        request = tpu_v2.CreateNodeRequest(
            parent=f"projects/{place.project}/locations/{place.zone}",
            node_id=place.cloud_id,
            node=tpu_v2.Node(
                accelerator_type="v5litepod-8",
                runtime_version="v2-alpha-tpuv5-lite",
                labels={"steward-id": node_id},
            ),
        )
        answer = call.answer(world, create, tpu_v2.CreateNodeRequest.pb(request))
        assert answer.error is None, answer.error
    time.sleep(0.1)
    world.hurry()
    with running(world) as emulator:
        pipe.send(emulator.grpc_address)
        pipe.recv()
