"""The price book, for those who ask what a chip or a machine costs and why, and those who know
better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.application.idempotency import once
from service.application.pricing.discounts import DiscountService
from service.domain.catalog.regions import check_region
from service.domain.clock import Clock, rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.idempotency import RequestKey
from service.domain.ids import new_id
from service.domain.money import dollars
from service.domain.pricing.feed import check_open
from service.domain.pricing.price_book import (
    GROUPS,
    MAX_NANOS_PER_UNIT,
    VM_HOUR,
    Price,
    PriceBook,
    check_price,
    group_of,
    manual_id,
    series_of,
)
from service.domain.pricing.sellable import check_named, check_sold
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """Which prices are asked for; empty fields mean any. `at` is in whole UTC seconds,
    `generation` that of TPUs or a machine type."""

    at: int | None = None
    generation: str = ""
    model: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class CreatedPrice:
    """A price; `created` is False when the same key had entered it before."""

    price: Price
    created: bool


class PriceService:
    """Lists prices as they were or are, and takes new ones for the time to come."""

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self.discounts = DiscountService(units, clock)

    def in_force(self, query: PriceQuery) -> Sequence[Price]:
        """The prices in force at an instant, by generation, model, unit and region, those of TPUs
        before those of machine types; where a discount is in force too, as a DiscountedPrice that
        names its list price.

        For a region, what its group costs is answered where the region has no price of its own.
        """
        at = self._clock() if query.at is None else query.at
        if query.generation:
            check_named(query.generation)
        with self._units.reading() as unit:
            book = self._prices.book(unit)
        found = [
            price
            for price in book.in_force(at)
            if query.generation in ("", price.generation)
            and (not query.model or series_of(query.model) == series_of(price.model))
            and query.region in ("", price.region, *_members(price, query.region))
        ]
        if query.region:
            found = _most_specific(found, query.region)
        found.sort(key=lambda p: (p.unit == VM_HOUR, p.generation, p.model, p.unit, p.region))
        return [book.paid(price, at) for price in found]

    def add(self, price: Price, key: RequestKey | None = None) -> CreatedPrice:
        """Enter a price by hand. Raises Rejected where it would rewrite the past, and for a region
        that neither Google has nor the price book knows: no node would ever be charged by it.
        Raises Conflict where another manual price of the same thing begins at the same instant to
        come.

        It may be dated back only where no price was known, and not into a month that is closed:
        that fills a gap and changes nothing that was ever charged. An `effective_from` of 0 is now.
        With a `key`, the same told twice is one price, however late the second time comes.
        """
        now = self._clock()
        price_id, created = once(
            *(self._units, "prices", key, self._clock),
            lambda unit, _: self._enter(unit, price, now),
        )
        with self._units.reading() as unit:
            return CreatedPrice(unit.prices.get(price_id), created)

    def _enter(self, unit: Unit, price: Price, now: int) -> str:
        unit.prices.take_turns()
        price = replace(price, effective_from=price.effective_from or now)
        check_sold(price)
        book = self._prices.book(unit)
        check_region(price.region, GROUPS.union(one.region for one in book.prices))
        try:
            check_price(price)
        except ValueError as error:
            raise Rejected(str(error), field="usd") from None
        if price.nanos > MAX_NANOS_PER_UNIT:
            raise Rejected(
                "this is more than any chip or machine costs; check the unit", field="usd"
            )
        check_open(price.effective_from, now, "effective_from")
        entered = replace(price, id=manual_id(new_id()), recorded_at=now)
        if price.effective_from < now:
            _check_fills_a_gap(book, entered, now)
        elif price.effective_from > now:  # of two from now on, the later is in force
            _check_is_the_only_one(unit.prices.all(), entered)
        unit.prices.add(entered)
        unit.usage.reconsider({price.generation: entered.effective_from})
        return entered.id


def _members(price: Price, region: str) -> tuple[str, ...]:
    return (region,) if price.region == group_of(region) else ()


def _most_specific(prices: Sequence[Price], region: str) -> list[Price]:
    own = {(p.generation, p.model, p.unit) for p in prices if p.region == region}
    return [p for p in prices if p.region == region or (p.generation, p.model, p.unit) not in own]


def _check_fills_a_gap(book: PriceBook, price: Price, now: int) -> None:
    known = [cut for cut in book.cuts_of(price, price.effective_from, now) if cut.price is not None]
    if known:
        raise Rejected(
            f"a price is known from {rfc3339(known[0].start)}: a manual price cannot change the"
            " past; let it begin now or later",
            field="effective_from",
        )


def _check_is_the_only_one(prices: Sequence[Price], price: Price) -> None:
    """Raise Conflict where somebody entered another price of the same thing for the same instant:
    nobody could tell which of them is charged."""
    for one in prices:
        is_same = (one.generation, one.unit, one.region) == (
            price.generation,
            price.unit,
            price.region,
        )
        is_same = is_same and series_of(one.model) == series_of(price.model)
        if is_same and one.is_manual and one.effective_from == price.effective_from:
            raise Conflict(
                f"a price of {dollars(one.nanos)} was entered for {rfc3339(one.effective_from)}"
                " already; to replace it, add a price that begins a second later",
                price_id=one.id,
            )
