"""Costs by day: rollups of the ledger that can be rebuilt at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.billing_period import period_of
from service.domain.clock import DAY, floor_to
from service.domain.costs.markers import UsedHardware
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerEntry
from service.domain.metering.meter import Usage
from service.store.attributions import join_attributions
from service.store.json_columns import dumps
from service.store.tables import attributions, daily_costs, ledger, node_days

_WHO = ("team", "owner", "job")
_WHAT = ("generation", "accelerator_type", "model", "zone", "project")
DIMENSIONS = (*_WHO, *_WHAT)
FINE = ("node_id", "since")
"""Dimensions that only the finer rollup has: the node, and the beginning of its attribution."""

_KEYS: Mapping[Table, tuple[str, ...]] = {
    daily_costs: ("day", *DIMENSIONS),
    node_days: ("day", *FINE, "zone", "accelerator_type", "model"),
}
_COLUMNS: Mapping[Table, tuple[str, ...]] = {
    daily_costs: ("day", *DIMENSIONS),
    node_days: ("day", *FINE, *_WHAT, "labels"),
}
_SUMS = ("amount_nanos", "chip_seconds", "list_nanos")

Sums = tuple[int, tuple[Any, ...], int, int, int]
"""(first second, dimensions, nano-dollars, chip-seconds, nano-dollars at list price)."""

_HOURS_AT_ONCE = 500
"""A statement has a limited number of parameters."""

_OF_LEDGER = (
    func.sum(ledger.c.amount_nanos),
    func.sum(ledger.c.chip_seconds),
    func.sum(func.coalesce(ledger.c.list_nanos, ledger.c.amount_nanos)),
)

_LABELS = func.coalesce(attributions.c.labels, literal_column("'{}'"))


class Costs:
    """Nano-dollars and chip-seconds by UTC day: by the dimensions that people group by, and by
    node."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._added: dict[Table, dict[tuple[Any, ...], dict[str, Any]]] = {
            daily_costs: {},
            node_days: {},
        }

    def add(
        self, entries: Sequence[LedgerEntry], usage: Usage, whose: Mapping[int, Attribution]
    ) -> None:
        """Add what was just posted; `flush` writes the sums in the same transaction."""
        sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        for entry in entries:
            of_day = sums[floor_to(entry.slot.hour, DAY), entry.slot.since]
            of_day[0] += entry.amount
            of_day[1] += entry.chip_seconds
            of_day[2] += entry.amount if entry.list_amount is None else entry.list_amount
        for (day, since), figures in sums.items():
            attribution = whose[since]
            row = {
                "day": day,
                "node_id": usage.node_id,
                "since": since,
                "team": attribution.team,
                "owner": attribution.owner,
                "job": attribution.job,
                "generation": usage.sku.generation,
                "accelerator_type": usage.accelerator_type,
                "model": usage.sku.model,
                "zone": usage.zone,
                "project": usage.project,
                "labels": dumps(dict(attribution.labels)),
                **dict(zip(_SUMS, figures, strict=True)),
            }
            for table, added in self._added.items():
                key = tuple(row[name] for name in _KEYS[table])
                before = added.get(key)
                if before is not None:
                    row |= {name: row[name] + before[name] for name in _SUMS}
                added[key] = dict(row)
                row |= dict(zip(_SUMS, figures, strict=True))

    def flush(self) -> None:
        """Write the added sums: at the end of a transaction, and always in the same order, because
        many transactions write the same rows."""
        sqlite = self._connection.dialect.name == "sqlite"
        for table, added in self._added.items():
            for key in sorted(added, key=repr):
                row = added[key]
                values = {name: row[name] for name in (*_COLUMNS[table], *_SUMS)}
                statement = (sqlite_insert if sqlite else postgresql_insert)(table).values(**values)
                changed = {name: table.c[name] + statement.excluded[name] for name in _SUMS}
                if "labels" in values:  # an older daemon writes days without labels
                    changed["labels"] = statement.excluded.labels
                self._connection.execute(
                    statement.on_conflict_do_update(index_elements=_KEYS[table], set_=changed)
                )
            added.clear()

    def rebuild(self) -> None:
        """Rebuild the rollups from the ledger. The figures must not change."""
        day = (ledger.c.hour - ledger.c.hour % DAY).label("day")
        for table, names in _COLUMNS.items():
            self._connection.execute(delete(table))
            columns = [_LABELS if name == "labels" else ledger.c[name] for name in names[1:]]
            summed = select(day, *columns, *_OF_LEDGER).group_by(day, *columns)
            if table is node_days:
                summed = summed.select_from(join_attributions(ledger, outer=True))
            self._connection.execute(insert(table).from_select([*names, *_SUMS], summed))

    def sum_by_day(
        self,
        start: int,
        end: int,
        dimensions: Sequence[str],
        only: Mapping[str, Sequence[str]],
        *,
        at_once: bool = False,
    ) -> Sequence[Sums]:
        """(day, dimensions, nano-dollars, chip-seconds, nano-dollars at list price) for the UTC
        days in [start, end). With `at_once`, all days count as one that begins at `start`. The
        finer rollup is used if a dimension is one of FINE."""
        asked = (*dimensions, *only)
        table: Table = node_days if any(name in FINE for name in asked) else daily_costs
        who = attributions if table is node_days and any(name in _WHO for name in asked) else table
        source = join_attributions(table) if who is attributions else table
        column = {name: (who if name in _WHO else table).c[name] for name in asked}
        columns = [column[name] for name in dimensions]
        day: list[ColumnElement[int]] = [] if at_once else [table.c.day]
        statement = (
            select(
                literal(start) if at_once else table.c.day,
                *columns,
                *(func.sum(table.c[name]) for name in _SUMS),
            )
            .select_from(source)
            .where(table.c.day >= start, table.c.day < end)
            .group_by(*day, *columns)
            .order_by(*day, *columns)
        )
        for name, values in only.items():
            statement = statement.where(column[name].in_(values))
        return [
            (row[0], row[1:-3], int(row[-3]), int(row[-2]), int(row[-1]))
            for row in self._connection.execute(statement)
            if row[-1] is not None  # `at_once` without any rows is one row of NULLs
        ]

    def iter_by_hour(
        self, hours: Sequence[int], dimensions: Sequence[str], only: Mapping[str, Sequence[str]]
    ) -> Iterator[Sums]:
        """The rows of `sum_by_day` for single hours (their first seconds), from the ledger."""
        columns = [ledger.c[name] for name in dimensions]
        statement = select(ledger.c.hour, *columns, *_OF_LEDGER).group_by(ledger.c.hour, *columns)
        for name, values in only.items():
            statement = statement.where(ledger.c[name].in_(values))
        for first in range(0, len(hours), _HOURS_AT_ONCE):
            asked = ledger.c.hour.in_(hours[first : first + _HOURS_AT_ONCE])
            for row in self._connection.execute(statement.where(asked)):
                yield row[0], row[1:-3], int(row[-3]), int(row[-2]), int(row[-1])

    def find_used(self, start: int, end: int) -> Collection[UsedHardware]:
        """The hardware that was charged on the days of [start, end)."""
        columns = daily_costs.c.generation, daily_costs.c.model, daily_costs.c.zone
        statement = select(*columns).where(
            daily_costs.c.day >= floor_to(start, DAY), daily_costs.c.day < end
        )
        return {UsedHardware(*row) for row in self._connection.execute(statement.distinct())}

    def sum_corrections(self, start: int, end: int) -> Mapping[int, int]:
        """Nano-dollars that were posted in [start, end) for months that were closed, by the first
        second of the UTC day of the posting."""
        day = (ledger.c.posted_at - ledger.c.posted_at % DAY).label("day")
        statement = (
            select(day, func.sum(ledger.c.amount_nanos))
            .where(
                ledger.c.period >= period_of(start).start,
                ledger.c.posted_at >= start,
                ledger.c.posted_at < end,
            )
            .group_by(day)
        )
        return {row[0]: int(row[1]) for row in self._connection.execute(statement)}
