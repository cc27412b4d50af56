"""The cost of a node at each place, before the node is requested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, HOUR
from service.domain.money import half_even
from service.domain.pricing.burn import hourly_price
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
"""Seconds ahead for which prices are read."""


@dataclass(frozen=True, slots=True)
class PriceOffer:
    """One zone and model with its price. `hourly` is nano-dollars an hour for all the chips at this
    second's `price`, `cost` nano-dollars for the duration at the prices in force; None means an
    unknown price, not a free node.

    `seconds` is the duration of `cost`: less than requested where a reservation ends earlier.
    `used` are the prices of these seconds, `cuts` all known prices of the future.
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
        """Return the nano-dollars of the part before an instant; None where a price of this part is
        unknown."""
        part = [replace(cut, end=min(cut.end, end)) for cut in self.used if cut.start < end]
        return cost_of(self.chips, part)

    def seconds_for(self, spend: int) -> int | None:
        """Return the seconds that `spend` nano-dollars pay for, as far as prices are known; None
        where this second's price is unknown."""
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
    """Return the SKU for the estimate of hardware in a zone; `pool` is where it is reserved."""
    return Sku(accelerator.generation, model, region_of(zone), accelerator.hosts == 1, pool)


def select_usable(cuts: Sequence[PriceStretch]) -> Sequence[PriceStretch]:
    """Return the stretches that count in an estimate, as the node can run in them. A reserved node
    runs within its reservation only, so prices outside of the reservation are dropped."""
    return [cut for cut in cuts if isinstance(cut.price, ReservedPrice)] or cuts


def cost_of(chips: int, cuts: Sequence[PriceStretch]) -> int | None:
    """Return the estimate for `chips` chips in all stretches, in nano-dollars, rounded once. None
    where a price is unknown."""
    rates = [
        (cut.price.per_chip_hour, cut.end - cut.start) for cut in cuts if cut.price is not None
    ]
    if len(rates) < len(cuts):
        return None
    return half_even(chips * sum(nanos * seconds for nanos, seconds in rates), HOUR)


def list_offers(
    accelerator: AcceleratorType,
    places: Iterable[tuple[str, str]],
    book: PriceBook,
    now: int,
    seconds: int,
    project: str = "",
) -> list[PriceOffer]:
    """Return the estimates of a node at the (zone, model) places, the cheapest first. Offers that
    end too early follow, and those without a price are last. Reserved capacity is that of
    `project`."""
    found, chips = [], accelerator.chips
    for zone, model in places:
        pool = pool_of(project, zone) if model == RESERVED else ""
        sku = sku_of(accelerator, model, zone, pool)
        ahead = book.list_cuts(sku, now, now + max(seconds, FAR))
        price, end = ahead[0].price, ahead[0].start + seconds
        within = [replace(cut, end=min(cut.end, end)) for cut in ahead if cut.start < end]
        used = tuple(select_usable(within))
        lasting = sum(cut.end - cut.start for cut in used)
        rate, cost = hourly_price(chips, price), cost_of(chips, used)
        found.append(PriceOffer(zone, model, price, rate, cost, lasting, chips, ahead, used))
    return sorted(
        found,
        key=lambda offer: (
            offer.cost is None,
            offer.seconds < seconds,
            offer.cost or 0,
            offer.hourly is None,
            offer.hourly or 0,
            offer.zone,
            offer.model,
        ),
    )
