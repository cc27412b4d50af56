"""Admission of one more node under caps, with a thousand nodes that hold money already."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, text

from service.application.budgets.admission import admit_node
from service.domain.budgets.admission import Hold
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.clock import DAY, HOUR
from service.domain.errors import Conflict
from service.domain.money import NANOS
from service.domain.nodes.node import NodeState
from service.store import tables
from service.store.engine import make_engine
from service.store.json_columns import dumps
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests import factories
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.hands import NOON

LIVE = 1_000
ENDED = 10_000
TEAMS = 20
RUNS = 40
NOW = NOON + 20 * DAY


def measure() -> list[Figure]:
    """The admission itself, within the transaction that writes the node."""
    found: list[Figure] = []
    for kind in ("sqlite", "postgresql"):
        with fresh_database(kind, Path(tempfile.mkdtemp())) as address:
            engine = make_engine(address)
            units = Units(engine)
            fill_fleet(units, engine)
            gc.collect()
            gc.freeze()  # as the service does when it starts
            floor = _median([_plain(engine) for _ in range(RUNS)])
            for name, tz, scope in (
                ("one cap over everything", "UTC", Scope()),
                ("one cap in Berlin", "Europe/Berlin", Scope()),
                ("one cap by label", "UTC", Scope(label=("run", "7"))),
            ):
                _set(units, tz, scope)
                took = _median([_admit(units) for _ in range(RUNS)])
                what = f"admission with 1,000 live holds, {kind}, {name}: ms"
                against = f"{floor * 1e3:.1f} ms for the plain sums"
                found.append(Figure(what, took * 1e3, 10, detail=against))
            engine.dispose()
    return found


def _set(units: Units, tz: str, scope: Scope) -> None:
    with units() as unit:
        for old in unit.budgets.list_all():
            unit.budgets.delete(old)
        unit.budgets.add(
            factories.budget(
                id=f"b-{tz}",
                scope=scope,
                tz=tz,
                amount=10**9 * NANOS,
                on_exceeded=OnExceeded.REFUSE,
            )
        )


def _admit(units: Units) -> float:
    prices = PriceBookCache()
    node = factories.node(labels={"run": "7"}, ttl_seconds=HOUR, created_at=NOW)
    took = 0.0
    try:
        with units() as unit:
            prices.get_book(unit)
            unit.nodes.add(node)
            start = time.perf_counter()
            admit_node(unit, node, prices, NOW)
            took = time.perf_counter() - start
            unit.nodes.add(node)  # its name is taken by now, and so nothing of it is kept
    except Conflict:
        pass
    return took


def _plain(engine: Engine) -> float:
    """What any admission has to ask: what was posted this month, and what every live node may still
    cost."""
    start = time.perf_counter()
    with engine.connect() as connection:
        connection.execute(text("SELECT sum(amount_nanos) FROM daily_costs")).all()
        connection.execute(
            text(
                "SELECT sum(h.rate_nanos) FROM nodes n JOIN holds h ON h.node_id = n.id"
                " WHERE n.ended_at IS NULL"
            )
        ).all()
    return time.perf_counter() - start


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def fill_fleet(units: Units, engine: Engine) -> None:
    """Nodes that run, nodes that are over, and twenty days of what they cost."""
    for number in range(0, LIVE + ENDED, 500):
        with units() as unit:
            for index in range(number, number + 500):
                _write(unit, index)
    with engine.begin() as connection:
        _costs(connection)
        if engine.dialect.name == "postgresql":
            connection.execute(text("ANALYZE"))


def _write(unit: Unit, number: int) -> None:
    live = number < LIVE
    team = f"team-{number % TEAMS}"
    node = factories.node(
        id=f"node-{number:06}",
        team=team,
        labels={"run": str(number % 40)},
        ttl_seconds=HOUR if number % 2 else None,
        state=NodeState.READY if live else NodeState.DELETED,
        ready_at=NOON,
        ended_at=None if live else NOON + DAY,
    )
    unit.nodes.add(node)
    usage = factories.usage(
        id=f"usage-{number:06}",
        node_id=node.id,
        start=NOON,
        end=None if live else NOON + DAY,
        posted_until=NOW if live else NOON + DAY,
    )
    usage = unit.usage.save(usage)
    if live:
        unit.holds.save(Hold(node.id, 9_600_000_000, None), NOON)


def _costs(connection: Any) -> None:
    first = NOON - 12 * HOUR
    amounts = {"amount_nanos": 9_600_000_000, "chip_seconds": 28_800, "list_nanos": 9_600_000_000}
    what = {
        "generation": "v5e",
        "accelerator_type": "v5litepod-8",
        "model": "on_demand",
        "project": factories.PROJECT,
    }
    days = range(first, first + 20 * DAY, DAY)
    zones = [f"zone-{number}" for number in range(5)]
    connection.execute(
        insert(tables.daily_costs),
        [
            {"day": day, "team": f"team-{t}", "owner": "ada", "job": "", "zone": zone}
            | what
            | amounts
            for day in days
            for t in range(TEAMS)
            for zone in zones
        ],
    )
    connection.execute(
        insert(tables.node_days),
        [
            {"day": day, "node_id": f"node-{number:06}", "since": 0, "zone": "us-west4-a"}
            | {"labels": dumps({"run": str(number % 40)})}
            | what
            | amounts
            for day in days
            for number in range(LIVE)
        ],
    )
