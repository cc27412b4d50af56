"""Usage: the seconds for which each node was billable, as far as is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    false,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from service.domain.clock import HOUR, floor_to
from service.domain.commitments.recommendation import ChipSpan
from service.domain.errors import StaleVersion
from service.domain.metering.meter import Evidence, Usage
from service.domain.nodes.slices import WHOLE
from service.domain.pricing.billing_rules import vm_is_charged_with_its_tpu
from service.domain.pricing.price_book import ON_DEMAND, RESERVED, Sku
from service.domain.pricing.purchases import pool_of
from service.domain.time_window import Window
from service.store.tables import usage


@cache
def _ended_in_doubt(windows: int) -> Select[Any]:
    """The statement for intervals that ended within any of so many windows and whose end is known
    from looks alone."""
    columns = usage.c
    within = (
        (columns.end_at >= bindparam(f"start_{number}"))
        & (columns.end_at < bindparam(f"end_{number}"))
        for number in range(windows)
    )
    return select(usage).where(
        columns.project == bindparam("project"),
        or_(false(), *within),
        columns.end_lo < columns.end_at,
        columns.end_evidence == Evidence.OBSERVED,
        columns.start_evidence != Evidence.UNSEEN,
    )


_OF_NODE = select(usage).where(usage.c.node_id == bindparam("node")).order_by(usage.c.start_at)
_RUNNING = (
    select(usage)
    .where(usage.c.node_id == bindparam("node"), usage.c.end_at.is_(None))
    .where(usage.c.slice == bindparam("slice"))
)

_OPEN = select(
    *(usage.c.node_id, usage.c.start_at, usage.c.vm, usage.c.vm_model),
    *(usage.c.chips, usage.c.generation, usage.c.model, usage.c.region),
    *(usage.c.single_device, usage.c.project, usage.c.zone, usage.c.reservation),
).where(usage.c.end_at.is_(None))
_PRICED = _OPEN.where(usage.c.project == bindparam("project"))
_PRICED_OF = _OPEN.where(usage.c.node_id.in_(bindparam("ids", expanding=True)))
IDS_AT_ONCE = 5_000
"""A statement has a limited number of parameters."""

_BOUGHT = usage.c.start_evidence == literal_column("'purchase'")
"""A literal: SQLite uses a partial index only if the query has the same words."""


def _with_lock(statement: Select[Any], *, skips: bool = False) -> Select[Any]:
    """The statement with a lock on each row against other writers, until the commit. With `skips`,
    rows that another transaction has locked are left out; otherwise the statement waits for them.
    Rows that only refer to a locked row, such as those of the ledger, can be inserted meanwhile."""
    return statement.with_for_update(key_share=True, skip_locked=skips)


class Usages:
    """Intervals by node; at most one interval of a node, or of each of its slices, is open."""

    def __init__(self, connection: Connection, *, writes: bool = True) -> None:
        """`writes` says that the transaction may write, so that intervals that it reads one by one
        are locked."""
        self._connection = connection
        self._writes = writes

    def lock(self, node_ids: Iterable[str]) -> None:
        """Keep other transactions from writing the intervals of some nodes until the commit. A
        transaction that writes intervals of several nodes locks all of them first, in the order of
        their ids; nodes, reservations and rollups come only after them. So no two transactions
        deadlock."""
        wanted = sorted(set(node_ids))
        for first in range(0, len(wanted), 500):
            some = usage.c.node_id.in_(wanted[first : first + 500])
            self._connection.execute(
                _with_lock(select(usage.c.id).where(some).order_by(usage.c.id))
            )

    def save(self, interval: Usage) -> Usage:
        """Write a new or changed interval; returns it with its new version. Raises StaleVersion if
        another transaction wrote it since it was read."""
        after = replace(interval, version=interval.version + 1)
        values: dict[str, Any] = {
            "id": after.id,
            "node_id": after.node_id,
            "project": after.project,
            "zone": after.zone,
            "region": after.sku.region,
            "generation": after.sku.generation,
            "model": after.sku.model,
            "single_device": after.sku.single_device,
            "accelerator_type": after.accelerator_type,
            "chips": after.chips,
            "start_at": after.start,
            "start_hi": after.start_hi,
            "start_evidence": after.start_evidence,
            "end_at": after.end,
            "end_lo": after.end_lo,
            "end_evidence": after.end_evidence,
            "free": after.free,
            "posted_until": after.posted_until,
            "unpriced_seconds": after.unpriced_seconds,
            "dirty": after.dirty,
            "slice": after.slice,
            "reservation": after.sku.pool.rpartition("/")[2],
            "vm": after.vm,
            "vm_model": after.vm_model,
            "version": after.version,
            "post_after": 0,
        }
        if not interval.version:
            self._connection.execute(insert(usage).values(**values))
        else:
            self._write_row(interval, values)
        return after

    def get(self, usage_id: str) -> Usage:
        """One interval, which must exist."""
        statement = select(usage).where(usage.c.id == usage_id)
        statement = _with_lock(statement) if self._writes else statement
        return _from_row(self._connection.execute(statement).one())

    def save_posted(self, interval: Usage, until: int, unpriced_seconds: int) -> Usage:
        """Save the end of the posted part, and the seconds that the ledger left out. Raises
        StaleVersion if another transaction wrote the interval since it was read."""
        after = replace(
            interval,
            posted_until=until,
            unpriced_seconds=unpriced_seconds,
            dirty=False,
            version=interval.version + 1,
        )
        told = ("posted_until", "unpriced_seconds", "dirty", "version")
        self._write_row(
            interval, {**{name: getattr(after, name) for name in told}, "post_after": 0}
        )
        return after

    def set_aside(self, interval: Usage, until: int) -> None:
        """Post other intervals before this one until then, because it cannot be posted."""
        self._write_row(interval, {"version": interval.version + 1, "post_after": until})

    def count_open(self) -> int:
        """How many intervals are open."""
        statement = select(func.count()).select_from(usage).where(usage.c.end_at.is_(None))
        return self._connection.execute(statement).scalar_one()

    def count_aside(self) -> int:
        """How many intervals could not be posted, and are tried again later."""
        is_behind = or_(usage.c.dirty, usage.c.end_at.is_(None))
        statement = select(func.count()).where(usage.c.post_after > 0, is_behind)
        return int(self._connection.execute(statement).scalar_one())

    def _write_row(self, before: Usage, values: Mapping[str, object]) -> None:
        known = (usage.c.id == before.id) & (usage.c.version == before.version)
        statement = update(usage).where(known).values(**values)
        if self._connection.execute(statement).rowcount != 1:
            raise StaleVersion(f"usage {before.id} was changed by someone else just now")

    def find_open(self, node_id: str, number: int = WHOLE) -> Usage | None:
        """The open interval of a node, or of the slice with that number; None if there is none."""
        row = self._connection.execute(_RUNNING, {"node": node_id, "slice": number}).one_or_none()
        return None if row is None else _from_row(row)

    def find_last_end(self, node_id: str, number: int = WHOLE) -> int | None:
        """The end of the last interval of a node, or of one of its slices; None before that."""
        statement = select(func.max(usage.c.end_at)).where(
            usage.c.node_id == node_id, usage.c.slice == number
        )
        last: int | None = self._connection.execute(statement).scalar_one()
        return last

    def list_open_of(self, node_id: str) -> Sequence[Usage]:
        """The open intervals of a node and of all its slices."""
        statement = _OF_NODE.where(usage.c.end_at.is_(None))
        return [_from_row(row) for row in self._connection.execute(statement, {"node": node_id})]

    def list_by_node(self, node_id: str) -> Sequence[Usage]:
        """Every interval of a node, first to last."""
        return [_from_row(row) for row in self._connection.execute(_OF_NODE, {"node": node_id})]

    def list_to_post(self, project: str, now: int, limit: int) -> Sequence[Usage]:
        """Intervals of nodes that the ledger does not fully hold by the last full hour before
        `now`, locked. Intervals that another transaction writes at this moment, or that were set
        aside for longer, are left out."""
        closed_hour = floor_to(now, HOUR)
        statement = (
            select(usage)
            .where(
                usage.c.project == project,
                usage.c.start_evidence != Evidence.PURCHASE,
                usage.c.post_after <= now,
                or_(
                    usage.c.dirty,
                    (usage.c.end_at.is_(None) & (usage.c.posted_until < closed_hour)),
                ),
            )
            .order_by(usage.c.start_at + 0)  # else SQLite reads all there is in that order
            .limit(limit)
        )
        statement = _with_lock(statement, skips=True)
        return [_from_row(row) for row in self._connection.execute(statement)]

    def list_purchases_to_post(self, project: str, closed_hour: int) -> Sequence[Usage]:
        """Reservations that the ledger does not fully hold by `closed_hour`."""
        behind = (usage.c.posted_until < closed_hour) & (usage.c.posted_until < usage.c.end_at)
        statement = select(usage).where(
            _BOUGHT, usage.c.project == project, or_(usage.c.dirty, behind)
        )
        found = [_from_row(row) for row in self._connection.execute(statement)]
        return sorted(
            found, key=lambda interval: (interval.start, interval.id)
        )  # ORDER BY would not use the index

    def list_purchases(self, after: int) -> Sequence[Usage]:
        """Reservations that end after the instant `after`, or that are not fully posted."""
        unposted = usage.c.posted_until < usage.c.end_at
        statement = select(usage).where(_BOUGHT, or_(usage.c.end_at > after, unposted))
        return [_from_row(row) for row in self._connection.execute(statement)]

    def get_purchase(self, reservation_id: str) -> Usage:
        """The interval of a reservation, which must exist."""
        statement = select(usage).where(_BOUGHT, usage.c.node_id == reservation_id)
        statement = _with_lock(statement) if self._writes else statement
        return _from_row(self._connection.execute(statement).one())

    def list_reserved(self, start: int, end: int) -> Sequence[Usage]:
        """Intervals of nodes on reserved capacity that have seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.model == literal_column("'reserved'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            usage.c.start_at < end,
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )
        return [_from_row(row) for row in self._connection.execute(statement)]

    def list_on_demand(self, start: int, end: int, generations: Iterable[str]) -> Sequence[Usage]:
        """Intervals of nodes on demand, of these generations, that have seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.model == literal_column("'on_demand'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            usage.c.generation.in_(sorted(set(generations))),
            usage.c.start_at < end,
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )
        return [_from_row(row) for row in self._connection.execute(statement)]

    def mark_dirty(self, since: Mapping[str, int]) -> None:
        """Mark all usage of these generations, or machine types, since then as dirty, so that it is
        posted again: prices have become known, and only differences are posted.

        All generations are in one statement: one after the other would lock intervals in another
        order than posting does, and both could deadlock.
        """
        if since:
            self._mark_dirty(
                or_(
                    *(
                        or_(usage.c.generation == what, usage.c.vm == what)
                        & or_(usage.c.end_at.is_(None), usage.c.end_at > start)
                        for what, start in since.items()
                    )
                )
            )

    def mark_reserved_dirty(self, project: str, zone: str, start: int, end: int) -> None:
        """Mark the usage of reserved capacity in a zone in [start, end) as dirty, because a
        reservation there was recorded or withdrawn."""
        self._mark_dirty(
            usage.c.model == literal_column("'reserved'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            *(usage.c.project == project, usage.c.zone == zone, usage.c.start_at < end),
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )

    def _mark_dirty(self, *which: ColumnElement[bool]) -> None:
        """Mark intervals dirty under a new version, so that writes over an older version fail."""
        self._connection.execute(_with_lock(select(usage.c.id).where(*which).order_by(usage.c.id)))
        self._connection.execute(
            update(usage).where(*which).values(dirty=True, version=usage.c.version + 1)
        )

    def list_open(self) -> Sequence[Usage]:
        """Every open interval."""
        statement = select(usage).where(usage.c.end_at.is_(None))
        return [_from_row(row) for row in self._connection.execute(statement)]

    def find_open_in(self, project: str) -> Mapping[tuple[Sku, int], Sequence[str]]:
        """The nodes of a project with an open interval, by SKU and units, as in `lines_of`: their
        chips, or the machine that drives them. A node with several lines is listed as often."""
        return _group_open(self._connection.execute(_PRICED, {"project": project}).all())

    def find_open_of(self, ids: Sequence[str]) -> Mapping[tuple[Sku, int], Sequence[str]]:
        """As `find_open_in`, of these nodes."""
        rows: list[Any] = []
        for first in range(0, len(ids), IDS_AT_ONCE):
            some = ids[first : first + IDS_AT_ONCE]
            rows += self._connection.execute(_PRICED_OF, {"ids": some}).all()
        return _group_open(rows)

    def iter_since(self, instant: int) -> Iterator[Usage]:
        """Every interval that is open, or ended at that instant or later."""
        for over in (usage.c.end_at.is_(None), usage.c.end_at >= instant):  # one index for each
            for row in self._connection.execute(select(usage).where(over)):
                yield _from_row(row)

    def iter_doubtful(self, start: int, end: int) -> Iterator[Usage]:
        """Intervals with seconds in [start, end) that have unpriced or uncertain seconds."""
        columns = usage.c
        doubts = (
            columns.unpriced_seconds > literal_column("0"),
            or_(columns.start_hi > columns.start_at, columns.end_lo < columns.end_at),
        )
        for doubt in doubts:  # each has an index, which one statement for both would not use
            statement = select(usage).where(
                doubt,
                columns.start_at < end,
                or_(columns.end_at.is_(None), columns.end_at > start),
            )
            for row in self._connection.execute(statement):
                yield _from_row(row)

    def list_ended_in_doubt(self, project: str, windows: Sequence[Window]) -> Sequence[Usage]:
        """Intervals that ended within these windows and whose end is known from two looks alone.
        Intervals of nodes that no look saw are left out."""
        wanted: dict[str, object] = {"project": project}
        for number, window in enumerate(windows):
            wanted |= {f"start_{number}": window.start, f"end_{number}": window.end}
        found = self._connection.execute(_ended_in_doubt(len(windows)), wanted)
        return [_from_row(row) for row in found]

    def find_first_start(self) -> int | None:
        """The start of the first interval of any node; None before that."""
        statement = (
            select(usage.c.start_at)
            .where(usage.c.start_evidence != Evidence.PURCHASE)
            .order_by(usage.c.start_at)
            .limit(1)
        )
        first: int | None = self._connection.execute(statement).scalar_one_or_none()
        return first

    def iter_on_demand_spans(self, start: int, end: int) -> Iterator[tuple[Sku, ChipSpan]]:
        """What was charged on demand in [start, end): the SKU and its seconds. An open interval
        ends at `end`."""
        columns = usage.c
        statement = select(
            *(columns.generation, columns.model, columns.region, columns.single_device),
            *(columns.start_at, columns.end_at, columns.chips),
        ).where(
            columns.model == ON_DEMAND,
            columns.free == "",
            columns.start_at < end,
            or_(columns.end_at.is_(None), columns.end_at > start),
        )
        skus: dict[tuple[Any, ...], Sku] = {}
        for *of, first, last, chips in self._connection.execute(statement):
            sku = skus.setdefault(tuple(of), Sku(*of))
            yield sku, ChipSpan(first, end if last is None else last, chips)

    def iter_overlapping(self, start: int, end: int) -> Iterator[Usage]:
        """Every interval that has seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.start_at < end, or_(usage.c.end_at.is_(None), usage.c.end_at > start)
        )
        for row in self._connection.execute(statement):
            yield _from_row(row)

    def iter_ended(self, start: int, end: int) -> Iterator[Usage]:
        """Every interval with a known end that has seconds in [start, end)."""
        statement = select(usage).where(usage.c.start_at < end, usage.c.end_at > start)
        for row in self._connection.execute(statement):
            yield _from_row(row)


