"""A month of a large lab as a FOCUS file: rows a second beside the plain SQL, and memory."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, text

from service.application.costs.exports import ExportService
from service.domain.clock import HOUR, to_rfc3339
from service.domain.costs.focus import Account, Version
from service.domain.ids import new_id
from service.domain.pricing.shipped_prices import embedded_prices
from service.store import tables
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.bench.figure import Figure, wall
from tests.databases import fresh_database

ROWS = 200_000
NODES = 400
INTERVAL_HOURS = 50
HOURS = ROWS // NODES
START = 1_793_491_200
"""2026-11-01T00:00:00Z."""

PROMISED_ROWS_A_SECOND = 20_000
PROMISED_MB_MORE = 6


def measure() -> list[Figure]:
    """The export, the plain fetch of the same rows, and the peak of memory for all and a tenth."""
    with fresh_database("sqlite", Path(tempfile.mkdtemp())) as address:
        engine = make_engine(address)
        fill(engine)
        gc.collect()
        service = ExportService(
            Units(engine), PriceBookCache(), lambda: START, Account.from_settings("", "bench")
        )
        rows = _export(service, HOURS)
        taken = wall(3, lambda: _export(service, HOURS))
        floor = wall(3, lambda: _plain(engine))
        tenth, whole = _peak(service, HOURS // 10), _peak(service, HOURS)
        engine.dispose()
    beside = f"{taken:.2f} s against {floor:.2f} s of the plain SQL, {taken / floor:.1f} times it"
    return [
        Figure("FOCUS export: rows that are missing", ROWS - rows, 0),
        Figure(
            "FOCUS export of 200,000 rows: thousand rows a second",
            ROWS / taken / 1_000,
            PROMISED_ROWS_A_SECOND / 1_000,
            at_least=True,
            detail=beside,
        ),
        Figure(
            "FOCUS export of 200,000 rows: MB of memory at most",
            whole / 1e6,
            16,
            detail=f"{tenth / 1e6:.1f} MB for a tenth of them",
        ),
        Figure(
            "FOCUS export: MB more for ten times the rows",
            (whole - tenth) / 1e6,
            PROMISED_MB_MORE,
            detail="of texts that are kept; rows are written as they are read",
        ),
    ]


def _export(service: ExportService, hours: int) -> int:
    """Take a file to its end, as a slow caller would: a piece at a time. Answers its rows."""
    window = f"{to_rfc3339(START)},{to_rfc3339(START + hours * HOUR)}"
    pieces = service.export_focus(Version.V1_4, window).pieces
    return sum(piece.count("\r\n") for piece in pieces) - 1


def _peak(service: ExportService, hours: int) -> int:
    """Bytes that were allocated at most meanwhile."""
    gc.collect()
    tracemalloc.start()
    _export(service, hours)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _plain(engine: Engine) -> None:
    """The same rows in the same order, with nothing made of them."""
    statement = text(
        "SELECT * FROM ledger JOIN nodes ON nodes.id = ledger.node_id"
        " ORDER BY hour, charge_start, node_id"
    )
    with engine.connect() as connection:
        for _ in connection.execution_options(yield_per=1_000).execute(statement):
            pass


def fill(engine: Engine) -> list[int]:
    """Nodes that run day and night in intervals of two days, and their ledger by the hour; answers
    what each of them costs, in nano-dollars per chip-hour."""
    prices = [price for price in embedded_prices() if price.generation == "v5e"]
    units = Units(engine)
    for number in range(NODES):
        node = factories.sent(cloud_id=f"n-{number}", labels={"run": str(number % 17)})
        with units() as unit:
            unit.nodes.add(node)
        price = prices[number % len(prices)]
        with engine.begin() as connection:
            for first in range(0, HOURS, INTERVAL_HOURS):
                usage = _usage(node.id, START + first * HOUR)
                connection.execute(insert(tables.usage).values(usage))
                connection.execute(
                    insert(tables.ledger), list(_lines(usage, price.id, price.per_chip_hour))
                )
    return [prices[number % len(prices)].per_chip_hour for number in range(NODES)]


def _usage(node_id: str, start: int) -> dict[str, Any]:
    end = start + INTERVAL_HOURS * HOUR
    return {
        "id": new_id(),
        "node_id": node_id,
        "project": factories.PROJECT,
        "zone": factories.ZONE,
        "region": "us-west4",
        "generation": "v5e",
        "model": "on_demand",
        "single_device": True,
        "accelerator_type": "v5litepod-8",
        "chips": 8,
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


def _lines(usage: dict[str, Any], price_id: str, price: int) -> Iterator[dict[str, Any]]:
    for hour in range(usage["start_at"], usage["end_at"], HOUR):
        yield {
            "key": f"{usage['id']}/{hour}/{price_id}/0/{price}/0",
            "usage_id": usage["id"],
            "node_id": usage["node_id"],
            "kind": "usage",
            "hour": hour,
            "charge_start": hour,
            "charge_end": hour + HOUR,
            "chip_seconds": 8 * HOUR,
            "price_id": price_id,
            "price_nanos": price,
            "amount_nanos": 8 * price,
            "currency": "USD",
            "posted_at": hour + HOUR,
            "project": usage["project"],
            "team": "vision",
            "owner": "ada",
            "job": "",
            "generation": "v5e",
            "accelerator_type": usage["accelerator_type"],
            "model": "on_demand",
            "zone": usage["zone"],
            "since": 0,
            "list_price_nanos": price,
            "list_nanos": 8 * price,
        }
