"""A year of a large lab's spend: a million usage intervals, asked for by team and by node."""

from __future__ import annotations

import gc
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Engine, insert, text

from service.application.costs.costs import CostQuestion, CostReport, CostService
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.money import half_even
from service.domain.time_window import Granularity, midnight_of
from service.store import tables
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.bench.figure import Figure, wall
from tests.databases import fresh_database

INTERVALS = 1_000_000
NODES = 25_000
TEAMS = 40
START = 1_761_955_200
"""2025-11-01T00:00:00Z; the year after it is a year and nothing more."""

MONTH = f"{to_rfc3339(START + 180 * DAY)},{to_rfc3339(START + 210 * DAY)}"

YEAR = f"{to_rfc3339(START)},{to_rfc3339(START + 365 * DAY)}"

UTC = ZoneInfo("UTC")

PROMISED = {"Europe/Berlin": (2, 40), "Pacific/Auckland": (12, 200)}
"""Seconds, and times the plain SQL."""

FARTHEST = "Pacific/Auckland"
"""Twelve hours or thirteen off UTC: half of the ledger is at the edges of its days."""

MODELS = (
    ("v5e", "v5litepod-8", 8, "us-west4-a", 1_200_000_000),
    ("v5p", "v5p-32", 16, "us-east5-a", 4_200_000_000),
    ("v6e", "v6e-16", 16, "us-east5-b", 2_700_000_000),
    ("v4", "v4-32", 16, "us-central2-b", 3_220_000_000),
)


def measure() -> list[Figure]:
    """The question from the rollup, against the plain SQL on the same rows, and the rebuild."""
    folder = Path(tempfile.mkdtemp())
    with fresh_database("sqlite", folder) as address:
        engine = make_engine(address)
        truth = fill_fleet(engine)
        gc.collect()
        gc.freeze()  # what this measurement itself holds is not the service's to walk through
        units = Units(engine)
        rebuilt = wall(1, lambda: _rebuild(units))
        service = CostService(units, PriceBookCache(), lambda: START + 365 * DAY)
        question = CostQuestion(window=YEAR, aggregate=("team",))
        report = service.report(question)
        wrong = _off(report, _by_day(truth, UTC))
        asked = wall(5, lambda: service.report(question))
        floor = wall(5, lambda: _plain(engine))
        elsewhere = [
            _elsewhere(service, truth, name, floor) for name in ("Europe/Berlin", FARTHEST)
        ]
        month = CostQuestion(window=MONTH, aggregate=("node",), step=Granularity.ALL)
        nodes = service.report(month)
        by_node = wall(5, lambda: service.report(month))
        node_floor = wall(5, lambda: _plain_by_node(engine))
        engine.dispose()
    rows = f"{len(report.rows)} rows of {INTERVALS} intervals"
    return [
        Figure("spend by day and team, 12 months: cells off by a nano-dollar", wrong, 0),
        Figure("spend by day and team, 12 months: seconds", asked, 0.2, detail=rows),
        Figure(
            "spend by day and team: against the plain SQL on the rollup",
            asked / floor,
            5,
            detail=f"{asked * 1e3:.0f} ms against {floor * 1e3:.0f} ms",
        ),
        *(figure for figures in elsewhere for figure in figures),
        Figure(
            "spend by node, 30 days: seconds",
            by_node,
            0.5,
            detail=f"{len(nodes.rows)} nodes of {NODES}",
        ),
        Figure(
            "spend by node: against the plain SQL on the rollup",
            by_node / node_floor,
            5,
            detail=f"{by_node * 1e3:.0f} ms against {node_floor * 1e3:.0f} ms",
        ),
        Figure("rebuild of the rollups from the ledger: seconds", rebuilt, 30),
    ]


def _elsewhere(
    service: CostService, truth: Mapping[tuple[int, str], int], name: str, floor: float
) -> list[Figure]:
    """The same question by the calendar of another place; `floor` is the plain SQL's by UTC days,
    in seconds."""
    question = CostQuestion(window=YEAR, aggregate=("team",), tz=name)
    wrong = _off(service.report(question), _by_day(truth, ZoneInfo(name)))
    asked = wall(3, lambda: service.report(question))
    seconds, times = PROMISED[name]
    return [
        Figure(f"the same in {name}: cells off by a nano-dollar", wrong, 0),
        Figure(f"the same in {name}: seconds", asked, seconds),
        Figure(
            f"the same in {name}: against the plain SQL by UTC days",
            asked / floor,
            times,
            detail=f"{asked * 1e3:.0f} ms against {floor * 1e3:.0f} ms",
        ),
    ]


def _off(report: CostReport, truth: Mapping[tuple[int, str], int]) -> int:
    """How many cells are not what they should be."""
    found = {(row.bucket.start, row.group[0]): row.cost for row in report.rows}
    return sum(1 for key in found.keys() | truth.keys() if found.get(key) != truth.get(key))


