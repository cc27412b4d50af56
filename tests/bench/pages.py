"""CPU of each page of the dashboard, for a thousand nodes that run and a month of their costs.

Pages are asked for through the whole application, as a server does it. The clock of the service
moves by a second before each page, so that no page repeats the figures of the page before. The
overview of so many nodes is shown at once and made anew meanwhile: both are measured. Only
the first page is also asked for a hundred times a second, as by many who watch it.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from service import wiring
from service.application.services import Services
from service.controllers.recording.posting import post_usage
from service.dashboard.pages.overview import OverviewQuery, build_overview
from service.domain.budgets.admission import Hold
from service.domain.budgets.budget import Measure, OnExceeded, Period, Scope, Threshold
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, HOUR
from service.domain.money import NANOS
from service.domain.nodes.node import Node, NodeState
from service.domain.pricing.price_book import Sku
from service.settings import Settings
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests import factories
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.hands import NOON, HandClock

PROJECTS = ("lab", "research")
TEAMS = ("vision", "language", "speech", "robots", "infra", "rec", "ads", "bio")
NOW = NOON + 16 * DAY + 1_234
"""2026-11-21T12:20:34Z: most of a month is over."""

KINDS = (
    ("v4", "v4-32", 16, 4, "us-central2-b"),
    ("v5e", "v5litepod-8", 8, 1, "us-west4-a"),
    ("v5p", "v5p-64", 32, 8, "us-east5-a"),
    ("v6e", "v6e-8", 8, 1, "us-east1-d"),
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes that run, nodes that ended, and over how many days those began."""

    live: int
    ended: int
    days: int

    @property
    def words(self) -> str:
        """The fleet in words."""
        return f"{self.live:,} running nodes, {self.ended:,} ended in {self.days} days"


MONTH = Fleet(1_000, 2_000, 40)
YEAR = Fleet(1_000, 9_000, 365)
AT_ONCE = 200
RUNS = 9
A_SECOND = 100
SECONDS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """An address, what it is called, and the most milliseconds of CPU that it may take."""

    name: str
    path: str
    bound: float


def measure() -> list[Figure]:
    """The median CPU of each page on both databases, and of the first page after a year."""
    found: list[Figure] = []
    for kind in ("sqlite", "postgresql"):
        with fresh_database(kind, Path(tempfile.mkdtemp())) as address:
            found += _of_database(kind, address)
    with fresh_database("sqlite", Path(tempfile.mkdtemp())) as address:
        return found + _of_a_year(address)


def _of_a_year(address: str) -> list[Figure]:
    """The first page of a lab with ten thousand nodes in twelve months."""
    clock = HandClock(NOW)
    base = wiring.open_foundation(Settings(database_url=address, projects=PROJECTS), clock)
    fill_fleet(base.units, base.engine, YEAR)
    app = wiring.build_app(base)
    _, (took,) = asyncio.run(_ask(app, clock, ["/"]))
    size = len(asyncio.run(_page(app, "/")))
    anew = statistics.median(_build_anew(app.state.services, clock) for _ in range(RUNS))
    base.engine.dispose()
    return [
        Figure("overview after a year: ms of CPU", took, 100, detail=YEAR.words),
        Figure("overview after a year, made anew: ms of CPU", anew, 120, detail=YEAR.words),
        Figure("overview after a year: kB of HTML", size / 1e3, 100, detail=YEAR.words),
    ]


