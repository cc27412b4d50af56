"""Bills: files that were imported, their rows while they are read, and the comparisons kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.bill import Apart, Bill, Counts, Group
from service.domain.billfile import Read, Shape
from service.domain.billrow import REGULAR, BillRow
from service.domain.comparison import Difference, Line, Seen, Verdict
from service.domain.errors import NotFound
from service.store.rows import dumps, loads
from service.store.tables import bill_lines, bill_rows, bills

_KEYS = [
    bill_rows.c[name]
    for name in (
        "project",
        "resource",
        "node_id",
        "sku_id",
        "description",
        "generation",
        "model",
        "hour",
    )
]
_PLACE = case(
    (bill_rows.c.model == literal_column("'reserved'"), bill_rows.c.zone),
    else_=literal_column("''"),
)
"""Where something reserved is: its rows may name nothing else that tells it apart. All else has a
resource, and a correction of it that does not say where is no other row."""

_NAMES = [field.name for field in fields(Line)]
_LINE = [bill_lines.c[name] for name in _NAMES]
_OF_BILL = ("id", "name", "digest", "tolerance", "created_at", "duplicates", "finished_at")


@dataclass(frozen=True, slots=True)
class Kept:
    """A comparison with its number, by which pages are cut."""

    id: int
    line: Line


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of one resource, SKU and hour added up; `label` is the node that the resource's own
    label names, if it has one, and `zone` is where something reserved is, if its rows say so."""

    project: str
    resource: str
    label: str
    sku_id: str
    description: str
    generation: str
    model: str
    hour: int
    rows: int
    cost: int
    credits: int
    at_list: int | None
    chip_seconds: int | None
    zone: str = ""


