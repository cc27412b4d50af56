"""The ledger: immutable amounts, one row for each part of a usage at one price in one hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from service.domain.billing_period import billed_in
from service.domain.ids import is_machine_type
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerEntry, LedgerSlot, PostedSlot
from service.domain.metering.meter import Usage
from service.domain.pricing.price_book import reservation_in
from service.store.tables import ledger

CURRENCY = "USD"


@dataclass(frozen=True, slots=True)
class PostedLine:
    """One row as it was posted. Amounts are nano-dollars, instants are UTC seconds.

    `period` is the first second of the month in which the row is billed, if that is not the month
    of its charge: a correction of a closed month. `list_nanos` is None if no list price was known;
    `corrects_id` is the row that an adjustment adjusts. `vm_seconds` are those of the user's own
    virtual machine; `reservation_id` is what was bought, and used here or by no node. For such a
    machine, `accelerator_type` and `generation` are the machine type.
    """

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
    since: int
    period: int | None
    list_price_nanos: int | None
    list_nanos: int | None
    corrects_id: int | None
    vm_seconds: int = 0
    reservation_id: str | None = None
    generation: str = ""
    accelerator_type: str = ""
    model: str = ""
    zone: str = ""

    @property
    def is_vm(self) -> bool:
        """Whether the row is about the user's own virtual machine."""
        return is_machine_type(self.generation)


_LINE = [ledger.c[name] for name in PostedLine.__dataclass_fields__]


class Ledger:
    """Append-only; a trigger in the database refuses everything else."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sum_by_slot(self, line: Usage, start_hour: int) -> dict[LedgerSlot, PostedSlot]:
        """The posted amounts of a line of a usage by slot, in hours from `start_hour` on."""
        columns = ledger.c
        slot = (columns.hour, columns.price_id, columns.since, columns.list_price_nanos)
        statement = (
            select(
                *slot,
                func.count(),
                func.sum(columns.chip_seconds),
                func.sum(columns.amount_nanos),
                func.sum(columns.list_nanos),
                func.min(columns.price_nanos),
                func.min(columns.charge_start),
                func.max(columns.charge_end),
                func.min(columns.id),
                func.sum(columns.vm_seconds),
            )
            .where(columns.usage_id == line.id, columns.hour >= start_hour)
            .where(columns.generation == line.sku.generation)
            .group_by(*slot)
        )
        return {
            LedgerSlot(*row[:4]): _to_posted_slot(row)
            for row in self._connection.execute(statement)
        }

    def sum_used(
        self, reservation_id: str, start_hour: int
    ) -> dict[tuple[int, str], tuple[int, int]]:
        """(nano-dollars, chip-seconds) that are charged to nodes in a reservation, by hour and
        price, in hours from `start_hour` on."""
        columns = ledger.c
        statement = (
            select(
                columns.hour,
                columns.price_id,
                func.sum(columns.amount_nanos),
                func.sum(columns.chip_seconds),
            )
            .where(
                columns.reservation_id.is_not(None),
                columns.reservation_id == reservation_id,
                columns.hour >= start_hour,
                columns.node_id != reservation_id,
            )
            .group_by(columns.hour, columns.price_id)
        )
        return {
            (row[0], row[1]): (int(row[2]), int(row[3]))
            for row in self._connection.execute(statement)
        }

    def post(
        self,
        entries: Sequence[LedgerEntry],
        usage: Usage,
        whose: Mapping[int, Attribution],
        now: int,
    ) -> None:
        """Add entries of one usage, with the dimensions of queries; `whose` are the attributions of
        the node by their beginnings."""
        if entries:
            rows = [_to_row(entry, usage, whose[entry.slot.since], now) for entry in entries]
            self._connection.execute(insert(ledger), rows)

    def list_by_node(self, node_id: str, after: int, limit: int) -> Sequence[PostedLine]:
        """The rows of a node with ids above `after`, in posting order."""
        statement = (
            select(*_LINE)
            .where(ledger.c.node_id == node_id, ledger.c.id > after)
            .order_by(ledger.c.id)
            .limit(limit)
        )
        return [PostedLine(*row) for row in self._connection.execute(statement)]

    def find_number_range(self, node_id: str) -> tuple[int, int] | None:
        """The first and the last id of a node's rows; None if there are none."""
        ids = func.min(ledger.c.id), func.max(ledger.c.id)
        first, last = self._connection.execute(
            select(*ids).where(ledger.c.node_id == node_id)
        ).one()
        return None if first is None else (first, last)


def _to_posted_slot(row: Row[Any]) -> PostedSlot:
    values: Sequence[Any] = row[4:]
    count, chip_seconds, amount, list_amount, price, start, end, first_id, vm_seconds = values
    return PostedSlot(
        count=count,
        chip_seconds=int(chip_seconds),
        amount=int(amount),
        list_amount=None if list_amount is None else int(list_amount),
        price=price,
        charge_start=start,
        charge_end=end,
        first_id=first_id,
        vm_seconds=int(vm_seconds),
    )


def _to_row(entry: LedgerEntry, usage: Usage, whose: Attribution, now: int) -> dict[str, object]:
    slot = entry.slot
    return {
        "key": entry.key,
        "usage_id": usage.id,
        "node_id": usage.node_id,
        "kind": "adjustment" if entry.number else "usage",
        "hour": slot.hour,
        "charge_start": entry.charge_start,
        "charge_end": entry.charge_end,
        "chip_seconds": entry.chip_seconds,
        "price_id": slot.price_id,
        "price_nanos": entry.price,
        "amount_nanos": entry.amount,
        "currency": CURRENCY,
        "posted_at": now,
        "project": usage.project,
        "team": whose.team,
        "owner": whose.owner,
        "job": whose.job,
        "generation": usage.sku.generation,
        "accelerator_type": usage.accelerator_type,
        "model": usage.sku.model,
        "zone": usage.zone,
        "since": slot.since,
        "period": billed_in(slot.hour, now),
        "list_price_nanos": slot.list_price,
        "list_nanos": entry.list_amount,
        "corrects_id": entry.corrects,
        "vm_seconds": entry.vm_seconds,
        "reservation_id": reservation_in(slot.price_id) or None,
    }
