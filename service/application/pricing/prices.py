"""The price book as callers read it, and manual prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.application.idempotency import write_once
from service.application.pricing.discounts import DiscountService
from service.domain.billing_period import check_open
from service.domain.catalog.regions import check_region
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.idempotency import RequestKey
from service.domain.ids import new_id
from service.domain.money import format_dollars
from service.domain.pricing.price_book import (
    GROUPS,
    MAX_NANOS_PER_UNIT,
    VM_HOUR,
    Price,
    check_price,
    group_of,
    manual_id,
    series_of,
)
from service.domain.pricing.sellable import check_named, check_sold
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """Which prices are listed; empty fields mean any. `at` is in UTC seconds, `generation` is that
    of TPUs or a machine type."""

    at: int | None = None
    generation: str = ""
    model: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class CreatedPrice:
    """A price; `created` is False if a request with the same key entered it before."""

    price: Price
    created: bool


class PriceService:
    """Lists past and current prices, and adds prices for the future."""

    def __init__(self, units: Units, prices: PriceBookCache, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self.discounts = DiscountService(units, clock)

    def list_in_force(self, query: PriceQuery) -> Sequence[Price]:
        """The prices in force at an instant, by generation, model, unit and region, those of TPUs
        before those of machine types. A discounted price is a DiscountedPrice that names its list
        price.

        For a region without a price of its own, the price of its group is listed.
        """
        at = self._clock() if query.at is None else query.at
        if query.generation:
            check_named(query.generation)
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
        found = [
            price
            for price in book.in_force(at)
            if query.generation in ("", price.generation)
            and (not query.model or series_of(query.model) == series_of(price.model))
            and (query.region in ("", price.region) or price.region == group_of(query.region))
        ]
        if query.region:
            # The most specific price counts: a price of the region hides that of its group.
            own = {(p.generation, p.model, p.unit) for p in found if p.region == query.region}
            found = [
                p
                for p in found
                if p.region == query.region or (p.generation, p.model, p.unit) not in own
            ]
        found.sort(key=lambda p: (p.unit == VM_HOUR, p.generation, p.model, p.unit, p.region))
        return [book.paid_price(price, at) for price in found]

    def add(self, price: Price, key: RequestKey | None = None) -> CreatedPrice:
        """Enter a price by hand. Raises Rejected if it would change the past, and for a region that
        neither Google nor the price book has: no node would ever be charged by it. Raises Conflict
        if another manual price of the same thing begins at the same future instant.

        The price may begin in the past only if no price was known there, and not in a closed month:
        that fills a gap and changes no past charge. An `effective_from` of 0 is now. With a `key`,
        repeated requests are one price, however late they come.
        """
        now = self._clock()
        price_id, created = write_once(
            *(self._units, "prices", key, self._clock),
            lambda unit, _: self._enter_price(unit, price, now),
        )
        with self._units.reading() as unit:
            return CreatedPrice(unit.prices.get(price_id), created)

    def _enter_price(self, unit: Unit, price: Price, now: int) -> str:
        unit.prices.lock_until_commit()
        price = replace(price, effective_from=price.effective_from or now)
        check_sold(price)
        book = self._prices.get_book(unit)
        check_region(price.region, GROUPS.union(known.region for known in book.prices))
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
            cuts = book.cuts_of(entered, entered.effective_from, now)
            known = [cut for cut in cuts if cut.price is not None]
            if known:
                raise Rejected(
                    f"a price is known from {to_rfc3339(known[0].start)}: a manual price cannot"
                    " change the past; let it begin now or later",
                    field="effective_from",
                )
        elif price.effective_from > now:  # of two from now on, the later is in force
            for other in unit.prices.list_all():
                is_same = (other.generation, other.unit, other.region) == (
                    entered.generation,
                    entered.unit,
                    entered.region,
                )
                is_same = is_same and series_of(other.model) == series_of(entered.model)
                is_at_once = other.effective_from == entered.effective_from
                if is_same and other.is_manual and is_at_once:  # which of them would be charged?
                    raise Conflict(
                        f"a price of {format_dollars(other.nanos)} was entered for"
                        f" {to_rfc3339(other.effective_from)} already; to replace it, add a price"
                        " that begins a second later",
                        price_id=other.id,
                    )
        unit.prices.add(entered)
        unit.usage.mark_dirty({price.generation: entered.effective_from})
        return entered.id
