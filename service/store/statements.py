"""The total of each month: the ledger by billing period, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal_column, or_, select

from service.domain.billing_period import BillingMonth, period_of
from service.domain.ids import is_machine_type
from service.store.tables import ledger, reservations


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One line of a month's statement. `corrects` is the month, `2026-10`, that the line corrects;
    empty for a charge of the month itself. `price` and `list_price` are nano-dollars per chip-hour,
    or per hour of the user's own virtual machine, which was used for `vm_seconds` then. `amount`
    and `list_amount` are nano-dollars; list figures are None if no list price was known.
    `reservation` is the name of the calendar reservation that the usage was taken from,
    `reservation_status` says whether nodes used it; both are empty if there is none."""

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
    vm_seconds: int = 0
    reservation: str = ""
    reservation_status: Literal["", "used", "unused"] = ""

    @property
    def is_vm(self) -> bool:
        """Whether the line is about the user's own virtual machine."""
        return is_machine_type(self.generation)


_COLUMNS = ledger.c
_NOTHING: ColumnElement[str] = literal_column("''")
_BY = {
    **{
        name: _COLUMNS[name]
        for name in ("project", "team", "owner", "generation", "accelerator_type", "model", "zone")
    },
    "price": _COLUMNS.price_nanos,
    "list_price": _COLUMNS.list_price_nanos,
    "reservation": func.coalesce(reservations.c.name, _NOTHING),
    "reservation_status": case(
        (_COLUMNS.reservation_id.is_(None), _NOTHING),
        (_COLUMNS.reservation_id == _COLUMNS.node_id, literal_column("'unused'")),
        else_=literal_column("'used'"),
    ),
}
"""The key of a line. A reservation is shown by its name, because payers do not know its id; two
consecutive reservations with one name are one to them."""

_SUMS = {
    "chip_seconds": func.sum(_COLUMNS.chip_seconds),
    "amount": func.sum(_COLUMNS.amount_nanos),
    "list_amount": func.sum(_COLUMNS.list_nanos),
    "vm_seconds": func.sum(_COLUMNS.vm_seconds),
}
_LINES = select(*_BY.values(), *_SUMS.values()).select_from(
    ledger.outerjoin(reservations, reservations.c.id == _COLUMNS.reservation_id)
)


class Statements:
    """Sums of the ledger by the month in which its lines are billed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_first_hour(self) -> int | None:
        """The first hour with a charge; None if there is none."""
        first: int | None = self._connection.execute(select(func.min(ledger.c.hour))).scalar_one()
        return first

    def sum_month(self, period: BillingMonth) -> tuple[int, int, int]:
        """(nano-dollars, chip-seconds, seconds of users' own machines) that are billed in that
        month, including corrections."""
        columns = _COLUMNS.amount_nanos, _COLUMNS.chip_seconds, _COLUMNS.vm_seconds
        statement = select(*(func.coalesce(func.sum(column), 0) for column in columns)).where(
            or_(_is_own(period), ledger.c.period == period.start)
        )
        amount, chip_seconds, vm_seconds = self._connection.execute(statement).one()
        return int(amount), int(chip_seconds), int(vm_seconds)

    def list_lines(self, period: BillingMonth) -> Sequence[StatementLine]:
        """The lines of a month in a fixed order."""
        statement = _LINES.where(_is_own(period)).group_by(*_BY.values())
        found = [_to_line(row, row[len(_BY) :], "") for row in self._connection.execute(statement)]
        # The corrections of months that were closed when they were posted, by month.
        hour = ledger.c.hour
        corrections = (
            _LINES.add_columns(hour)
            .where(ledger.c.period == period.start)
            .group_by(*_BY.values(), hour)
        )
        sums: dict[tuple[object, ...], list[int | None]] = {}
        for row in self._connection.execute(corrections):
            key = (*row[: len(_BY)], period_of(row[-1]).name)
            known = sums.setdefault(key, [0] * len(_SUMS))
            figures = row[len(_BY) : -1]
            sums[key] = [
                None if before is None or added is None else before + int(added)
                for before, added in zip(known, figures, strict=True)
            ]
        found += [_to_line(key, figures, str(key[-1])) for key, figures in sums.items()]
        return sorted(found, key=_sort_key)


def _is_own(period: BillingMonth) -> ColumnElement[bool]:
    """What was charged for hours of the month before it was closed."""
    hour = ledger.c.hour
    return and_(ledger.c.period.is_(None), hour >= period.start, hour < period.end)


def _to_line(key: Sequence[Any], figures: Sequence[Any], corrects: str) -> StatementLine:
    """A line of the values in `_BY` and the sums in `_SUMS`."""
    sums = (None if figure is None else int(figure) for figure in figures)
    said: dict[str, Any] = dict(zip((*_BY, *_SUMS), (*key[: len(_BY)], *sums), strict=True))
    return StatementLine(**said, corrects=corrects)


def _sort_key(line: StatementLine) -> tuple[object, ...]:
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
        line.reservation,
        line.reservation_status,
    )
