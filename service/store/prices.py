"""Prices that were entered by hand or by the feed, discounts, and reservations. The prices that
ship with the service are in the domain's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

from sqlalchemy import Connection, func, insert, literal, select, text
from sqlalchemy.dialects.postgresql import insert as postgresql_insert

from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import Price
from service.domain.pricing.purchases import Purchase
from service.store.tables import discounts, prices, reservations

AGE = (
    select(func.count()).select_from(prices).scalar_subquery()
    + select(func.count()).select_from(discounts).scalar_subquery()
    + select(func.count()).select_from(reservations).scalar_subquery()
    + select(func.count(reservations.c.withdrawn_at)).scalar_subquery()
)
"""The number of rows, with withdrawn rows counted twice. Rows change in no other way, so a new
number means a new book."""

_COUNT = select(AGE)

_PRICES = select(*(prices.c[field.name] for field in fields(Price)))
_DISCOUNTS = select(*(discounts.c[field.name] for field in fields(Discount))).order_by(
    discounts.c.number
)


_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward prices'))")


class Prices:
    """Prices and discounts with the dates from which they hold. Append-only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock_until_commit(self) -> None:
        """Let no other transaction enter a price before the end of this one. On SQLite all writers
        take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN)

    def add(self, price: Price) -> None:
        """Write a price."""
        self._connection.execute(insert(prices).values(**asdict(price)))

    def get(self, price_id: str) -> Price:
        """An entered price by id."""
        statement = select(prices).where(prices.c.id == price_id)
        return Price(**self._connection.execute(statement).mappings().one())

    def add_from_feed(self, price: Price) -> None:
        """Write a price, unless another daemon wrote it just now: equal prices have equal ids."""
        values = {
            name: literal(value, prices.c[name].type) for name, value in asdict(price).items()
        }
        there = select(prices.c.id).where(prices.c.id == price.id).exists()
        row = select(*values.values()).where(~there)  # a trigger of SQLite sees no DO NOTHING
        statement = postgresql_insert(prices).from_select(list(values), row)
        if self._connection.dialect.name == "postgresql":  # on SQLite, all that write take turns
            statement = statement.on_conflict_do_nothing()
        self._connection.execute(statement)

    def list_all(self) -> Sequence[Price]:
        """Every price ever entered."""
        return [Price(*row) for row in self._connection.execute(_PRICES)]

    def add_discount(self, discount: Discount, after: int) -> None:
        """Write a row about a discount; StaleVersion if there are more than `after` rows."""
        self._connection.execute(insert(discounts).values(number=after + 1, **asdict(discount)))

    def list_discounts(self) -> Sequence[Discount]:
        """Every row about discounts, in the order of writing."""
        return [Discount(**row) for row in self._connection.execute(_DISCOUNTS).mappings()]

    def list_purchases(self) -> Sequence[Purchase]:
        """The reservations that were not withdrawn."""
        names = ("id", "name", "project", "zone", "generation", "start_at", "end_at")
        statement = select(*(reservations.c[name] for name in names)).where(
            reservations.c.withdrawn_at.is_(None)
        )
        return [Purchase(*row) for row in self._connection.execute(statement)]

    def count_rows(self) -> int:
        """The number of all rows; see `AGE`."""
        return int(self._connection.execute(_COUNT).scalar_one())
