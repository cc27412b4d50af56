"""What a node would cost, place by place, before it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.accelerators import AcceleratorType
from service.domain.clock import HOUR
from service.domain.money import half_even
from service.domain.pricing import RESERVED, Price, PriceBook, Sku
from service.domain.purchase import pool_of
from service.domain.zones import region_of


@dataclass(frozen=True, slots=True)
class Offer:
    """One zone and model with its price. `hourly` is nano-dollars an hour for all the chips, `cost`
    nano-dollars for the duration; None where no price is known, which is not free."""

    zone: str
    model: str
    price: Price | None
    hourly: int | None
    cost: int | None


def sku_of(accelerator: AcceleratorType, model: str, zone: str, pool: str = "") -> Sku:
    """What Google's price list calls this hardware there; `pool` is where it is reserved."""
    return Sku(accelerator.generation, model, region_of(zone), accelerator.hosts == 1, pool)


def hourly(chips: int, price: Price | None) -> int | None:
    """Nano-dollars an hour for that many chips."""
    return None if price is None else chips * price.per_chip_hour


def offers(
    accelerator: AcceleratorType,
    places: Iterable[tuple[str, str]],
    book: PriceBook,
    now: int,
    seconds: int,
    project: str = "",
) -> list[Offer]:
    """The (zone, model) places with what they would cost, cheapest first, the unpriced last. What
    is reserved is looked for in the reservations of `project`."""
    found = []
    for zone, model in places:
        pool = pool_of(project, zone) if model == RESERVED else ""
        price = book.at(sku_of(accelerator, model, zone, pool), now)
        rate = hourly(accelerator.chips, price)
        cost = None if rate is None else half_even(rate * seconds, HOUR)
        found.append(Offer(zone, model, price, rate, cost))
    return sorted(found, key=lambda o: (o.hourly is None, o.hourly or 0, o.zone, o.model))
