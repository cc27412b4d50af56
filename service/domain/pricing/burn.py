"""The burn of what is billed: nano-dollars an hour at the prices of one second. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from service.domain.pricing.price_book import Price, PriceBook, Sku


class PricedLine(Protocol):
    """Some units of a product: an interval of usage, or `BilledUnits`."""

    @property
    def sku(self) -> Sku:
        """The product."""
        ...

    @property
    def units(self) -> int:
        """The number of chips, or of virtual machines."""
        ...


@dataclass(frozen=True, slots=True)
class BilledUnits:
    """Some chips, or some virtual machines, of one product."""

    sku: Sku
    units: int


def hourly_price(units: int, price: Price | None) -> int | None:
    """Return the burn of so many chips, or machines, at a price, in nano-dollars an hour. None
    where the price is unknown."""
    return None if price is None else units * price.per_chip_hour


def burn_of(lines: Iterable[PricedLine], book: PriceBook, now: int) -> int | None:
    """Return the burn of all lines in nano-dollars an hour at the prices of `now`; 0 without lines.
    None where the price of any line is unknown, which is not free."""
    total = 0
    for line in lines:
        rate = hourly_price(line.units, book.find_price(line.sku, now))
        if rate is None:
            return None
        total += rate
    return total
