"""Bills: imported files, their rows while they are compared, and the comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.clock import HOUR
from service.domain.errors import NotFound
from service.domain.money import NANOS
from service.domain.pricing.price_book import RESERVED
from service.domain.reconciliation.bill import (
    ApartRows,
    Bill,
    ComparisonGroup,
    Counts,
    JoinedImport,
    hour_of,
    period_of,
)
from service.domain.reconciliation.bill_file import BillFileRow, Shape
from service.domain.reconciliation.bill_row import REGULAR, SkipReason
from service.domain.reconciliation.bill_sku import COMMITMENT
from service.domain.reconciliation.commitments import (
    DISCOUNTS,
    OFFSET,
    BilledCommitment,
    BilledUsage,
    CommitmentKey,
    Fee,
)
from service.domain.reconciliation.invoice import NO_RATE, Invoice, InvoiceKey, RowSum
from service.domain.reconciliation.variance import (
    Comparison,
    Difference,
    InvoiceShare,
    Seen,
    Verdict,
)
from service.store.json_columns import dumps, loads
from service.store.tables import bill_lines, bill_rows, bills

_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward bills'))")

_KEYS = (
    "project",
    "resource",
    "node_id",
    "sku_id",
    "description",
    "generation",
    "model",
    "hour",
)
_OF_USAGE = (*_KEYS, "account", "period", "zone", "region", "consumption_model", "converted")
_OF_INVOICE = ("account", "period", "currency")
_OTHERS = (SkipReason.OTHER_PROJECT.value, SkipReason.NOT_TPU.value)
_SUMMED = ("rows", "cost", "credits", "local_cost", "local_credits")
"""The sums that are kept of rows that are not ours."""

_NEVER = -1
"""The hour of rows that are about a whole month."""

_NAMES = [field.name for field in fields(Comparison) if field.name != "shares"]
_line_values = attrgetter(*_NAMES)
_LINE = [bill_lines.c[name] for name in _NAMES]
_OF_BILL = (
    "id",
    "name",
    "digest",
    "tolerance",
    "created_at",
    "duplicates",
    "finished_at",
    "joined_into",
)
_DOCUMENTS: Mapping[str, Any] = {
    "counts": Counts,
    "apart": dict[str, ApartRows],
    "groups": tuple[ComparisonGroup, ...],
    "periods": tuple[str, ...],
    "invoices": tuple[Invoice, ...],
    "joined": tuple[JoinedImport, ...],
    "commitments": tuple[BilledCommitment, ...] | None,
}


@dataclass(frozen=True, slots=True)
class NumberedComparison:
    """A comparison with its number, which is the key of pages."""

    id: int
    line: Comparison


@dataclass(frozen=True, slots=True)
class StagedUsage:
    """The sum of the rows of one resource, SKU and hour. `label` is the node that the resource's
    own label names, if any; `zone` is the zone of a reserved resource, if its rows name it."""

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
    credit_kinds: Mapping[str, int] = field(default_factory=dict)
    shares: Sequence[InvoiceShare] = ()
    no_rate: str = ""


_Found = RowMapping | Mapping[str, Any]
"""A stored row, by the names of its columns."""


class Bills:
    """A bill is written first, then its rows in batches; the bill counts once it is finished."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, bill: Bill) -> None:
        """Write an import that has begun."""
        self._connection.execute(insert(bills).values(**_to_row(bill)))

    def save(self, bill: Bill) -> None:
        """Write the progress of an import."""
        self._connection.execute(update(bills).where(bills.c.id == bill.id).values(**_to_row(bill)))

    def delete(self, bill_id: str) -> None:
        """Delete an import with its rows and comparisons."""
        for table in (bill_lines, bill_rows):
            self._connection.execute(delete(table).where(table.c.bill_id == bill_id))
        self._connection.execute(delete(bills).where(bills.c.id == bill_id))

    def lock_until_commit(self) -> None:
        """Let no other import finish before the end of this transaction. On SQLite all writers take
        turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN)

    def list_abandoned(self, before: int) -> Sequence[str]:
        """The ids of imports that began before that instant and never finished."""
        statement = select(bills.c.id).where(
            bills.c.finished_at.is_(None), bills.c.created_at < before
        )
        return self._connection.execute(statement).scalars().all()

    def is_import_running(self) -> bool:
        """Whether a file is being imported, or an import broke off a short time ago."""
        statement = select(literal(1)).where(bills.c.finished_at.is_(None)).limit(1)
        return self._connection.execute(statement).first() is not None

    def list_earlier(self, bill: Bill) -> Sequence[Bill]:
        """The imports whose rows became part of this bill, the oldest first, even if another bill
        has taken other months of them since."""
        named = bills.c.id.in_([joined.id for joined in bill.joined])
        statement = (
            select(bills)
            .where(or_(named, bills.c.joined_into == bill.id))
            .order_by(bills.c.created_at, bills.c.id)
        )
        return [_from_row(row) for row in self._connection.execute(statement).mappings()]

    def find_same(self, digest: str, tolerance: int, *, is_alone: bool) -> Bill | None:
        """The finished import of the same file with the same settings; None if there is none."""
        statement = select(bills).where(
            bills.c.digest == digest,
            bills.c.tolerance == tolerance,
            bills.c.is_alone == int(is_alone),
            bills.c.finished_at.is_not(None),
        )
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else _from_row(row)

    def get(self, bill_id: str, *, locked: bool = False) -> Bill:
        """A finished import, on PostgreSQL `locked` until the commit. Raises NotFound."""
        statement = select(bills).where(bills.c.id == bill_id, bills.c.finished_at.is_not(None))
        statement = statement.with_for_update() if locked else statement
        row = self._connection.execute(statement).mappings().one_or_none()
        if row is None:
            raise NotFound(
                f"there is no reconciliation {bill_id[:80]!r}; GET /v1/reconciliations lists them"
            )
        return _from_row(row)

    def list_newest(self, limit: int, offset: int = 0) -> Sequence[Bill]:
        """The finished imports, the newest first."""
        statement = (
            select(bills)
            .where(bills.c.finished_at.is_not(None))
            .order_by(bills.c.created_at.desc(), bills.c.id.desc())
            .limit(limit)
            .offset(offset)
        )
        return [_from_row(row) for row in self._connection.execute(statement).mappings()]

    def add_rows(self, bill_id: str, reads: Iterable[BillFileRow]) -> None:
        """Store rows. A row that is stored already is the same row if that is provable, and is not
        added; otherwise it is another copy (`BillFileRow`)."""
        columns = bill_rows.c
        ours: dict[bool, list[dict[str, object]]] = {True: [], False: []}
        others: dict[bytes, dict[str, Any]] = {}
        for read in reads:
            if not isinstance(read.row, SkipReason):
                ours[read.is_provable].append(_to_staged_row(bill_id, read))
            elif (before := others.get(read.digest)) is None:
                others[read.digest] = _to_staged_row(bill_id, read)
            else:
                amounts = read.amounts
                before["rows"] += 1
                before["cost"] += amounts.cost
                before["credits"] += amounts.credit
                before["local_cost"] += amounts.local_cost
                before["local_credits"] += amounts.local_credits
        once = self._insert_rows().on_conflict_do_nothing()
        again = self._upsert_setting({"copies": columns.copies + 1})
        new = self._insert_rows().excluded
        summed = self._upsert_setting({name: columns[name] + new[name] for name in _SUMMED})
        for statement, values in (
            (once, ours[True]),
            (again, ours[False]),
            (summed, list(others.values())),
        ):
            if values:
                self._connection.execute(statement, values)

    def _upsert_setting(self, values: Mapping[str, Any]) -> Any:
        key = [bill_rows.c.bill_id, bill_rows.c.digest]
        return self._insert_rows().on_conflict_do_update(index_elements=key, set_=values)

    def _insert_rows(self) -> Any:
        sqlite = self._connection.dialect.name == "sqlite"
        return sqlite_insert(bill_rows) if sqlite else postgresql_insert(bill_rows)

    def count_staged(self, bill_id: str) -> int:
        """The number of different rows that are ours."""
        columns = bill_rows.c
        statement = select(func.coalesce(func.sum(columns.copies), 0)).where(
            columns.bill_id == bill_id, columns.kind.not_in(_OTHERS)
        )
        return int(self._connection.execute(statement).scalar_one())

    def list_with_rows_of(
        self, periods: Collection[str], shapes: Collection[Shape]
    ) -> Sequence[Bill]:
        """The finished imports that have the rows of one of these months, the oldest first."""
        statement = (
            select(bills)
            .where(bills.c.finished_at.is_not(None), bills.c.shape.in_(shapes))
            .where(bills.c.is_alone == 0)
            .where(bills.c.periods != "[]")
            .order_by(bills.c.created_at, bills.c.id)
        )
        found = [_from_row(row) for row in self._connection.execute(statement).mappings()]
        return [bill for bill in found if not set(periods).isdisjoint(bill.periods)]

    def count_rows(self, bill_id: str, periods: Collection[str]) -> int:
        """The number of rows that an import has of these months."""
        statement = select(func.count()).where(*_is_of_months(bill_id, periods))
        return int(self._connection.execute(statement).scalar_one())

    def has_usage_in(self, bill_id: str, period: str, start: int, end: int) -> bool:
        """Whether an import has usage of that invoice month in the hours [start, end)."""
        hour = bill_rows.c.hour
        these = (*_is_of_months(bill_id, [period]), hour >= start, hour < end)
        return (
            self._connection.execute(select(literal(1)).where(*these).limit(1)).one_or_none()
            is not None
        )

    def join_rows(
        self, bill_id: str, earlier: str, periods: Collection[str], digests: tuple[bytes, bytes]
    ) -> tuple[int, int]:
        """Add the rows of these months of an earlier import, with a digest in (first, last]. A row
        that is in both imports is one row, with the larger number of copies. Returns how many rows
        the earlier import has, and how many of them are in both."""
        columns = bill_rows.c
        these = (*_is_of_months(earlier, periods), *_is_between(digests))
        both = bill_rows.alias()
        known = (both.c.digest == columns.digest) & (both.c.bill_id == bill_id)
        number = columns.copies * columns.rows
        statement = select(
            func.coalesce(func.sum(number), 0),
            func.coalesce(func.sum(case((both.c.digest.is_not(None), number), else_=0)), 0),
        ).select_from(bill_rows.outerjoin(both, known))
        rows, again = self._connection.execute(statement.where(*these)).one()
        others = [column for column in bill_rows.columns if column is not columns.bill_id]
        copied = select(literal(bill_id), *others).where(*these)
        inserted = self._insert_rows().from_select(
            [columns.bill_id, *others], copied, include_defaults=False
        )
        new = inserted.excluded
        more = new.copies * new.rows > columns.copies * columns.rows
        most = {name: case((more, new[name]), else_=columns[name]) for name in ("copies", *_SUMMED)}
        key = [columns.bill_id, columns.digest]
        self._connection.execute(inserted.on_conflict_do_update(index_elements=key, set_=most))
        return int(rows), int(again)

    def delete_rows(
        self, earlier: str, periods: Collection[str], digests: tuple[bytes, bytes]
    ) -> None:
        """Delete the rows of these months, because a later import has them."""
        these = (*_is_of_months(earlier, periods), *_is_between(digests))
        self._connection.execute(delete(bill_rows).where(*these))

    def find_hour_range(self, bill_id: str) -> tuple[int, int] | None:
        """The hours [start, end) in which something was used; None if nothing was."""
        columns = bill_rows.c
        statement = select(func.min(columns.hour), func.max(columns.hour)).where(
            columns.bill_id == bill_id, columns.hour != _NEVER
        )
        first, last = self._connection.execute(statement).one()
        return None if first is None else (first, last + HOUR)

    def sum_apart(self, bill_id: str) -> Mapping[tuple[InvoiceKey, str], RowSum]:
        """The rows that are not compared, summed by invoice and kind."""
        columns = bill_rows.c
        what = case((columns.converted == 0, NO_RATE), else_=columns.kind)
        found = self._sum_by(bill_id, what, or_(columns.kind != REGULAR, columns.converted == 0))
        return {(key, what): some for key, what, some in found}

    def sum_by_invoice(self, bill_id: str) -> Mapping[InvoiceKey, RowSum]:
        """All rows, summed by invoice."""
        return {key: some for key, _, some in self._sum_by(bill_id, literal(""), true())}

    def _sum_by(
        self, bill_id: str, what: Any, condition: ColumnElement[bool]
    ) -> Iterator[tuple[InvoiceKey, str, RowSum]]:
        """The sums by invoice. Amounts in another currency are summed in two halves: an invoice in
        a small currency may exceed 64 bits."""
        columns, copies = bill_rows.c, bill_rows.c.copies
        by = [*(columns[name] for name in _OF_INVOICE), what]
        halves = [
            func.sum(half * copies)
            for column in (columns.local_cost, columns.local_credits)
            for half in (column // literal(NANOS), column % literal(NANOS))
        ]
        statement = (
            select(
                *by,
                func.sum(columns.rows * copies),
                func.sum(columns.cost * copies),
                func.sum(columns.credits * copies),
                *halves,
            )
            .where(columns.bill_id == bill_id, condition)
            .group_by(*by)
        )
        found: dict[tuple[InvoiceKey, str], RowSum] = {}
        for account, period, currency, kind, *numbers in self._connection.execute(statement):
            rows, cost, credit, costs, cost_rest, off, off_rest = map(int, numbers)
            key = InvoiceKey(account, _month_of(period), currency), kind
            some = RowSum(rows, cost, credit, costs * NANOS + cost_rest, off * NANOS + off_rest)
            found[key] = found.get(key, RowSum()) + some
        return ((*key, some) for key, some in found.items())

    def count_rows_by_hour(self, bill_id: str) -> Sequence[tuple[int, int]]:
        """The hours in which it has usage, each with the number of its rows."""
        columns = bill_rows.c
        statement = (
            select(columns.hour, func.count())
            .where(columns.bill_id == bill_id, columns.kind == REGULAR)
            .group_by(columns.hour)
            .order_by(columns.hour)
        )
        return [(row[0], row[1]) for row in self._connection.execute(statement)]

    def list_usage(self, bill_id: str, start: int, end: int) -> Sequence[StagedUsage]:
        """The usage of the hours in [start, end), with corrections added to what they correct."""
        columns = bill_rows.c
        statement = (
            select(bill_rows)
            .where(columns.bill_id == bill_id, columns.kind == REGULAR)
            .where(columns.hour >= start, columns.hour < end)
        )
        together: dict[tuple[object, ...], list[_Found]] = {}
        names = bill_rows.c.keys()
        for values in self._connection.execute(statement):
            row = dict(zip(names, values, strict=True))  # read faster than SQLAlchemy's mapping
            # Reserved usage is told apart by its zone, because its rows may have no resource. Other
            # usage has a resource, and a correction without a zone belongs to the same usage.
            place = row["zone"] if row["model"] == RESERVED else ""
            key = (*(row[name] for name in _KEYS), place)
            together.setdefault(key, []).append(row)
        return [_to_staged_usage(key, rows) for key, rows in together.items()]

    def list_fees(self, bill_id: str) -> Sequence[Fee]:
        """The fees of commitments, by commitment and month."""
        columns = bill_rows.c
        statement = select(bill_rows).where(
            columns.bill_id == bill_id, columns.kind == COMMITMENT, columns.generation != ""
        )
        found: dict[CommitmentKey, Fee] = {}
        for row in self._connection.execute(statement).mappings():
            copies, used = row["copies"], row["chip_seconds"]
            offset = loads(row["credit_kinds"], dict[str, int]).get(OFFSET, 0)
            fee = Fee(
                _to_commitment_key(row),
                (row["cost"] + row["credits"] - offset) * copies,
                offset * copies,
                None if used is None else used * copies,
                bool(row["converted"]),
            )
            before = found.get(fee.sold)
            found[fee.sold] = fee if before is None else before + fee
        return list(found.values())

    def has_commitments(self, bill_id: str) -> bool:
        """Whether it has a fee of a commitment, or usage that a commitment may cover."""
        columns = bill_rows.c
        marks = [columns.credit_kinds.contains(f'"{kind}"') for kind in DISCOUNTS]
        any_of = or_(columns.kind == COMMITMENT, columns.consumption_model != "", *marks)
        statement = select(literal(1)).where(columns.bill_id == bill_id, any_of).limit(1)
        return self._connection.execute(statement).first() is not None

    def list_coverable(self, bill_id: str, start: int, end: int) -> Sequence[BilledUsage]:
        """The on-demand usage of TPUs of the hours in [start, end), with corrections added to what
        they correct."""
        columns = bill_rows.c
        statement = (
            select(bill_rows)
            .where(columns.bill_id == bill_id, columns.kind == REGULAR)
            .where(columns.hour >= start, columns.hour < end)
            .where(columns.model == "on_demand", columns.generation != "")
        )
        together: dict[tuple[object, ...], list[_Found]] = {}
        for row in self._connection.execute(statement).mappings():
            key = tuple(row[name] for name in _OF_USAGE)
            together.setdefault(key, []).append(row)
        usages = []
        for rows in together.values():
            first, kinds = rows[0], _sum_credit_kinds(rows)
            # Rows without an amount of use, such as some corrections, do not change the sum; the
            # same holds for the list price.
            listed = [row for row in rows if row["at_list"] is not None]
            measured = [row for row in rows if row["chip_seconds"] is not None]
            usages.append(
                BilledUsage(
                    _to_commitment_key(first),
                    (first["project"], first["resource"], first["node_id"]),
                    first["consumption_model"],
                    cost=sum(row["cost"] * row["copies"] for row in rows),
                    discount=sum(kinds.get(kind, 0) for kind in DISCOUNTS),
                    at_list=_sum_if_known(listed, "at_list"),
                    chip_seconds=_sum_if_known(measured, "chip_seconds"),
                    is_priced=all(row["converted"] or not row["local_credits"] for row in rows),
                )
            )
        return usages

    def add_comparisons(self, bill_id: str, lines: Iterable[Comparison]) -> None:
        """Write comparisons."""
        values = [
            dict(zip(_NAMES, _line_values(line), strict=True))
            | {
                "bill_id": bill_id,
                "credit_kinds": dumps(line.credit_kinds) if line.credit_kinds else "{}",
                "is_explained": int(line.is_explained),
            }
            for line in lines
        ]
        if values:
            self._connection.execute(insert(bill_lines), values)

    def list_lines(
        self, bill_id: str, verdicts: Sequence[Verdict], after: int, limit: int
    ) -> Sequence[NumberedComparison]:
        """Comparisons with these verdicts and numbers above `after`."""
        columns = bill_lines.c
        statement = (
            select(columns.id, *_LINE)
            .where(columns.bill_id == bill_id, columns.id > after, columns.verdict.in_(verdicts))
            .order_by(columns.id)
            .limit(limit)
        )
        return [_to_comparison(row) for row in self._connection.execute(statement).mappings()]

    def list_largest(
        self, bill_id: str, verdicts: Sequence[Verdict], limit: int
    ) -> Sequence[NumberedComparison]:
        """The comparisons with these verdicts and the largest variances."""
        columns = bill_lines.c
        statement = (
            select(columns.id, *_LINE)
            .where(columns.bill_id == bill_id, columns.verdict.in_(verdicts))
            .order_by(func.abs(columns.variance).desc(), columns.id)
            .limit(limit)
        )
        return [_to_comparison(row) for row in self._connection.execute(statement).mappings()]


def _is_of_months(bill_id: str, periods: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    return bill_rows.c.bill_id == bill_id, bill_rows.c.period.in_(list(periods))


def _is_between(digests: tuple[bytes, bytes]) -> tuple[ColumnElement[bool], ...]:
    first, last = digests
    return bill_rows.c.digest > first, bill_rows.c.digest <= last


def _month_of(period: str) -> str:
    """The month of the invoice; empty if the rows name none."""
    return "" if period.startswith("~") else period


def _to_staged_usage(key: tuple[Any, ...], rows: Sequence[_Found]) -> StagedUsage:
    """The sum of the rows of one resource, SKU and hour."""
    project, resource, label, sku_id, description, generation, model, hour, place = key
    return StagedUsage(
        project,
        resource,
        label,
        sku_id,
        description,
        generation,
        model,
        hour,
        rows=sum(row["copies"] for row in rows),
        cost=sum(row["cost"] * row["copies"] for row in rows),
        credits=sum(row["credits"] * row["copies"] for row in rows),
        at_list=_sum_if_known(rows, "at_list"),
        chip_seconds=_sum_if_known(rows, "chip_seconds"),
        zone=place,
        credit_kinds=_sum_credit_kinds(rows),
        shares=[
            InvoiceShare(
                row["account"],
                _month_of(row["period"]),
                row["currency"],
                row["copies"],
                row["cost"] * row["copies"],
                row["credits"] * row["copies"],
                row["local_cost"] * row["copies"],
                row["local_credits"] * row["copies"],
            )
            for row in rows
            if row["converted"]
        ],
        no_rate=next((row["currency"] for row in rows if not row["converted"]), ""),
    )


def _to_commitment_key(row: _Found) -> CommitmentKey:
    return CommitmentKey(
        account=row["account"],
        month=row["period"].removeprefix("~"),
        generation=row["generation"],
        description=row["description"],
        region=row["region"],
        zone=row["zone"],
    )


def _sum_credit_kinds(rows: Sequence[_Found]) -> dict[str, int]:
    """The credits of the rows by kind."""
    kinds: dict[str, int] = {}
    for row in rows:
        if row["credit_kinds"] != "{}":
            for kind, nanos in loads(row["credit_kinds"], dict[str, int]).items():
                kinds[kind] = kinds.get(kind, 0) + nanos * row["copies"]
    return kinds


def _sum_if_known(rows: Sequence[_Found], name: str) -> int | None:
    """The sum of a column; None if a row has no value, or there are no rows."""
    if not rows or any(row[name] is None for row in rows):
        return None
    return sum(int(row[name]) * int(row["copies"]) for row in rows)


def _to_staged_row(bill_id: str, read: BillFileRow) -> dict[str, object]:
    row, amounts, hour = read.row, read.amounts, hour_of(read)
    said: dict[str, object] = {
        "bill_id": bill_id,
        "digest": read.digest,
        "hour": _NEVER if hour is None else hour,
        "cost": amounts.cost,
        "credits": amounts.credit,
        "copies": 1,
        "rows": 1,
        "period": period_of(read),
        "account": amounts.account,
        "currency": amounts.currency,
        "converted": int(amounts.is_converted),
        "credit_kinds": dumps(amounts.credits) if amounts.credits else "{}",
        "local_cost": amounts.local_cost,
        "local_credits": amounts.local_credits,
    }
    if isinstance(row, SkipReason):
        return said | _OF_NOBODY | {"kind": row.value}
    return said | {
        "kind": row.kind,
        "project": row.project,
        "resource": row.resource,
        "node_id": row.node_id,
        "sku_id": row.sku_id,
        "description": row.description,
        "generation": row.generation,
        "model": row.model,
        "at_list": row.at_list,
        "chip_seconds": row.chip_seconds,
        "zone": row.zone,
        "region": row.region,
        "consumption_model": row.consumption_model,
    }


_OF_NOBODY: dict[str, object] = dict.fromkeys(
    (
        *("project", "resource", "node_id", "sku_id", "description", "generation", "model"),
        *("zone", "region", "consumption_model"),
    ),
    "",
) | {"at_list": None, "chip_seconds": None}
"""What is kept of a row that is not ours: it counts for its invoice."""


def _to_row(bill: Bill) -> dict[str, object]:
    plain = {name: getattr(bill, name) for name in _OF_BILL} | {
        "shape": bill.shape.value,
        "is_alone": int(bill.is_alone),
    }
    return plain | {name: dumps(getattr(bill, name)) for name in _DOCUMENTS}


def _from_row(row: Mapping[Any, Any]) -> Bill:
    return Bill(
        **{name: row[name] for name in _OF_BILL},
        shape=Shape(row["shape"]),
        is_alone=bool(row["is_alone"]),
        **{name: loads(row[name], kind) for name, kind in _DOCUMENTS.items()},
    )


def _to_comparison(row: Mapping[Any, Any]) -> NumberedComparison:
    values = {name: row[name] for name in _NAMES}
    values["verdict"] = Verdict(row["verdict"])
    values["difference"] = Difference(row["difference"])
    values["seen"] = Seen(row["seen"])
    values["credit_kinds"] = loads(row["credit_kinds"], dict[str, int])
    values["is_explained"] = bool(row["is_explained"])
    return NumberedComparison(row["id"], Comparison(**values))
