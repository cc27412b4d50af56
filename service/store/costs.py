"""Costs by day: a rollup of the ledger that can be thrown away and made anew at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.clock import DAY, floor_to
from service.domain.metering import Entry, Usage
from service.store.tables import daily_costs, ledger

DIMENSIONS = ("team", "owner", "job", "generation", "accelerator_type", "model", "zone", "project")
_KEY = ("day", *DIMENSIONS)


class Costs:
    """Nano-dollars and chip-seconds by UTC day and by the dimensions that people group by."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, entries: Sequence[Entry], usage: Usage) -> None:
        """Add what was just posted, in the same transaction."""
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for entry in entries:
            of_day = sums[floor_to(entry.hour, DAY)]
            of_day[0] += entry.amount
            of_day[1] += entry.chip_seconds
        sqlite = self._connection.dialect.name == "sqlite"
        for day, (amount, chip_seconds) in sums.items():
            statement = (sqlite_insert if sqlite else postgresql_insert)(daily_costs).values(
                day=day,
                team=usage.team,
                owner=usage.owner,
                job="",
                generation=usage.sku.generation,
                accelerator_type=usage.accelerator_type,
                model=usage.sku.model,
                zone=usage.zone,
                project=usage.project,
                amount_nanos=amount,
                chip_seconds=chip_seconds,
            )
            added = statement.excluded
            self._connection.execute(
                statement.on_conflict_do_update(
                    index_elements=_KEY,
                    set_={
                        "amount_nanos": daily_costs.c.amount_nanos + added.amount_nanos,
                        "chip_seconds": daily_costs.c.chip_seconds + added.chip_seconds,
                    },
                )
            )

    def rebuild(self) -> None:
        """Make the rollup anew from the ledger; the figures are the same, or something is wrong."""
        self._connection.execute(delete(daily_costs))
        day = (ledger.c.hour - ledger.c.hour % DAY).label("day")
        dimensions = [ledger.c[name] for name in DIMENSIONS]
        summed = select(
            day,
            *dimensions,
            func.sum(ledger.c.amount_nanos),
            func.sum(ledger.c.chip_seconds),
        ).group_by(day, *dimensions)
        self._connection.execute(
            insert(daily_costs).from_select([*_KEY, "amount_nanos", "chip_seconds"], summed)
        )

    def by_day(
        self, start: int, end: int, dimensions: Sequence[str], only: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[int, tuple[str, ...], int, int]]:
        """(day, dimensions, nano-dollars, chip-seconds) for the UTC days in [start, end)."""
        columns = [daily_costs.c[name] for name in dimensions]
        statement = (
            select(
                daily_costs.c.day,
                *columns,
                func.sum(daily_costs.c.amount_nanos),
                func.sum(daily_costs.c.chip_seconds),
            )
            .where(daily_costs.c.day >= start, daily_costs.c.day < end)
            .group_by(daily_costs.c.day, *columns)
            .order_by(daily_costs.c.day, *columns)
        )
        for name, values in only.items():
            statement = statement.where(daily_costs.c[name].in_(values))
        return [
            (row[0], row[1:-2], int(row[-2]), int(row[-1]))
            for row in self._connection.execute(statement)
        ]