def _of_database(kind: str, address: str) -> list[Figure]:
    clock = HandClock(NOW)
    base = wiring.open_foundation(Settings(database_url=address, projects=PROJECTS), clock)
    fill_fleet(base.units, base.engine, MONTH)
    app = wiring.build_app(base)
    node_id = _id(MONTH.live // 2)
    pages = (
        Asked("overview, a second old at most", "/", 20),
        Asked("overview by team, 90 days", "/?window=90d&group=team", 20),
        Asked("budgets", "/budgets", 100),
        Asked("costs", "/costs", 40),
        Asked("costs by node", "/costs?aggregate=node", 150),
        Asked("one node", f"/nodes/{node_id}", 50),
        Asked("ledger of a node", f"/nodes/{node_id}/ledger", 50),
        Asked("months", "/statements", 100),
        Asked("one month", "/statements/2026-11", 500),
        Asked("prices", "/prices", 50),
        Asked("capacity", "/capacity", 50),
        Asked("jobs", "/jobs", 20),
        Asked("orphans", "/orphans", 20),
        Asked("reservations", "/reservations", 20),
        Asked("GET /v1/budgets", "/v1/budgets", 100),
        Asked("GET /v1/forecasts", "/v1/forecasts", 50),
    )
    where = f"{MONTH.words}, {len(PROJECTS)} projects, {kind}"
    rate, took = asyncio.run(_ask(app, clock, [page.path for page in pages]))
    anew = statistics.median(_build_anew(app.state.services, clock) for _ in range(RUNS))
    base.engine.dispose()
    return [
        Figure(f"overview, {kind}: pages a second of CPU", rate, 100, at_least=True, detail=where),
        Figure(f"overview made anew, {kind}: ms of CPU", anew, 120, detail=where),
        *(
            Figure(f"{one.name}, {kind}: ms of CPU", ms, one.bound, detail=where)
            for one, ms in zip(pages, took, strict=True)
        ),
    ]


async def _ask(app: Any, clock: HandClock, paths: Sequence[str]) -> tuple[float, list[float]]:
    """Pages of the overview for each second of CPU, where a hundred are asked for in each second of
    the clock; and the median CPU of each page in milliseconds, the second time and later."""
    async with app.router.lifespan_context(app):
        gc.collect()
        found = []
        for path in paths:
            await _page(app, path)
            found.append(statistics.median([await _timed(app, clock, path) for _ in range(RUNS)]))
        start = time.process_time()
        for _ in range(SECONDS):
            clock.pass_(1)
            for _ in range(A_SECOND):
                await _page(app, "/")
        return SECONDS * A_SECOND / (time.process_time() - start), found


def _build_anew(services: Services, clock: HandClock) -> float:
    """The milliseconds of CPU of what a thread makes while the page before is shown."""
    clock.pass_(1)
    start = time.process_time()
    build_overview(services, OverviewQuery())
    return (time.process_time() - start) * 1e3


async def _timed(app: Any, clock: HandClock, path: str) -> float:
    clock.pass_(1)
    start = time.process_time()
    await _page(app, path)
    return (time.process_time() - start) * 1e3


async def _page(app: Any, path: str) -> bytes:
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    body: list[bytes] = []
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        else:
            body.append(message.get("body", b""))

    await app(scope, receive, send)
    assert statuses == [200], (path, statuses, b"".join(body)[:200])
    return b"".join(body)


def fill_fleet(units: Units, engine: Engine, fleet: Fleet) -> None:
    """Budgets, and nodes with all that the ledger says of them."""
    cache, luck = PriceBookCache(), random.Random(7)
    number_of_nodes = fleet.live + fleet.ended
    for first in range(0, number_of_nodes, AT_ONCE):
        with units() as unit:
            for number in range(first, min(first + AT_ONCE, number_of_nodes)):
                _run(unit, cache, number, luck, fleet)
    with units() as unit:
        for budget in _budgets():
            unit.budgets.add(budget)
        for project in PROJECTS:
            for _ in range(2):
                unit.leases.take(project, "daemon", 3_600, NOW)
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))


def _budgets() -> Iterator[Any]:
    percent = (Threshold(50), Threshold(100), Threshold(100, Measure.FORECAST))
    base = factories.budget(amount=10**7 * NANOS, thresholds=percent, created_at=NOON)
    yield replace(base, id="everything", name="everything", scope=Scope())
    for team in TEAMS:
        yield replace(base, id=team, name=team, scope=Scope(team=team))
    for project in PROJECTS:
        scope, tz = Scope(project=project), "Europe/Berlin"
        yield replace(base, id=project, name=f"project {project}", scope=scope, tz=tz)
    yield replace(
        base,
        id="label",
        name="one run",
        scope=Scope(label=("run", "7")),
        period=Period.WEEK,
        on_exceeded=OnExceeded.REFUSE,
    )


def _run(unit: Unit, cache: PriceBookCache, number: int, luck: random.Random, fleet: Fleet) -> None:
    """A node, its usage, and every hour of it in the ledger."""
    live = number < fleet.live
    start = NOW - luck.randrange(HOUR, 8 * DAY if live else fleet.days * DAY)
    end = None if live else min(NOW - 1, start + int(luck.expovariate(1 / (10 * HOUR))) + 60)
    node = _node(number, start, end)
    unit.nodes.add(node)
    usage = factories.usage(
        id=f"usage-{number:06}",
        node_id=node.id,
        project=node.spec.project,
        zone=node.zone,
        accelerator_type=node.spec.accelerator_type,
        chips=node.spec.chips,
        sku=Sku(
            node.spec.generation,
            node.spec.provisioning_model,
            region_of(node.zone),
            node.spec.hosts == 1,
        ),
        start=start,
        end=end,
        end_lo=end,
        dirty=not live,
    )
    usage = unit.usage.save(usage)
    post_usage(unit, usage, cache.get_book(unit), NOW if end is None else end)
    if live:
        unit.holds.save(Hold(node.id, 40 * NANOS, node.spec.ttl_seconds), start)


def _node(number: int, start: int, end: int | None) -> Node:
    generation, accelerator_type, chips, hosts, zone = KINDS[number % len(KINDS)]
    return factories.node(
        id=_id(number),
        name=f"n-{number:06}",
        project=PROJECTS[number % 3 == 0],
        team=TEAMS[number * 7 % 13 % len(TEAMS)],
        owner=f"user-{number % 40}",
        labels={"run": str(number % 20)},
        cloud_id=f"n-{number:06}",
        generation=generation,
        accelerator_type=accelerator_type,
        chips=chips,
        hosts=hosts,
        zone=zone,
        zones=(zone,),
        provisioning_model=tuple(ProvisioningModel)[number % 2],
        ttl_seconds=10 * DAY if number % 4 == 0 else None,
        next_try_at=start + 10 * DAY if number % 4 == 0 and end is None else None,
        attempt=1,
        created_at=start - 300,
        ready_at=start,
        ended_at=end,
        state=NodeState.READY if end is None else NodeState.DELETED,
        state_since=start if end is None else end,
    )


def _id(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"
