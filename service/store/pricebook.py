"""The price book as of now: what ships with the service, and what was entered since."""

from __future__ import annotations

from typing import Protocol

from service.domain.discount import standing
from service.domain.pricing import PriceBook, embedded_prices
from service.store.prices import Prices


class HasPrices(Protocol):
    """A unit of work."""

    @property
    def prices(self) -> Prices: ...


class PriceShelf:
    """Keeps the book between uses; prices and discounts are only ever added, so how many there are
    tells its age."""

    def __init__(self) -> None:
        self.last = PriceBook(())
        """The book that was used last."""
        self._kept = -1, self.last

    def book(self, unit: HasPrices) -> PriceBook:
        """The book, made anew when a price or a discount was added."""
        return self.at(unit.prices.count(), unit.prices)

    def at(self, count: int, prices: Prices) -> PriceBook:
        """The book for callers who already know how many of both there are."""
        known, book = self._kept
        if count != known:
            entered = (*embedded_prices(), *prices.all())
            book = PriceBook(entered, standing(prices.discounts()))
            self._kept = count, book  # both at once: two threads may make one at the same time
            self.last = book
        return book
