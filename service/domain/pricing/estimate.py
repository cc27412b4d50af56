"""What a node would cost, place by place, before it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, HOUR
from service.domain.money import half_even
from service.domain.pricing.price_book import (
    RESERVED,
    Price,
    PriceBook,
    PriceStretch,
    ReservedPrice,
    Sku,
)
from service.domain.pricing.purchases import pool_of

FAR = 10 * 366 * DAY
"""Prices are looked at so many seconds ahead."""


@dataclass(frozen=True, slots=True)
class PriceOffer:
    """One zone and model with its price. `hourly` is nano-dollars an hour for all the chips at this
    second's `price`, `cost` nano-dollars for the duration at the prices that are in force in it;
    None where no price is known, which is not free.

    `seconds` are those that `cost` is for: fewer than were asked for where it is reserved, and the
    reservation does not last. `used` are the prices of these seconds, `cuts` all that are known for
    the time to come.
    """

    zone: str
    model: str
    price: Price | None
    hourly: int | None
    cost: int | None
    seconds: int
    chips: int
    cuts: tuple[PriceStretch, ...]
    used: tuple[PriceStretch, ...]

    def cost_before(self, end: int) -> int | None:
        """Nano-dollars of the part that lies before an instant; None where a price of it is not
        known."""
        part = [replace(cut, end=min(cut.end, end)) for cut in self.used if cut.start < end]
        return cost_of(self.chips, part)

    def lasts(self, spend: int) -> int | None:
        """For how many seconds so many nano-dollars do, as far as prices are known; None where this
        second's is not."""
        if self.price is None:
            return None
        left, found = spend * HOUR, 0
        for cut in self.cuts:
            if cut.price is None:
                return found
            rate, whole = self.chips * cut.price.per_chip_hour, cut.end - cut.start
            if left < rate * whole or cut is self.cuts[-1]:
                return found + left // rate
            left, found = left - rate * whole, found + whole
        return found


def sku_of(accelerator: AcceleratorType, model: str, zone: str, pool: str = "") -> Sku:
    """What Google's price list calls this hardware there; `pool` is where it is reserved."""
    return Sku(accelerator.generation, model, region_of(zone), accelerator.hosts == 1, pool)


def hourly(chips: int, price: Price | None) -> int | None:
    """Nano-dollars an hour for that many chips."""
    return None if price is None else chips * price.per_chip_hour


def usable(cuts: Sequence[PriceStretch]) -> Sequence[PriceStretch]:
    """Those of the stretches in which something can run: what is reserved runs within its
    reservation only, so that what lies around that is not asked for."""
    return [cut for cut in cuts if isinstance(cut.price, ReservedPrice)] or cuts


def cost_of(chips: int, cuts: Sequence[PriceStretch]) -> int | None:
    """Nano-dollars for so many chips in all of the stretches, rounded once; None where the price of
    one is not known."""
    rates = [
        (cut.price.per_chip_hour, cut.end - cut.start) for cut in cuts if cut.price is not None
    ]
    if len(rates) < len(cuts):
        return None
    return half_even(chips * sum(nanos * seconds for nanos, seconds in rates), HOUR)


def offers(
    accelerator: AcceleratorType,
    places: Iterable[tuple[str, str]],
    book: PriceBook,
    now: int,
    seconds: int,
    project: str = "",
) -> list[PriceOffer]:
    """The (zone, model) places with what they would cost, cheapest first, then those that do not
    last, the unpriced last. What is reserved is looked for in the reservations of `project`."""
    found = []
    for zone, model in places:
        pool = pool_of(project, zone) if model == RESERVED else ""
        sku = sku_of(accelerator, model, zone, pool)
        ahead = book.cuts(sku, now, now + max(seconds, FAR))
        found.append(_offer(zone, model, accelerator.chips, ahead, seconds))
    return sorted(found, key=lambda one: _rank(one, seconds))


def _offer(
    zone: str, model: str, chips: int, ahead: tuple[PriceStretch, ...], seconds: int
) -> PriceOffer:
    price, end = ahead[0].price, ahead[0].start + seconds
    used = tuple(usable([replace(cut, end=min(cut.end, end)) for cut in ahead if cut.start < end]))
    lasting = sum(cut.end - cut.start for cut in used)
    rate, cost = hourly(chips, price), cost_of(chips, used)
    return PriceOffer(zone, model, price, rate, cost, lasting, chips, ahead, used)


def _rank(one: PriceOffer, seconds: int) -> tuple[bool, bool, int, bool, int, str, str]:
    cost, rate = one.cost, one.hourly
    shorter = one.seconds < seconds
    return cost is None, shorter, cost or 0, rate is None, rate or 0, one.zone, one.model
