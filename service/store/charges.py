"""Charges: the ledger joined with what its rows are about, read as a stream of any length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from service.domain.catalog.provisioning import Architecture
from service.domain.clock import HOUR, floor_to
from service.domain.costs.charge import Charge, ChargeKind, Resource, tags_of
from service.domain.nodes.node import NodeSpec, Place
from service.domain.nodes.slices import WHOLE
from service.domain.pricing.price_book import Price
from service.domain.pricing.purchases import Purchase
from service.store.attributions import Attributions
from service.store.json_columns import loads
from service.store.tables import ledger, nodes, placements, reservations, usage

CHUNK = 1_000
"""Rows that are in memory at a time."""

_KEPT = 10_000
"""The largest number of intervals whose resource is cached."""

Subject = tuple[str, str, str | None]
"""The key of what a row is about: the usage, its line (the generation, or the type of the machine),
and the reservation that it was taken from."""

_ROW = select(
    ledger.c.usage_id,
    ledger.c.generation,
    ledger.c.reservation_id,
    ledger.c.node_id,
    ledger.c.since,
    ledger.c.charge_start,
    ledger.c.charge_end,
    ledger.c.key,
    (ledger.c.chip_seconds + ledger.c.vm_seconds).label("quantity"),
    ledger.c.price_id,
    ledger.c.price_nanos,
    ledger.c.amount_nanos,
    ledger.c.currency,
    ledger.c.period,
    ledger.c.list_price_nanos,
    ledger.c.list_nanos,
).order_by(
    *(ledger.c.hour, ledger.c.charge_start, ledger.c.node_id, ledger.c.generation, ledger.c.id)
)
PriceOf = Callable[[str], Price | None]
"""Returns the price of an id; None if it is unknown."""

_RESOURCES = (
    select(
        usage.c.id,
        usage.c.node_id,
        usage.c.project,
        usage.c.zone,
        usage.c.generation,
        usage.c.accelerator_type,
        usage.c.model,
        usage.c.slice,
        usage.c.start_at,
        usage.c.start_hi,
        usage.c.end_lo,
        usage.c.end_at,
        usage.c.vm,
        usage.c.vm_model,
        nodes.c.name,
        nodes.c.cloud_id,
        nodes.c.spec,
    )
    .outerjoin(nodes, nodes.c.id == usage.c.node_id)
    .where(usage.c.id.in_(bindparam("ids", expanding=True)))
)
_PLACEMENTS = (
    select(
        placements.c.node_id,
        placements.c.zone,
        placements.c.cloud_id,
        placements.c.started_at,
    )
    .where(placements.c.node_id.in_(bindparam("ids", expanding=True)))
    .order_by(placements.c.node_id, placements.c.attempt)
)
_PURCHASES = select(
    *(reservations.c[name] for name in ("id", "name", "project", "zone", "generation")),
    *(reservations.c.start_at, reservations.c.end_at),
).where(reservations.c.id.in_(bindparam("ids", expanding=True)))


class Charges:
    """The entries of the ledger as a bill needs them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._attributions = Attributions(connection)

    def iter_billed(self, start: int, end: int, price_of: PriceOf) -> Iterator[Charge]:
        """What is billed in [start, end), by start and node, with the machine that drives a node
        apart from it. First the corrections of closed months, which are billed with the month in
        which they were made; then the charges that begin in the window.

        Only a chunk is in memory at a time; the transaction has to stay open until the end.
        """
        corrections = _ROW.where(ledger.c.period >= start, ledger.c.period < end)
        charges = _ROW.where(
            ledger.c.period.is_(None),
            ledger.c.hour >= floor_to(start, HOUR),
            ledger.c.hour < end,
            ledger.c.charge_start >= start,
            ledger.c.charge_start < end,
        )
        subjects = _Subjects(self._connection, self._attributions)
        for statement in (corrections, charges):
            streamed = self._connection.execution_options(yield_per=CHUNK).execute(statement)
            for chunk in streamed.partitions():
                subjects.learn_chunk(chunk)
                for row in chunk:
                    yield _to_charge(row, subjects, price_of)


