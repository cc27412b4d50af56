"""A page of a hundred nodes out of a hundred thousand, against a raw ASGI hello on that server.

Many programs ask for the same page; within one second they get one answer, until something is
written. So there are two figures: with the clock as it is, and with a clock that is another second
at each request, so that every page is made anew.

Server and load are two processes, each on a core of its own where the machine lets them choose. The
ratio is the smaller of two: requests a second, and requests a second of the server's own CPU; so a
load that cannot keep the hello busy does not flatter the page.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import random
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from service.domain.clock import wall_clock
from service.domain.nodes.node import Endpoint, NodeState
from service.settings import Settings
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.hands import NOON

_PATH = "/v1/nodes?page_size=100"
NODES = 100_000
CONNECTIONS = 32
SECONDS = 4.0
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second, and requests a second of the server's CPU."""

    wall: float
    cpu: float


def measure() -> list[Figure]:
    """The better of three rounds for each, as the machine has neighbours."""
    with fresh_database("sqlite", Path(tempfile.mkdtemp())) as address:
        fill_fleet(address)
        hello = _serve_and_load("hello", address, "/")
        page = _serve_and_load("steward", address, _PATH)
        anew = _serve_and_load("anew", address, _PATH)
    name = f"GET {_PATH} of 100,000"
    return [
        _compare(f"{name}: against a raw hello", page, hello, 0.04),
        _compare(f"{name}, made anew: against a raw hello", anew, hello, 0.02),
    ]


def _compare(name: str, page: Rate, hello: Rate, least: float) -> Figure:
    ratio = min(page.wall / hello.wall, page.cpu / hello.cpu)
    detail = (
        f"{page.wall:,.0f} pages/s against {hello.wall:,.0f} hellos/s;"
        f" by the server's CPU {page.cpu:,.0f} against {hello.cpu:,.0f}"
    )
    return Figure(name, ratio, least, at_least=True, detail=detail)


def fill_fleet(address: str) -> None:
    """A lab's past and present: nine in ten nodes are gone, the rest are READY and metered."""
    luck = random.Random(3)
    engine = make_engine(address)
    units = Units(engine)
    for start in range(0, NODES, 5_000):
        with units() as unit:
            for number in range(start, start + 5_000):
                ready = luck.random() < 0.1
                node = factories.sent(
                    id=f"00000000-0000-7000-8000-{number:012x}",
                    cloud_id=f"n-{number}",
                    labels={"run": str(number % 100)},
                    state=NodeState.READY if ready else NodeState.DELETED,
                    ended_at=None if ready else NOON,
                    endpoints=(Endpoint("10.0.0.2", 8470),) if ready else (),
                )
                unit.nodes.add(node)
                if ready:
                    usage = factories.usage(node_id=node.id)
                    usage = unit.usage.save(usage)
                    unit.nodes.add_posted(usage, 0, 0)
    engine.dispose()


def _serve_and_load(kind: str, address: str, path: str) -> Rate:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=_serve, args=(there, kind, address), daemon=True)
    server.start()
    port = here.recv()
    _pin(1)
    rates = [_round(here, port, path) for _ in range(ROUNDS)]
    here.send("stop")
    server.join(10)
    return Rate(max(rate.wall for rate in rates), max(rate.cpu for rate in rates))


def _round(server: Connection, port: int, path: str) -> Rate:
    server.send("cpu")
    before = server.recv()
    start = time.perf_counter()
    answered = uvloop.run(_load(port, path))
    elapsed = time.perf_counter() - start
    server.send("cpu")
    return Rate(answered / elapsed, answered / (server.recv() - before))


async def _load(port: int, path: str) -> int:
    loop = asyncio.get_running_loop()
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    clients = [_Client(request) for _ in range(CONNECTIONS)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(SECONDS)
    for client in clients:
        client.stop()
    return sum(client.answered for client in clients)


class _Client(asyncio.Protocol):
    """Asks again as soon as it is answered; reads no more of an answer than its length."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: Any = None
        self._missing = 0
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._missing == 0:
            head, _, body = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            self._missing = length - len(body)
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self.answered += 1
            self._transport.write(self._request)

    def stop(self) -> None:
        self._transport.abort()


def _serve(pipe: Connection, kind: str, address: str) -> None:
    _pin(0)
    app = _hello if kind == "hello" else _steward(address, is_anew=kind == "anew")
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    pipe.send(server.servers[0].sockets[0].getsockname()[1])
    while pipe.recv() == "cpu":
        pipe.send(time.process_time())
    server.should_exit = True
    thread.join(5)


def _steward(address: str, *, is_anew: bool = False) -> Any:
    from service import wiring  # noqa: PLC0415 - in the child only

    settings = Settings(database_url=address, projects=(factories.PROJECT,))
    clock = itertools.count(NOON).__next__ if is_anew else wall_clock
    return wiring.build_app(wiring.open_foundation(settings, clock=clock))


async def _hello(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    headers = [(b"content-length", b"5"), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


def _pin(core: int) -> None:
    """Stay on one core, where the machine has two and lets us choose."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})