def _by_day(truth: Mapping[tuple[int, str], int], zone: ZoneInfo) -> dict[tuple[int, str], int]:
    """The truth by hour as that by calendar day, the first of which the window cuts."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for (hour, team), nanos in truth.items():
        sums[max(START, midnight_of(datetime.fromtimestamp(hour, zone).date(), zone)), team] += (
            nanos
        )
    return sums


def _rebuild(units: Units) -> None:
    with units() as unit:
        unit.costs.rebuild()


def _plain(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(
            text("SELECT day, team, sum(amount_nanos) FROM daily_costs GROUP BY day, team")
        ).all()


def _plain_by_node(engine: Engine) -> None:
    first = START + 180 * DAY
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT node_id, sum(amount_nanos) FROM node_days"
                " WHERE day >= :first AND day < :last GROUP BY node_id"
            ),
            {"first": first, "last": first + 30 * DAY},
        ).all()


def fill_fleet(engine: Engine) -> dict[tuple[int, str], int]:
    """A year of usage and its ledger, as posted; answers the truth by hour and team, summed up."""
    luck = random.Random(7)
    truth: dict[tuple[int, str], int] = defaultdict(int)
    with engine.begin() as connection:
        connection.execute(insert(tables.nodes), [_node(number) for number in range(NODES)])
        whose = [_attribution(number) for number in range(NODES)]
        connection.execute(insert(tables.attributions), whose)
        usages: list[dict[str, Any]] = []
        lines: list[dict[str, Any]] = []
        for number in range(INTERVALS):
            usage, entries = _interval(number, luck, luck.randrange(NODES))
            usages.append(usage)
            for entry in entries:
                lines.append(entry)
                truth[entry["hour"], entry["team"]] += entry["amount_nanos"]
            if len(usages) == 20_000 or number == INTERVALS - 1:
                connection.execute(insert(tables.usage), usages)
                connection.execute(insert(tables.ledger), lines)
                usages, lines = [], []
    return truth


def _interval(
    number: int, luck: random.Random, node: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    generation, accelerator, chips, zone, price = MODELS[number % len(MODELS)]
    start = START + luck.randrange(365 * DAY - 2 * HOUR)
    end = start + luck.randrange(300, 2 * HOUR)
    common = {
        "node_id": f"n-{node}",
        "project": "lab",
        "zone": zone,
        "generation": generation,
        "model": "on_demand",
        "accelerator_type": accelerator,
    }
    usage = common | {
        "id": f"u-{number}",
        "region": zone[:-2],
        "single_device": False,
        "chips": chips,
        "start_at": start,
        "start_hi": start,
        "start_evidence": "operation",
        "end_at": end,
        "end_lo": end,
        "end_evidence": "operation",
        "free": "",
        "posted_until": end,
        "unpriced_seconds": 0,
        "dirty": False,
    }
    entries = [
        common
        | {
            "key": f"u-{number}/{a}",
            "usage_id": f"u-{number}",
            "kind": "usage",
            "hour": a - a % HOUR,
            "charge_start": a,
            "charge_end": b,
            "chip_seconds": chips * (b - a),
            "price_id": "bench",
            "price_nanos": price,
            "amount_nanos": half_even(chips * price * (b - start), HOUR)
            - half_even(chips * price * (a - start), HOUR),
            "list_price_nanos": price,
            "list_nanos": half_even(chips * price * (b - start), HOUR)
            - half_even(chips * price * (a - start), HOUR),
            "currency": "USD",
            "posted_at": end,
            "owner": "",
            "team": _team(node),
            "job": "",
        }
        for a, b in _hours(start, end)
    ]
    return usage, entries


def _hours(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        following = min(end, start - start % HOUR + HOUR)
        yield start, following
        start = following


def _team(node: int) -> str:
    return f"team-{node % TEAMS:02d}"


def _attribution(node: int) -> dict[str, Any]:
    return {
        "node_id": f"n-{node}", "since": 0, "owner": "", "team": _team(node), "job": "",
        "labels": "{}", "recorded_at": START,
    }  # fmt: skip


def _node(number: int) -> dict[str, Any]:
    """A node as far as money is concerned."""
    return {
        "id": f"n-{number}", "project": "lab", "name": f"n-{number}", "owner": "",
        "team": _team(number), "labels": "{}",
        "spec": "{}", "generation": "v5e", "model": "on_demand", "chips": 8,
        "created_at": START, "asked": "absent", "state": "DELETED",
        "state_since": START, "seen_at": START, "attempt": 1, "zone": "us-west4-a",
        "cloud_id": "n", "cloud_uid": "1", "health": "", "endpoints": "[]", "operation": "",
        "replacing": False, "gave_up": False, "delete_reason": "", "last_error": "", "tries": 0,
        "version": 1, "ended_at": START, "price_key": "", "view": "{", "view_format": 1,
    }  # fmt: skip
