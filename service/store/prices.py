"""Prices that were entered by hand; those that ship with the service are in the domain's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, func, insert, select

from service.domain.pricing import Price
from service.store.tables import prices


class Prices:
    """Effective-dated prices; only added to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, price: Price) -> None:
        """Write a price down."""
        self._connection.execute(insert(prices).values(**asdict(price)))

    def all(self) -> Sequence[Price]:
        """Every price ever entered."""
        return [Price(**row) for row in self._connection.execute(select(prices)).mappings()]

    def count(self) -> int:
        """How many there are: as none is ever changed, a new count means a new book."""
        return self._connection.execute(select(func.count()).select_from(prices)).scalar_one()
