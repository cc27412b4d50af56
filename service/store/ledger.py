"""The ledger: immutable amounts, one row for each part of a usage at one price in one hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from service.domain.metering import Entry, Posted, Slot, Usage
from service.store.tables import ledger

CURRENCY = "USD"


@dataclass(frozen=True, slots=True)
class Line:
    """One row as it was posted. Amounts in nano-dollars, instants in whole UTC seconds."""

    id: int
    usage_id: str
    node_id: str
    kind: str
    charge_start: int
    charge_end: int
    chip_seconds: int
    price_id: str
    price_nanos: int
    amount_nanos: int
    currency: str
    posted_at: int


_LINE = [ledger.c[name] for name in Line.__dataclass_fields__]


class Ledger:
    """Only added to; a trigger in the database refuses everything else."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def posted(self, usage_id: str, start_hour: int) -> dict[Slot, Posted]:
        """What it says of a usage by slot, in hours from `start_hour` on."""
        columns = ledger.c
        statement = (
            select(
                columns.hour,
                columns.price_id,
                func.count(),
                func.sum(columns.chip_seconds),
                func.sum(columns.amount_nanos),
                func.min(columns.price_nanos),
                func.min(columns.charge_start),
                func.max(columns.charge_end),
            )
            .where(columns.usage_id == usage_id, columns.hour >= start_hour)
            .group_by(columns.hour, columns.price_id)
        )
        return {
            (row[0], row[1]): Posted(row[2], int(row[3]), int(row[4]), *row[5:])
            for row in self._connection.execute(statement)
        }

    def post(self, entries: Sequence[Entry], usage: Usage, now: int) -> None:
        """Add entries of one usage, with the dimensions by which people ask for them."""
        if entries:
            self._connection.execute(insert(ledger), [_row(entry, usage, now) for entry in entries])

    def of(self, node_id: str, after: int, limit: int) -> Sequence[Line]:
        """The rows of a node with ids above `after`, in the order in which they were posted."""
        statement = (
            select(*_LINE)
            .where(ledger.c.node_id == node_id, ledger.c.id > after)
            .order_by(ledger.c.id)
            .limit(limit)
        )
        return [Line(*row) for row in self._connection.execute(statement)]


def _row(entry: Entry, usage: Usage, now: int) -> dict[str, object]:
    return {
        "key": entry.key,
        "usage_id": usage.id,
        "node_id": usage.node_id,
        "kind": "adjustment" if entry.number else "usage",
        "hour": entry.hour,
        "charge_start": entry.charge_start,
        "charge_end": entry.charge_end,
        "chip_seconds": entry.chip_seconds,
        "price_id": entry.price_id,
        "price_nanos": entry.price,
        "amount_nanos": entry.amount,
        "currency": CURRENCY,
        "posted_at": now,
        "project": usage.project,
        "team": usage.team,
        "owner": usage.owner,
        "job": "",
        "generation": usage.sku.generation,
        "accelerator_type": usage.accelerator_type,
        "model": usage.sku.model,
        "zone": usage.zone,
    }
