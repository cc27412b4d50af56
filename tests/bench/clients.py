"""Two hundred callers at once for a minute: none meets a defect, and probes are answered."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.ports import free_port

CALLERS = 200
SECONDS = 60.0
NODES = 1_000
PAUSE = 1.0
"""Seconds between two requests of a caller, on average: what they ask for is more than people do,
and less than two cores can answer, or the probes would measure the callers."""
PROBES_A_SECOND = 10
ANSWERED = 300
"""The last status that is an answer as it should be."""
OVERLOADED = 500


def measure() -> list[Figure]:
    """Answers by status, and how long the probes take, on both databases."""
    found = []
    for kind in ("sqlite", "postgresql"):
        folder = Path(tempfile.mkdtemp())
        with fresh_database(kind, folder) as address:
            found += _of_database(kind, address, folder)
    return found


def _of_database(kind: str, address: str, folder: Path) -> list[Figure]:
    fill_fleet(address)
    port = free_port()
    environment = {
        "STEWARD_DATABASE_URL": address,
        "STEWARD_PROJECTS": factories.PROJECT,
        "STEWARD_PORT": str(port),
        "PATH": "",
    }
    with (folder / "serve.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve"],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            _until_ready(port)
            load = Load(port)
            asyncio.run(load.live())
        finally:
            server.terminate()
            server.wait(30)
    failed = sum(number for status, number in load.statuses.items() if status >= OVERLOADED)
    slowest = statistics.quantiles(load.probes, n=100)[98]
    where = f"{CALLERS} callers, {NODES} nodes, 1 project, {SECONDS:.0f} s, {kind}"
    total = sum(load.statuses.values())
    by_status = ", ".join(f"{status}: {number}" for status, number in sorted(load.statuses.items()))
    return [
        Figure(f"{where}: answers with 5xx, or none", failed + load.broken, 0, detail=by_status),
        Figure(
            f"{where}: p99 of /readyz, ms",
            slowest * 1e3,
            250,
            detail=f"{len(load.probes)} probes beside {total / SECONDS:.0f} requests a second;"
            f" the median is {statistics.median(load.probes) * 1e3:.1f} ms",
        ),
    ]


def fill_fleet(address: str) -> None:
    engine = make_engine(address)
    units = Units(engine)
    with units() as unit:
        for number in range(NODES):
            unit.nodes.add(factories.node(name=f"n-{number}"))
    engine.dispose()


def _until_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)


class Load:
    """Callers that look, ask, change and delete, each on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.statuses: Counter[int] = Counter()
        self.broken = 0
        self.probes: list[float] = []

    async def live(self) -> None:
        """All of them, until the time is over."""
        self._end = time.monotonic() + SECONDS
        callers = [self._call(random.Random(number)) for number in range(CALLERS)]
        await asyncio.gather(*callers, self._probe())

    async def _call(self, luck: random.Random) -> None:
        line = Line(self._port)
        own: list[str] = []
        await asyncio.sleep(luck.uniform(0, PAUSE))
        while time.monotonic() < self._end:
            await self._ask(line, luck, own)
            await asyncio.sleep(luck.uniform(0, 2 * PAUSE))
        line.close()

    async def _ask(self, line: Line, luck: random.Random, own: list[str]) -> None:
        method, path, body = _drawn(luck, own)
        try:
            status, answer = await line.ask(method, path, body)
        except (OSError, asyncio.IncompleteReadError):
            self.broken += 1
            line.close()
            return
        self.statuses[status] += 1
        if method == "POST" and status <= ANSWERED and path == "/v1/nodes":
            own.append(json.loads(answer)["id"])

    async def _probe(self) -> None:
        """As a load balancer does it."""
        line = Line(self._port)
        while time.monotonic() < self._end:
            start = time.perf_counter()
            status, _ = await line.ask("GET", "/readyz", None)
            self.probes.append(time.perf_counter() - start)
            self.statuses[status] += 1
            await asyncio.sleep(1 / PROBES_A_SECOND)
        line.close()


def _drawn(luck: random.Random, own: list[str]) -> tuple[str, str, object]:
    request = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    if own and luck.random() < 0.2:
        return "DELETE", f"/v1/nodes/{own.pop()}", None
    if own and luck.random() < 0.2:
        return (
            "PATCH",
            f"/v1/nodes/{luck.choice(own)}",
            {"labels": {"run": str(luck.randrange(99))}},
        )
    return luck.choice(
        [
            ("GET", "/v1/nodes?page_size=50", None),
            ("GET", "/v1/nodes?page_size=50", None),
            ("GET", "/v1/budgets", None),
            ("GET", "/v1/costs", None),
            ("POST", "/v1/estimates", {"accelerator_type": "v5litepod-8"}),
            ("POST", "/v1/nodes", request),
        ]
    )


class Line:
    """A connection that is kept, and opened again where it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        told = await reader.readuntil(b"\r\n\r\n")
        status = int(told.split(b" ", 2)[1])
        length = told.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
        answer = await reader.readexactly(int(length or 0))
        if b"connection: close" in told.lower():
            self.close()
        return status, answer

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
