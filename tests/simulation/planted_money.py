"""Bugs in the books that somebody could write tomorrow: each must make the simulation fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

from service.controllers.recording import posting
from service.domain.clock import HOUR
from service.domain.metering import ledger, meter
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerEntry, entries_to_post
from service.domain.metering.meter import Meter
from service.domain.money import half_even
from service.domain.pricing.price_book import Price, PriceBook, Sku
from service.store.costs import Costs


def todays_price_for_yesterday() -> Any:
    """What was used at an older price is charged at the latest."""
    at = PriceBook.find_price

    def latest(self: PriceBook, sku: Sku, _: int) -> Price | None:
        return at(self, sku, 2**40)

    return patch.object(PriceBook, "find_price", latest)


def a_new_team_pays_for_the_past() -> Any:
    """Whose a node is now, it is said to have been from the beginning."""

    def latest(
        whose: Sequence[Attribution], start: int, end: int
    ) -> Iterator[tuple[int, int, Attribution]]:
        if start < end:
            yield start, end, whose[-1]

    return patch.object(meter, "split_by_attribution", latest)


def each_line_rounded_by_itself() -> Any:
    """The parts are rounded, not the whole."""

    def alone(self: Meter, start: int, end: int) -> int:
        return sum(
            half_even(
                self.usage.chips
                * max(0, min(end, cut.end) - max(start, cut.start))
                * (cut.price.per_chip_hour if cut.price else 0),
                HOUR,
            )
            for cut in self.cuts
        )

    return patch.object(Meter, "charge_in", alone)


def nothing_is_taken_back() -> Any:
    """An adjustment that lowers what was charged is left out."""

    def only_more(*arguments: Any) -> Iterator[LedgerEntry]:
        return (entry for entry in entries_to_post(*arguments) if entry.amount > 0)

    return patch.object(posting, "entries_to_post", only_more)


def the_rollup_lags() -> Any:
    """What is posted reaches the ledger, and the rollup only where it is an amount to pay."""
    add = Costs.add

    def some(self: Costs, entries: Sequence[LedgerEntry], *more: Any) -> None:
        add(self, [entry for entry in entries if not entry.number], *more)

    return patch.object(Costs, "add", some)


def slots_without_the_price() -> Any:
    """Two prices within an hour are one slot, under the first of them."""
    parts = ledger.parts_of

    def merged(meter_: Meter, start: int, end: int) -> Iterator[Any]:
        first: dict[tuple[int, int], Any] = {}
        for slot, cut in parts(meter_, start, end):
            yield first.setdefault((slot.hour, slot.since), slot), cut

    return patch.object(ledger, "parts_of", merged)


MONEY_BUGS = (
    todays_price_for_yesterday,
    a_new_team_pays_for_the_past,
    each_line_rounded_by_itself,
    nothing_is_taken_back,
    the_rollup_lags,
    slots_without_the_price,
)
