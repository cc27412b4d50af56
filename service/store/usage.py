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
from service.domain.pricing.price_book import ON_DEMAND, RESERVED, Sku
from service.domain.pricing.purchases import pool_of
from service.domain.time_window import Window
from service.store.tables import usage


@cache
def _ended_in_doubt(windows: int) -> Select[Any]:
    """Intervals that ended within any of so many windows, by the looks alone."""
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

_PRICED = select(
    *(usage.c.node_id, usage.c.chips, usage.c.generation, usage.c.model, usage.c.region),
    *(usage.c.single_device, usage.c.project, usage.c.zone, usage.c.reservation),
).where(usage.c.end_at.is_(None), usage.c.project == bindparam("project"))

_BOUGHT = usage.c.start_evidence == literal_column("'purchase'")
"""Spelled out: SQLite uses a partial index only where the query says the same words."""


def _locked(statement: Select[Any], *, skips: bool = False) -> Select[Any]:
    """The statement with a lock on each row against other writers, until the commit. With `skips`,
    rows that another transaction has locked are left out; otherwise the statement waits for them.
    Rows that only refer to a locked row, as those of the ledger, can be inserted meanwhile."""
    return statement.with_for_update(key_share=True, skip_locked=skips)


class Usages:
    """Intervals by node; at most one of a node, or of each of its slices, is open."""

    def __init__(self, connection: Connection, *, writes: bool = True) -> None:
        """`writes` says that the transaction may write, so that what it reads one by one is
        locked."""
        self._connection = connection
        self._writes = writes

    def lock(self, node_ids: Iterable[str]) -> None:
        """Keep everybody else from writing the intervals of some nodes until the commit. Whoever
        writes intervals of more than one node locks all of them first, in the order of their ids,
        and nodes, reservations and rollups only after them: then nobody waits in a circle."""
        wanted = sorted(set(node_ids))
        for first in range(0, len(wanted), 500):
            some = usage.c.node_id.in_(wanted[first : first + 500])
            self._connection.execute(_locked(select(usage.c.id).where(some).order_by(usage.c.id)))

    def save(self, interval: Usage) -> Usage:
        """Write an interval, new or changed; answers it with its new version. Raises StaleVersion
        where someone else wrote it since it was read."""
        after = replace(interval, version=interval.version + 1)
        values = {**_row(after), "post_after": 0}
        if not interval.version:
            self._connection.execute(insert(usage).values(**values))
        else:
            self._write(interval, values)
        return after

    def get(self, usage_id: str) -> Usage:
        """One interval, which has to be there."""
        statement = select(usage).where(usage.c.id == usage_id)
        statement = _locked(statement) if self._writes else statement
        return _read(self._connection.execute(statement).one())

    def posted(self, interval: Usage, until: int, unpriced_seconds: int) -> Usage:
        """Remember how far the ledger has come, and how much it had to leave out. Raises
        StaleVersion where someone else wrote the interval since it was read."""
        after = replace(
            interval,
            posted_until=until,
            unpriced_seconds=unpriced_seconds,
            dirty=False,
            version=interval.version + 1,
        )
        told = ("posted_until", "unpriced_seconds", "dirty", "version")
        self._write(interval, {**{name: getattr(after, name) for name in told}, "post_after": 0})
        return after

    def set_aside(self, interval: Usage, until: int) -> None:
        """Let others be posted before it until then, as it cannot be posted."""
        self._write(interval, {"version": interval.version + 1, "post_after": until})

    def aside_number(self) -> int:
        """How many intervals could not be posted, and are tried again later."""
        is_behind = or_(usage.c.dirty, usage.c.end_at.is_(None))
        statement = select(func.count()).where(usage.c.post_after > 0, is_behind)
        return int(self._connection.execute(statement).scalar_one())

    def _write(self, before: Usage, values: Mapping[str, object]) -> None:
        known = (usage.c.id == before.id) & (usage.c.version == before.version)
        statement = update(usage).where(known).values(**values)
        if self._connection.execute(statement).rowcount != 1:
            raise StaleVersion(f"usage {before.id} was changed by someone else just now")

    def running(self, node_id: str, number: int = WHOLE) -> Usage | None:
        """The open interval of a node, or of the slice of that number."""
        row = self._connection.execute(_RUNNING, {"node": node_id, "slice": number}).one_or_none()
        return None if row is None else _read(row)

    def last_end(self, node_id: str, number: int = WHOLE) -> int | None:
        """Where the last interval of a node, or of one of its slices, ended; None before that."""
        statement = select(func.max(usage.c.end_at)).where(
            usage.c.node_id == node_id, usage.c.slice == number
        )
        last: int | None = self._connection.execute(statement).scalar_one()
        return last

    def running_of(self, node_id: str) -> Sequence[Usage]:
        """The open intervals of a node and of all its slices."""
        statement = _OF_NODE.where(usage.c.end_at.is_(None))
        return [_read(row) for row in self._connection.execute(statement, {"node": node_id})]

    def of(self, node_id: str) -> Sequence[Usage]:
        """Every interval of a node, first to last."""
        return [_read(row) for row in self._connection.execute(_OF_NODE, {"node": node_id})]

    def to_post(self, project: str, now: int, limit: int) -> Sequence[Usage]:
        """Intervals of nodes of which the ledger does not say all that it should by the last full
        hour before `now`, locked. What somebody else writes at this moment, and what was set aside
        for longer, is left out."""
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
        statement = _locked(statement, skips=True)
        return [_read(row) for row in self._connection.execute(statement)]

    def purchases_to_post(self, project: str, closed_hour: int) -> Sequence[Usage]:
        """Reservations of which the ledger does not say all that it should by `closed_hour`."""
        behind = (usage.c.posted_until < closed_hour) & (usage.c.posted_until < usage.c.end_at)
        statement = select(usage).where(
            _BOUGHT, usage.c.project == project, or_(usage.c.dirty, behind)
        )
        found = [_read(row) for row in self._connection.execute(statement)]
        return sorted(found, key=lambda one: (one.start, one.id))  # there it would cost the index

    def purchases(self, after: int) -> Sequence[Usage]:
        """Reservations that are not over at that instant, and those that are and of which the
        ledger does not say all yet."""
        unposted = usage.c.posted_until < usage.c.end_at
        statement = select(usage).where(_BOUGHT, or_(usage.c.end_at > after, unposted))
        return [_read(row) for row in self._connection.execute(statement)]

    def purchase(self, reservation_id: str) -> Usage:
        """The interval of a reservation."""
        statement = select(usage).where(_BOUGHT, usage.c.node_id == reservation_id)
        statement = _locked(statement) if self._writes else statement
        return _read(self._connection.execute(statement).one())

    def reserved(self, start: int, end: int) -> Sequence[Usage]:
        """Intervals of nodes on reserved capacity that have seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.model == literal_column("'reserved'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            usage.c.start_at < end,
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )
        return [_read(row) for row in self._connection.execute(statement)]

    def on_demand(self, start: int, end: int, generations: Iterable[str]) -> Sequence[Usage]:
        """Intervals of nodes on demand, of these generations, that have seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.model == literal_column("'on_demand'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            usage.c.generation.in_(sorted(set(generations))),
            usage.c.start_at < end,
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )
        return [_read(row) for row in self._connection.execute(statement)]

    def reconsider(self, since: Mapping[str, int]) -> None:
        """Have the ledger of everything of these generations, or machine types, that ran since
        then be looked at anew: prices have become known, and posting only what differs is safe.

        All at once: one generation after the other would lock intervals in another order than
        those do who post, and each could wait for the other.
        """
        if since:
            self._reconsider(or_(*(_ran(what, start) for what, start in since.items())))

    def reconsider_reserved(self, project: str, zone: str, start: int, end: int) -> None:
        """The same for what ran on reserved capacity in a zone in [start, end): what was bought
        there has become known."""
        self._reconsider(
            usage.c.model == literal_column("'reserved'"),
            usage.c.start_evidence != Evidence.PURCHASE,
            *(usage.c.project == project, usage.c.zone == zone, usage.c.start_at < end),
            or_(usage.c.end_at.is_(None), usage.c.end_at > start),
        )

    def _reconsider(self, *which: ColumnElement[bool]) -> None:
        """Mark intervals dirty under a new version: whoever has read an older one is refused."""
        self._connection.execute(_locked(select(usage.c.id).where(*which).order_by(usage.c.id)))
        self._connection.execute(
            update(usage).where(*which).values(dirty=True, version=usage.c.version + 1)
        )

    def open(self) -> Sequence[Usage]:
        """Every interval that is still running."""
        statement = select(usage).where(usage.c.end_at.is_(None))
        return [_read(row) for row in self._connection.execute(statement)]

    def running_in(self, project: str) -> Mapping[tuple[Sku, int], Sequence[str]]:
        """The nodes of a project with an interval that is still running, by what is priced and by
        chips. A node that has several intervals is named as often."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        for node_id, *priced in self._connection.execute(_PRICED, {"project": project}).all():
            groups.setdefault(tuple(priced), []).append(node_id)
        found: dict[tuple[Sku, int], list[str]] = {}
        for (chips, generation, model, region, single, *place), ids in groups.items():
            sku = Sku(generation, model, region, single, _pool(model, *place))
            found.setdefault((sku, chips), []).extend(ids)
        return found

    def ran_since(self, instant: int) -> Iterator[Usage]:
        """Every interval that is running, or ended no sooner than that."""
        for over in (usage.c.end_at.is_(None), usage.c.end_at >= instant):  # one index for each
            for row in self._connection.execute(select(usage).where(over)):
                yield _read(row)

    def doubtful(self, start: int, end: int) -> Iterator[Usage]:
        """Intervals with seconds in [start, end) of which some have no price, or are uncertain."""
        columns = usage.c
        doubts = (
            columns.unpriced_seconds > literal_column("0"),
            or_(columns.start_hi > columns.start_at, columns.end_lo < columns.end_at),
        )
        for doubt in doubts:  # an index each, which one question for both would not use
            statement = select(usage).where(
                doubt,
                columns.start_at < end,
                or_(columns.end_at.is_(None), columns.end_at > start),
            )
            for row in self._connection.execute(statement):
                yield _read(row)

    def ended_in_doubt(self, project: str, windows: Sequence[Window]) -> Sequence[Usage]:
        """Intervals that ended within these, of which two looks are all that is known of the end.
        What a look found out about at last, and nobody saw, is not among them."""
        wanted: dict[str, object] = {"project": project}
        for number, one in enumerate(windows):
            wanted |= {f"start_{number}": one.start, f"end_{number}": one.end}
        found = self._connection.execute(_ended_in_doubt(len(windows)), wanted)
        return [_read(row) for row in found]

    def first_start(self) -> int | None:
        """When the first node of all began to be billable; None before that."""
        statement = (
            select(usage.c.start_at)
            .where(usage.c.start_evidence != Evidence.PURCHASE)
            .order_by(usage.c.start_at)
            .limit(1)
        )
        first: int | None = self._connection.execute(statement).scalar_one_or_none()
        return first

    def spans_on_demand(self, start: int, end: int) -> Iterator[tuple[Sku, ChipSpan]]:
        """What was charged on demand in [start, end), as what is priced and its seconds; an open
        interval ends at `end`."""
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

    def overlapping(self, start: int, end: int) -> Iterator[Usage]:
        """Every interval that has seconds in [start, end)."""
        statement = select(usage).where(
            usage.c.start_at < end, or_(usage.c.end_at.is_(None), usage.c.end_at > start)
        )
        for row in self._connection.execute(statement):
            yield _read(row)


def _ran(what: str, since: int) -> ColumnElement[bool]:
    """What is of a generation, or of a machine type, and ran since then."""
    is_of = or_(usage.c.generation == what, usage.c.vm == what)
    return is_of & or_(usage.c.end_at.is_(None), usage.c.end_at > since)


def _row(interval: Usage) -> dict[str, Any]:
    return {
        "id": interval.id,
        "node_id": interval.node_id,
        "project": interval.project,
        "zone": interval.zone,
        "region": interval.sku.region,
        "generation": interval.sku.generation,
        "model": interval.sku.model,
        "single_device": interval.sku.single_device,
        "accelerator_type": interval.accelerator_type,
        "chips": interval.chips,
        "start_at": interval.start,
        "start_hi": interval.start_hi,
        "start_evidence": interval.start_evidence,
        "end_at": interval.end,
        "end_lo": interval.end_lo,
        "end_evidence": interval.end_evidence,
        "free": interval.free,
        "posted_until": interval.posted_until,
        "unpriced_seconds": interval.unpriced_seconds,
        "dirty": interval.dirty,
        "slice": interval.slice,
        "reservation": interval.sku.pool.rpartition("/")[2],
        "vm": interval.vm,
        "vm_model": interval.vm_model,
        "version": interval.version,
    }


def _read(row: Any) -> Usage:
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
            _pool(row.model, row.project, row.zone, row.reservation),
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


def _pool(model: str, project: str, zone: str, reservation: str) -> str:
    """The pool that an interval is priced from; empty unless it is reserved."""
    return pool_of(project, zone, reservation) if model == RESERVED else ""
