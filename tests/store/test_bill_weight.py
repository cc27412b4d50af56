"""A bill of any length is read in bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import pytest

from service.application.reconciliations import ReconciliationService
from service.domain.clock import HOUR
from service.domain.reconciliation.variance import Verdict
from service.store.engine import make_engine
from tests import factories
from tests.bills import json_lines, row, time_of
from tests.databases import fresh_database
from tests.hands import NOON

ROWS, RESOURCES, OTHERS = 200_000, 40, 320
"""TPUs in each hour, every row of them written twice, among rows of other things."""

HOURLY = 2 * RESOURCES + OTHERS
HOURS = ROWS // HOURLY
MIB = 1024 * 1024
LIMIT = 48 * MIB
START = NOON - 96 * HOUR


@pytest.fixture
def engine(tmp_path):
    """One database: what is weighed is this process."""
    with fresh_database("sqlite", tmp_path) as address:
        made = make_engine(address)
        yield made
        made.dispose()


class Endless(io.RawIOBase):
    """A file that is made while it is read, hour after hour."""

    def __init__(self):
        self.size = 0
        self.seek(0)

    def seek(self, _offset, _whence=0):
        self._made, self._rest = 0, b""
        return 0

    def read(self, size=-1):
        while len(self._rest) < size and self._made < ROWS:
            self._rest += self._hour(self._made // HOURLY)
            self._made += HOURLY
        taken, self._rest = self._rest[:size], self._rest[size:]
        self.size += len(taken)
        return taken

    def _hour(self, back):
        start = START - back * HOUR
        made = row(usage_start_time=time_of(start), usage_end_time=time_of(start + HOUR))
        line = json_lines([made])
        rows = [line.replace(b"run-1", b"leak-%d-x" % number) for number in range(RESOURCES)]
        others = [line.replace(b"TpuV5e", b"Nvidia L4 GPU")] * OTHERS
        return b"".join([*rows, *others, *rows])


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.deep
def test_two_hundred_thousand_rows_are_reconciled_in_bounded_memory(units, clock):
    service = ReconciliationService(units, clock, [factories.PROJECT])
    file: Any = Endless()
    tracemalloc.start()
    try:
        outcome = service.reconcile(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.size > 4 * LIMIT, "it is read twice, and is larger than what may be held"
    assert peak < LIMIT, f"{peak / MIB:.0f} MiB"
    assert (outcome.bill.counts.rows, outcome.bill.duplicates) == (ROWS, HOURS * RESOURCES)
    assert outcome.bill.counts.not_tpu == HOURS * OTHERS
    assert outcome.headline.verdicts[Verdict.BILL_WITHOUT_NODE].lines == HOURS * RESOURCES
