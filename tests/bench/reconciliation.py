"""A bill of a million rows held against the ledger: rows a second, and memory."""

from __future__ import annotations

import gc
import io
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.application.reconciliations import ReconciliationService
from service.domain.clock import DAY, HOUR
from service.domain.money import format_usd
from service.domain.reconciliation.variance import Verdict
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.bench import exports
from tests.bench.figure import Figure
from tests.bench.memory import Peak
from tests.bills import json_lines, row, time_of
from tests.databases import fresh_database

ROWS = 1_000_000
HOURS = exports.HOURS
OTHERS = ROWS // HOURS - exports.NODES
"""Rows of an hour that are of no TPU: four in five, as in a project that does not only train."""

LATER = exports.START + HOURS * HOUR + 9 * DAY
"""By then Google's exports are complete."""

PROMISED_ROWS_A_SECOND = 8_000
PROMISED_MB = 100

_START, _END = "2026-11-01 00:00:00 UTC", "2026-11-01 01:00:00 UTC"
"""The hour of which `row` is; no other text of it looks like that."""


class Export(io.RawIOBase):
    """The file, made while it is read: an hour of every node, and of other things."""

    def __init__(self, prices: Sequence[int]) -> None:
        ours = b"".join(json_lines([_row(number, price)]) for number, price in enumerate(prices))
        other = json_lines([row(**{"sku.description": "Nvidia L4 GPU running in Las Vegas"})])
        self._hour = ours + other * OTHERS
        self.seek(0)

    def seek(self, _offset: int, _whence: int = 0) -> int:
        """To the beginning: nobody asks for anything else."""
        self._made, self._rest = 0, memoryview(b"")
        return 0

    def read(self, size: int = -1) -> bytes:
        """As much of the present hour as is wanted, or of the next."""
        if not self._rest and self._made < HOURS:
            start = exports.START + self._made * HOUR
            text = self._hour.replace(_END.encode(), time_of(start + HOUR).encode())
            self._rest = memoryview(text.replace(_START.encode(), time_of(start).encode()))
            self._made += 1
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


def _row(number: int, price: int) -> dict[str, object]:
    """An hour of one node as Google writes it; `price` is nano-dollars per chip-hour."""
    name = f"n-{number}"
    path = f"projects/{factories.PROJECT}/locations/{factories.ZONE}/nodes/{name}"
    cost = float(format_usd(8 * price))  # BigQuery's numbers are binary
    return row(
        cost=cost,
        cost_at_list=cost,
        export_time=time_of(LATER),
        resource={"name": name, "global_name": f"//tpu.googleapis.com/{path}"},
    )


def measure() -> list[Figure]:
    """Reading, staging and comparing the whole file, on SQLite."""
    with fresh_database("sqlite", Path(tempfile.mkdtemp())) as address:
        engine = make_engine(address)
        prices = exports.fill(engine)
        service = ReconciliationService(Units(engine), lambda: LATER, [factories.PROJECT])
        file: Any = Export(prices)
        gc.collect()
        with Peak() as memory:
            began = time.perf_counter()
            outcome = service.reconcile(file)
            taken = time.perf_counter() - began
        engine.dispose()
    matched = outcome.headline.verdicts[Verdict.MATCHED].lines
    return [
        Figure("bill of 1,000,000 rows: rows that are missing", ROWS - outcome.bill.counts.rows, 0),
        Figure(
            "bill of 1,000,000 rows: hours of nodes that do not match",
            exports.ROWS - matched,
            0,
            detail=f"{matched:,} do, to the nano-dollar or within the tolerance",
        ),
        Figure(
            "bill of 1,000,000 rows: thousand rows a second",
            ROWS / taken / 1_000,
            PROMISED_ROWS_A_SECOND / 1_000,
            at_least=True,
            detail=f"{taken:.0f} s, the making of the file and its digest among them",
        ),
        Figure(
            "bill of 1,000,000 rows: MB of memory more, at most", memory.more / 1e6, PROMISED_MB
        ),
    ]