class _Subjects:
    """What the rows of the ledger are about, read a chunk at a time and cached."""

    def __init__(self, connection: Connection, attributions: Attributions) -> None:
        self._connection = connection
        self._attributions = attributions
        self.resources: dict[Subject, Resource] = {}
        self.tags: dict[tuple[str, int], str] = {}
        self.uncertain: dict[str, tuple[tuple[int, int], ...]] = {}
        """By usage, the seconds [start, end) that are charged and may not have been used."""

    def learn_chunk(self, chunk: Sequence[Any]) -> None:
        """Load the resource and the tags of every row of a chunk."""
        if len(self.resources) + len(self.tags) > _KEPT:
            self.resources.clear()
            self.tags.clear()
            self.uncertain.clear()
        new = {row[:3] for row in chunk} - self.resources.keys()
        if new:
            self._learn_resources(new)
        unknown = {row.node_id for row in chunk if (row.node_id, row.since) not in self.tags}
        if unknown:
            for node_id, whose in self._attributions.list_by_nodes(sorted(unknown)).items():
                self.tags.update(
                    {(node_id, attribution.since): tags_of(attribution) for attribution in whose}
                )

    def _learn_resources(self, subjects: Collection[Subject]) -> None:
        rows = self._by_id(_RESOURCES, {usage_id for usage_id, _, _ in subjects})
        bought = self._by_id(_PURCHASES, {id_ for _, _, id_ in subjects if id_ is not None})
        attempts: dict[str, list[Any]] = {}
        ids = sorted({row.node_id for row in rows.values()})
        for attempt in self._connection.execute(_PLACEMENTS, {"ids": ids}):
            attempts.setdefault(attempt.node_id, []).append(attempt)
        for usage_id, row in rows.items():
            # The seconds at either end of a usage for which it is unknown whether it ran.
            at_start = row.start_at, row.start_hi
            at_end = (row.end_lo, row.end_at) if None not in (row.end_lo, row.end_at) else (0, 0)
            spans = tuple(span for span in (at_start, at_end) if span[0] < span[1])
            if spans:
                self.uncertain[usage_id] = spans
        for subject in subjects:
            usage_id, line, reservation_id = subject
            row = rows[usage_id]
            purchase = None if reservation_id is None else Purchase(*bought[reservation_id])
            if purchase is not None and row.node_id == purchase.id:
                found = Resource(  # the part of a reservation that no node used
                    path=purchase.path,
                    name=purchase.name,
                    kind=ChargeKind.RESERVATION,
                    project=row.project,
                    zone=row.zone,
                    generation=row.generation,
                    accelerator_type=row.accelerator_type,
                    model=row.model,
                    reservation=purchase.path,
                    commitment=purchase.path,
                )
            else:
                found = _node_resource(row, attempts.get(row.node_id, ()), purchase)
            if line == row.vm:
                # The user's own VM that drives the node. Its real name is unknown, so its name says
                # which node it belongs to, and is none of Google's names.
                found = replace(
                    found,
                    path=f"tpu-steward/vm-of/{found.path}",
                    name=f"VM of {found.name}",
                    kind=ChargeKind.MACHINE,
                    generation=row.vm,
                    accelerator_type=row.vm,
                    model=row.vm_model,
                    reservation="",
                    commitment="",
                )
            self.resources[subject] = found

    def _by_id(self, statement: Select[Any], ids: Collection[str]) -> dict[str, Any]:
        found = self._connection.execute(statement, {"ids": sorted(ids)})
        return {row.id: row for row in found}


def _node_resource(row: Any, attempts: Sequence[Any], purchase: Purchase | None) -> Resource:
    """A node as a resource; the ledger knows the reservation better than the request."""
    there = [attempt for attempt in attempts if attempt.zone == row.zone]
    before = [attempt for attempt in there if attempt.started_at <= row.start_at]
    # The cloud's name of the node at that time: the node may have been placed again since.
    name = (before[-1] if before else there[0]).cloud_id if there else row.cloud_id
    cloud_id = str(name) if row.slice == WHOLE else f"{name}-{row.slice}"
    spec = loads(row.spec, NodeSpec)
    return Resource(
        path=Place(row.project, row.zone, cloud_id).path,
        name=row.name if row.slice == WHOLE else f"{row.name}-{row.slice}",
        kind=ChargeKind.TPU_NODE if spec.architecture is Architecture.NODE else ChargeKind.TPU_VM,
        project=row.project,
        zone=row.zone,
        generation=row.generation,
        accelerator_type=row.accelerator_type,
        model=row.model,
        reservation=spec.reservation if purchase is None else purchase.path,
        commitment="" if purchase is None else purchase.path,
    )


def _to_charge(row: Any, subjects: _Subjects, price_of: PriceOf) -> Charge:
    usage_id, line, taken, node_id, since, start, end, key, quantity, price_id, *money = row
    charge = Charge(
        subjects.resources[usage_id, line, taken],
        subjects.tags[node_id, since],
        start,
        end,
        int(key.rpartition("/")[2]),
        quantity,
        price_id,
        price_of(price_id),
        *money,
    )
    charge = charge._replace(usage_id=usage_id, since=since)
    unsure = subjects.uncertain.get(usage_id, ())
    if any(low < end and start < high for low, high in unsure):
        return charge._replace(is_uncertain=True)
    return charge
