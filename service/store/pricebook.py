"""The price book as of now: what ships with the service, and what was entered since."""

from __future__ import annotations

from service.domain.pricing import PriceBook, embedded_prices
from service.store.unit import Unit


class PriceShelf:
    """Keeps the book between uses; prices are only ever added, so their number tells its age."""

    def __init__(self) -> None:
        self._count = -1
        self._book = PriceBook(())

    def book(self, unit: Unit) -> PriceBook:
        """The book, made anew when a price was added."""
        count = unit.prices.count()
        if count != self._count:
            self._book, self._count = PriceBook((*embedded_prices(), *unit.prices.all())), count
        return self._book
