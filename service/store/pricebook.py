"""The price book as of now: what ships with the service, and what was entered since."""

from __future__ import annotations

from typing import Protocol

from service.domain.pricing.discounts import standing
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.shipped_prices import embedded_prices
from service.store.prices import Prices


class HasPrices(Protocol):
    """A unit of work."""

    @property
    def prices(self) -> Prices: ...


class PriceShelf:
    """Keeps the book between uses; prices, discounts and reservations are only ever added (and the
    last withdrawn once), so how many there are tells its age."""

    def __init__(self) -> None:
        self.last = PriceBook(())
        """The book that was used last."""
        self._kept = -1, self.last

    def book(self, unit: HasPrices) -> PriceBook:
        """The book, made anew when something was added."""
        return self.at(unit.prices.count(), unit.prices)

    def at(self, count: int, prices: Prices) -> PriceBook:
        """The book for callers who already know how many of all there are."""
        known, book = self._kept
        if count != known:
            entered = (*embedded_prices(), *prices.all())
            book = PriceBook(entered, standing(prices.discounts()), prices.purchases())
            self._kept = count, book  # both at once: two threads may make one at the same time
            self.last = book
        return book
