"""What each month comes to: the ledger by billing period, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from service.domain.period import Period, period_of
from service.store.tables import ledger


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One line of a month's statement. `corrects` is the month, `2026-10`, that it corrects; empty
    where it is of the month itself. `price` and `list_price` are nano-dollars per chip-hour,
    `amount` and `list_amount` nano-dollars; list figures are None where no list price was known."""

    project: str
    team: str
    owner: str
    generation: str
    accelerator_type: str
    model: str
    zone: str
    corrects: str
    price: int
    list_price: int | None
    chip_seconds: int
    amount: int
    list_amount: int | None


_DIMENSIONS = [
    ledger.c[name]
    for name in (
        "project",
        "team",
        "owner",
        "generation",
        "accelerator_type",
        "model",
        "zone",
    )
]
_SUMS = (
    func.sum(ledger.c.chip_seconds),
    func.sum(ledger.c.amount_nanos),
    func.sum(ledger.c.list_nanos),
)


class Statements:
    """Sums of the ledger by the month that its lines are billed in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def first_hour(self) -> int | None:
        """The first hour that anything was charged for; None while nothing was."""
        first: int | None = self._connection.execute(select(func.min(ledger.c.hour))).scalar_one()
        return first

    def total(self, period: Period) -> tuple[int, int]:
        """(nano-dollars, chip-seconds) that are billed in that month, corrections among them."""
        statement = select(
            func.coalesce(func.sum(ledger.c.amount_nanos), 0),
            func.coalesce(func.sum(ledger.c.chip_seconds), 0),
        ).where(or_(_own(period), ledger.c.period == period.start))
        amount, chip_seconds = self._connection.execute(statement).one()
        return int(amount), int(chip_seconds)

    def lines(self, period: Period) -> Sequence[StatementLine]:
        """The lines of a month in an order that follows from what they say."""
        prices = (ledger.c.price_nanos, ledger.c.list_price_nanos)
        statement = (
            select(*_DIMENSIONS, *prices, *_SUMS)
            .where(_own(period))
            .group_by(*_DIMENSIONS, *prices)
        )
        found = [_line(row, "") for row in self._connection.execute(statement)]
        found += self._corrections(period)
        return sorted(found, key=_order)

    def _corrections(self, period: Period) -> list[StatementLine]:
        """Of months that were closed when it was posted, by month."""
        prices = (ledger.c.price_nanos, ledger.c.list_price_nanos)
        columns = (*_DIMENSIONS, *prices, *_SUMS, ledger.c.hour)
        statement = (
            select(*columns)
            .where(ledger.c.period == period.start)
            .group_by(*_DIMENSIONS, *prices, ledger.c.hour)
        )
        sums: dict[tuple[object, ...], list[int | None]] = {}
        for row in self._connection.execute(statement):
            key = (*row[:9], period_of(row[-1]).name)
            known = sums.setdefault(key, [0, 0, 0])
            sums[key] = [_add(one, other) for one, other in zip(known, row[9:12], strict=True)]
        return [_line((*key[:9], *figures), str(key[9])) for key, figures in sums.items()]


def _own(period: Period) -> ColumnElement[bool]:
    """What was charged for hours of the month while it took charges."""
    hour = ledger.c.hour
    return and_(ledger.c.period.is_(None), hour >= period.start, hour < period.end)


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + int(other)


def _line(row: Sequence[Any], corrects: str) -> StatementLine:
    names = dict(zip((column.name for column in _DIMENSIONS), row[:7], strict=True))
    price, list_price, chip_seconds, amount, list_amount = row[7:12]
    return StatementLine(
        **names,
        corrects=corrects,
        price=price,
        list_price=list_price,
        chip_seconds=int(chip_seconds),
        amount=int(amount),
        list_amount=None if list_amount is None else int(list_amount),
    )


def _order(line: StatementLine) -> tuple[object, ...]:
    return (
        line.corrects,
        line.project,
        line.team,
        line.owner,
        line.generation,
        line.accelerator_type,
        line.model,
        line.zone,
        line.price,
        line.list_price or 0,
    )
