"""Billed costs as a file: streamed, and as exact as the ledger."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from threading import BoundedSemaphore
from zoneinfo import ZoneInfo

from service.application.pricing.commitments import read_lines
from service.domain.clock import HOUR, Clock
from service.domain.commitments.billing import CommittedBill, billed_hours
from service.domain.commitments.coverage import price_commitments
from service.domain.costs.focus import Account, Version, format_header, format_lines
from service.domain.errors import RateLimited
from service.domain.time_window import Window, parse_window
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

AT_ONCE = 4
"""Files that are written at once: each holds a connection for as long as its reader takes."""

CHUNK = 1_000
"""Rows of one piece of the file."""


@dataclass(frozen=True, slots=True)
class Export:
    """A file in pieces of text. The reader has to take all pieces, because a transaction is
    open."""

    window: Window
    pieces: Generator[str]


class ExportService:
    """Writes the ledger in the formats of other tools."""

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, account: Account
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._account = account
        self._places = BoundedSemaphore(AT_ONCE)

    def export_focus(self, version: Version, window: str = "mtd") -> Export:
        """What was billed in a window, in UTC. Usage that is not posted yet is left out.

        Raises Rejected for an invalid window; the pieces raise RateLimited if too many files are
        being read.
        """
        asked = parse_window(window, ZoneInfo("UTC"), self._clock())
        return Export(asked, self._write_focus(version, asked))

    def _write_focus(self, version: Version, window: Window) -> Generator[str]:
        with self._take_place(), self._units.reading() as unit:
            book, now = self._prices.get_book(unit), self._clock()
            price_of = lru_cache(CHUNK)(book.with_id)
            charges = unit.charges.iter_billed(window.start, window.end, price_of)
            some, _ = price_commitments(unit.commitments.list_standing(), book)
            if some:
                over = Window(window.start, max(window.start, min(window.end + HOUR, now)))
                known = read_lines(unit, some, over, book)
                hours = billed_hours(window, known, now)
                charges = CommittedBill(known, some, book, hours).bill_charges(charges)
            written = format_lines(self._account, charges, now)
            yield format_header(version)
            while piece := "".join(islice(written, CHUNK)):
                yield piece

    @contextmanager
    def _take_place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise RateLimited(f"{AT_ONCE} exports are in progress; retry this one later")
        try:
            yield
        finally:
            self._places.release()