class Bills:
    """A bill is written down first, then its rows, in batches; it counts once it is finished."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, bill: Bill) -> None:
        """Write down an import that has begun."""
        self._connection.execute(insert(bills).values(**_row(bill)))

    def save(self, bill: Bill) -> None:
        """Write down how far it has come."""
        self._connection.execute(update(bills).where(bills.c.id == bill.id).values(**_row(bill)))

    def drop(self, bill_id: str) -> None:
        """Forget an import with all that it brought."""
        for table in (bill_lines, bill_rows):
            self._connection.execute(delete(table).where(table.c.bill_id == bill_id))
        self._connection.execute(delete(bills).where(bills.c.id == bill_id))

    def abandoned(self, before: int) -> Sequence[str]:
        """Imports that began before that instant and never came to their end."""
        statement = select(bills.c.id).where(
            bills.c.finished_at.is_(None), bills.c.created_at < before
        )
        return self._connection.execute(statement).scalars().all()

    def same(self, digest: str, tolerance: int) -> Bill | None:
        """The finished import of the very same file."""
        statement = select(bills).where(
            bills.c.digest == digest,
            bills.c.tolerance == tolerance,
            bills.c.finished_at.is_not(None),
        )
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else _bill(row)

    def get(self, bill_id: str) -> Bill:
        """A finished import. Raises NotFound."""
        statement = select(bills).where(bills.c.id == bill_id, bills.c.finished_at.is_not(None))
        row = self._connection.execute(statement).mappings().one_or_none()
        if row is None:
            raise NotFound(
                f"there is no reconciliation {bill_id[:80]!r}; GET /v1/reconciliations lists them"
            )
        return _bill(row)

    def all(self, limit: int, offset: int = 0) -> Sequence[Bill]:
        """The finished imports, the newest first."""
        statement = (
            select(bills)
            .where(bills.c.finished_at.is_not(None))
            .order_by(bills.c.created_at.desc(), bills.c.id.desc())
            .limit(limit)
            .offset(offset)
        )
        return [_bill(row) for row in self._connection.execute(statement).mappings()]

    def stage(self, bill_id: str, reads: Iterable[Read]) -> None:
        """Take rows in; one that is there already, in full, is the same row and is not added."""
        values = [_staged(bill_id, read) for read in reads]
        if values:
            sqlite = self._connection.dialect.name == "sqlite"
            statement = sqlite_insert(bill_rows) if sqlite else postgresql_insert(bill_rows)
            self._connection.execute(statement.on_conflict_do_nothing(), values)

    def staged(self, bill_id: str) -> int:
        """How many different rows there are."""
        statement = select(func.count()).where(bill_rows.c.bill_id == bill_id)
        return int(self._connection.execute(statement).scalar_one())

    def apart(self, bill_id: str) -> Mapping[str, Apart]:
        """What is no usage, by its cost type."""
        statement = (
            select(bill_rows.c.kind, func.count(), func.sum(bill_rows.c.cost + bill_rows.c.credits))
            .where(bill_rows.c.bill_id == bill_id, bill_rows.c.kind != REGULAR)
            .group_by(bill_rows.c.kind)
            .order_by(bill_rows.c.kind)
        )
        return {
            kind: Apart(rows, int(cost)) for kind, rows, cost in self._connection.execute(statement)
        }

    def hours(self, bill_id: str) -> Sequence[tuple[int, int]]:
        """The hours that it has rows of, each with their number."""
        statement = (
            select(bill_rows.c.hour, func.count())
            .where(bill_rows.c.bill_id == bill_id)
            .group_by(bill_rows.c.hour)
            .order_by(bill_rows.c.hour)
        )
        return [(row[0], row[1]) for row in self._connection.execute(statement)]

    def summed(self, bill_id: str, start: int, end: int) -> Sequence[Staged]:
        """The usage of the hours in [start, end), corrections added up with what they correct."""
        columns = bill_rows.c
        statement = (
            select(
                *_KEYS,
                func.count(),
                func.sum(columns.cost),
                func.sum(columns.credits),
                _known(columns.at_list),
                _known(columns.chip_seconds),
                _PLACE,
            )
            .where(columns.bill_id == bill_id, columns.kind == REGULAR)
            .where(columns.hour >= start, columns.hour < end)
            .group_by(*_KEYS, _PLACE)
        )
        return [
            Staged(*row[:9], int(row[9]), int(row[10]), _int(row[11]), _int(row[12]), row[13])
            for row in self._connection.execute(statement)
        ]

    def compare(self, bill_id: str, start: int, end: int, lines: Iterable[Line]) -> None:
        """Keep the comparisons of these hours, and their rows no longer."""
        values = [
            {name: getattr(line, name) for name in _NAMES} | {"bill_id": bill_id} for line in lines
        ]
        if values:
            self._connection.execute(insert(bill_lines), values)
        columns = bill_rows.c
        self._connection.execute(
            delete(bill_rows)
            .where(columns.bill_id == bill_id)
            .where(columns.hour >= start, columns.hour < end)
        )

    def groups(self, bill_id: str) -> Sequence[Group]:
        """The comparisons of a bill, added up by verdict, project and SKU."""
        columns = bill_lines.c
        by = [columns[name] for name in ("verdict", "project", "sku_id", "generation", "model")]
        variance = columns.variance
        statement = (
            select(
                *by,
                func.count(),
                func.sum(columns.billed),
                func.sum(columns.credits),
                func.sum(columns.charged),
                func.sum(case((variance > 0, variance), else_=0)),
                func.sum(case((variance < 0, variance), else_=0)),
            )
            .where(columns.bill_id == bill_id)
            .group_by(*by)
            .order_by(*by)
        )
        return [
            Group(Verdict(row[0]), *row[1:5], *map(int, row[5:]))
            for row in self._connection.execute(statement)
        ]

    def lines(
        self, bill_id: str, verdicts: Sequence[Verdict], after: int, limit: int
    ) -> Sequence[Kept]:
        """Comparisons with these verdicts and numbers above `after`."""
        columns = bill_lines.c
        statement = (
            select(columns.id, *_LINE)
            .where(columns.bill_id == bill_id, columns.id > after, columns.verdict.in_(verdicts))
            .order_by(columns.id)
            .limit(limit)
        )
        return [_kept(row) for row in self._connection.execute(statement).mappings()]

    def largest(self, bill_id: str, verdicts: Sequence[Verdict], limit: int) -> Sequence[Kept]:
        """The comparisons with these verdicts that make the most of the variance."""
        columns = bill_lines.c
        statement = (
            select(columns.id, *_LINE)
            .where(columns.bill_id == bill_id, columns.verdict.in_(verdicts))
            .order_by(func.abs(columns.variance).desc(), columns.id)
            .limit(limit)
        )
        return [_kept(row) for row in self._connection.execute(statement).mappings()]


def _known(column: Any) -> Any:
    """The sum, where every row says something."""
    return case((func.count(column) == func.count(), func.sum(column)))


def _int(value: Any) -> int | None:
    return None if value is None else int(value)


def _staged(bill_id: str, read: Read) -> dict[str, object]:
    row = read.row
    assert isinstance(row, BillRow)
    return {
        "bill_id": bill_id,
        "digest": read.digest,
        "kind": row.kind,
        "project": row.project,
        "resource": row.resource,
        "node_id": row.node_id,
        "sku_id": row.sku_id,
        "description": row.description,
        "generation": row.generation,
        "model": row.model,
        "hour": row.hour,
        "cost": row.cost,
        "credits": row.credits,
        "at_list": row.at_list,
        "chip_seconds": row.chip_seconds,
        "zone": row.zone,
    }


def _row(bill: Bill) -> dict[str, object]:
    return {name: getattr(bill, name) for name in _OF_BILL} | {
        "shape": bill.shape.value,
        "counts": dumps(bill.counts),
        "apart": dumps(bill.apart),
        "groups": dumps(bill.groups),
    }


def _bill(row: Mapping[Any, Any]) -> Bill:
    return Bill(
        **{name: row[name] for name in _OF_BILL},
        shape=Shape(row["shape"]),
        counts=loads(row["counts"], Counts),
        apart=loads(row["apart"], dict[str, Apart]),
        groups=loads(row["groups"], tuple[Group, ...]),
    )


def _kept(row: Mapping[Any, Any]) -> Kept:
    values = {name: row[name] for name in _NAMES}
    values["verdict"] = Verdict(row["verdict"])
    values["difference"] = Difference(row["difference"])
    values["seen"] = Seen(row["seen"])
    return Kept(row["id"], Line(**values))