def _from_row(row: Any) -> Usage:
    return Usage(
        id=row.id,
        node_id=row.node_id,
        project=row.project,
        zone=row.zone,
        accelerator_type=row.accelerator_type,
        chips=row.chips,
        sku=Sku(
            row.generation,
            row.model,
            row.region,
            row.single_device,
            _pool_of(row.model, row.project, row.zone, row.reservation),
        ),
        start=row.start_at,
        start_hi=row.start_hi,
        start_evidence=Evidence(row.start_evidence),
        end=row.end_at,
        end_lo=row.end_lo,
        end_evidence=None if row.end_evidence is None else Evidence(row.end_evidence),
        free=row.free,
        posted_until=row.posted_until,
        unpriced_seconds=row.unpriced_seconds,
        dirty=row.dirty,
        slice=row.slice,
        vm=row.vm,
        vm_model=row.vm_model,
        version=row.version,
    )


def _pool_of(model: str, project: str, zone: str, reservation: str) -> str:
    """The pool that an interval is priced from; empty unless it is reserved."""
    return pool_of(project, zone, reservation) if model == RESERVED else ""


def _group_open(rows: Iterable[Any]) -> Mapping[tuple[Sku, int], Sequence[str]]:
    groups: dict[tuple[Any, ...], list[str]] = {}
    found: dict[tuple[Sku, int], list[str]] = {}
    for node_id, start, vm, vm_model, *priced in rows:
        groups.setdefault(tuple(priced), []).append(node_id)
        if vm and vm_is_charged_with_its_tpu(start):
            _, _, _, region, *_ = priced
            machine = Sku(vm, vm_model, region, is_vm=True)
            found.setdefault((machine, 1), []).append(node_id)
    for (chips, generation, model, region, single, *place), ids in groups.items():
        sku = Sku(generation, model, region, single, _pool_of(model, *place))
        found.setdefault((sku, chips), []).extend(ids)
    return found
