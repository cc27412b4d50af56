"""The current price book: the prices that ship with the service, and the prices entered since."""

from __future__ import annotations

from typing import Protocol

from service.domain.pricing.discounts import keep_latest
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.shipped_prices import embedded_prices
from service.store.prices import Prices


class HasPrices(Protocol):
    """A unit of work."""

    @property
    def prices(self) -> Prices: ...


class PriceBookCache:
    """Caches the price book. Prices, discounts and reservations are only added (and reservations
    withdrawn once), so their number tells whether the book is current."""

    def __init__(self) -> None:
        self.last = PriceBook(())
        """The last used book."""
        self._kept = -1, self.last

    def get_book(self, unit: HasPrices) -> PriceBook:
        """The current book, rebuilt if something was added."""
        return self.get_book_at(unit.prices.count_rows(), unit.prices)

    def get_book_at(self, count: int, prices: Prices) -> PriceBook:
        """The book for callers who know the number of rows already."""
        known, book = self._kept
        if count != known:
            entered = (*embedded_prices(), *prices.list_all())
            book = PriceBook(entered, keep_latest(prices.list_discounts()), prices.list_purchases())
            self._kept = count, book  # both at once: two threads may make one at the same time
            self.last = book
        return book
