"""Reconciliations: a bill of the cloud is read, held against the ledger, and its outcome kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from threading import BoundedSemaphore
from typing import BinaryIO

from service.domain.clock import HOUR, Clock
from service.domain.errors import Conflict, RateLimited, Rejected
from service.domain.ids import new_id
from service.domain.money import NANOS
from service.domain.reconciliation.bill import (
    Bill,
    ComparisonTotals,
    Headline,
    JoinedImport,
    RowCounter,
    headline,
    in_chunks,
    neighbours,
    set_apart,
    shows_commitments,
)
from service.domain.reconciliation.bill_file import BillFileRow, Shape, read_bill
from service.domain.reconciliation.commitments import BilledCommitment, CommitmentCounter
from service.domain.reconciliation.invoice import invoices
from service.domain.reconciliation.reconcile import reconcile
from service.domain.reconciliation.variance import Billed, Charged, InventorySight, Rules, Verdict
from service.store.bill_matches import orphan_key
from service.store.bills import NumberedComparison, StagedUsage
from service.store.unit import Unit, Units

__all__ = ["DEFAULT_TOLERANCE", "NumberedComparison", "Reconciliation", "ReconciliationService"]

DEFAULT_TOLERANCE = NANOS // 100
"""A cent for each node and hour: less is told, and nobody has to look at it."""

MEGABYTE = 1_000_000
AT_ONCE = 4
"""Files that are taken in at once: each of them lies on the disk as a whole meanwhile."""

BATCH = 2_000
"""Rows that are written at once: few enough that no other writer has to wait long."""

CHUNK = 20_000
"""Rows that are compared at once, in whole hours: what is held in memory grows with it."""

_READ_BYTES = 256 * 1024
_ABANDONED_SECONDS = 6 * HOUR


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A bill and its headline; `known` says that the very same file had been imported before."""

    bill: Bill
    headline: Headline
    known: bool = False


@dataclass(frozen=True, slots=True)
class BillImport:
    """A file to be imported: what it is called, what it is, and what is of no interest. `alone`
    says that no other file joins it."""

    name: str
    digest: str
    tolerance: int
    alone: bool = False


class ReconciliationService:
    """Reads a file twice, once for its digest and once for its rows, and holds none of it."""

    def __init__(
        self, units: Units, clock: Clock, projects: Sequence[str], max_bytes: int = 2_000 * MEGABYTE
    ) -> None:
        self._units = units
        self._clock = clock
        self._projects = tuple(projects)
        self.max_bytes = max_bytes
        """What a file may have at most."""
        self._places = BoundedSemaphore(AT_ONCE)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """While a file is taken in. Raises RateLimited while as many are as may be."""
        if not self._places.acquire(blocking=False):
            raise RateLimited(f"{AT_ONCE} files are being imported; send this one again later")
        try:
            yield
        finally:
            self._places.release()

    def reconcile(
        self,
        file: BinaryIO,
        *,
        name: str = "",
        tolerance: int = DEFAULT_TOLERANCE,
        alone: bool = False,
    ) -> Reconciliation:
        """Hold a billing export against the ledger. The very same file changes nothing. With
        `alone`, earlier files of its months do not join it, and later ones leave it alone.

        Raises Rejected for a file that cannot be one, Conflict where another one of its months was
        imported meanwhile; nothing of it is kept then.
        """
        digest = hashlib.sha256()
        for chunk in _pieces(file):
            digest.update(chunk)
        file.seek(0)
        return self._reconcile(file, BillImport(name, digest.hexdigest(), tolerance, alone))

    def _reconcile(self, file: BinaryIO, wanted: BillImport) -> Reconciliation:
        with self._units() as unit:
            before = unit.bills.same(wanted.digest, wanted.tolerance, is_alone=wanted.alone)
            for abandoned in unit.bills.abandoned(self._clock() - _ABANDONED_SECONDS):
                unit.bills.drop(abandoned)
        if before is not None:
            return replace(self.outcome(before.id), known=True)
        shape, reads = read_bill(_pieces(file), self._projects)
        bill = Bill(
            *(new_id(), wanted.name, wanted.digest, shape, wanted.tolerance, self._clock()),
            is_alone=wanted.alone,
        )
        with self._units() as unit:
            unit.bills.add(bill)
        try:
            counter = RowCounter()
            self._stage(bill.id, counter.passing(reads))
            bill = self._measured(bill, counter)
            bill = self._located(bill if wanted.alone else self._joined(bill))
            self._compare(bill)
        except BaseException:
            with self._units() as unit:
                unit.bills.drop(bill.id)
            raise
        self._leave(bill)
        if wanted.alone:
            self._forget_rows(bill)
        return self.outcome(bill.id)

    def outcome(self, bill_id: str) -> Reconciliation:
        """What came of one. Raises NotFound. Commitments of a bill that was imported before they
        were asked for are read from its rows, as long as it has them."""
        with self._units.reading() as unit:
            bill = unit.bills.get(bill_id)
        if bill.commitments is None and not bill.joined_into and shows_commitments(bill):
            bill = replace(bill, commitments=self._commitments_of_rows(bill) or None)
        return _outcome(bill)

    def _commitments_of_rows(self, bill: Bill) -> tuple[BilledCommitment, ...]:
        with self._units.reading() as unit:
            hours, counter = unit.bills.hours(bill.id), _commitments(unit, bill.id)
        for first, last in in_chunks(hours, CHUNK):
            with self._units.reading() as unit:
                if counter is not None:
                    counter.add(unit.bills.coverable(bill.id, first, last))
        with self._units.reading() as unit:
            return _reported(unit, counter)

    def remove(self, bill_id: str) -> Sequence[Bill]:
        """Forget a reconciliation, and the earlier files whose rows became part of it: which rows
        came from which file is not stored. Answers all that are forgotten, this one first. Those
        that are right can be sent again. The ledger stays as it is.

        Raises NotFound, and Conflict where a later file has the rows, or a file is being imported.
        """
        with self._units() as unit:
            _check_removable(unit, unit.bills.get(bill_id, locked=True))
            gone = _with_earlier(unit, bill_id)
            for one in gone:
                unit.bills.save(replace(one, periods=()))
        # No import that begins from now on takes their rows. One that began before is seen by now.
        try:
            with self._units() as unit:
                _check_removable(unit, unit.bills.get(bill_id, locked=True))
        except Conflict:
            with self._units() as unit:
                for one in gone:
                    _unmark(unit, one)
            raise
        for one in reversed(gone):
            self._forget_rows(one)
            with self._units() as unit:
                unit.bills.drop(one.id)
        return gone

    def all(self, limit: int, offset: int = 0) -> Sequence[Reconciliation]:
        """What came of each, the newest first."""
        with self._units.reading() as unit:
            return [_outcome(bill) for bill in unit.bills.all(limit, offset)]

    def lines(
        self, bill_id: str, verdicts: Sequence[Verdict], after: int, limit: int
    ) -> Sequence[NumberedComparison]:
        """Its comparisons with these verdicts, by their numbers. Raises NotFound."""
        with self._units.reading() as unit:
            unit.bills.get(bill_id)
            return unit.bills.lines(bill_id, verdicts or tuple(Verdict), after, limit)

    def largest(
        self, bill_id: str, verdicts: Sequence[Verdict], limit: int
    ) -> Sequence[NumberedComparison]:
        """Those that make the most of the variance."""
        with self._units.reading() as unit:
            return unit.bills.largest(bill_id, verdicts, limit)

    def _stage(self, bill_id: str, reads: Iterator[BillFileRow]) -> None:
        while batch := list(islice(reads, BATCH)):
            with self._units() as unit:
                unit.bills.stage(bill_id, batch)

    def _measured(self, bill: Bill, counter: RowCounter) -> Bill:
        """The bill, now that all of its rows are known."""
        counts = counter.counts
        if not counts.rows:
            raise Rejected("the file has a header and no rows; nothing was stored", field="body")
        with self._units.reading() as unit:
            different = unit.bills.staged(bill.id)
        return replace(
            bill,
            counts=counts,
            duplicates=counts.kept - different,
            periods=counter.periods,
        )

    def _joined(self, bill: Bill) -> Bill:
        """The bill with the rows that earlier files have of its months. Google's export goes on
        adding rows to a past month for days, so a month is all files that were sent of it.

        The months beside them join too where they have usage in the same hours: such an hour is on
        two invoices, and is compared with both.
        """
        bill = self._with_rows(bill, bill.periods)
        with self._units.reading() as unit:
            reach = unit.bills.reach(bill.id)
            beside = neighbours(bill.periods) if reach else ()
            near = tuple(
                period
                for period in beside
                for one in unit.bills.with_rows_of([period], _of_the_same_kind(bill.shape))
                if unit.bills.meets(one.id, period, *(reach or (0, 0)))
            )
        return self._with_rows(bill, near) if near else bill

    def _located(self, bill: Bill) -> Bill:
        """The bill with the hours that its rows lie in, and with what is set apart."""
        with self._units.reading() as unit:
            start, end = unit.bills.reach(bill.id) or (None, None)
            entries, nanos = unit.witnesses.machines(self._projects, start or 0, end or 0)
            apart = unit.bills.apart(bill.id)
        newest = bill.counts.newest
        counts = replace(
            bill.counts,
            start=start,
            end=end,
            newest=end if newest is None else newest,
            machine_entries=entries,
            machine_nanos=nanos,
        )
        return replace(bill, counts=counts, apart=set_apart(apart))

    def _with_rows(self, bill: Bill, months: Sequence[str]) -> Bill:
        """The bill with all rows of these months that were sent before."""
        with self._units.reading() as unit:
            earlier = unit.bills.with_rows_of(months, _of_the_same_kind(bill.shape))
        joined, newest = {one.id: one for one in bill.joined}, bill.counts.newest
        for one in earlier:
            found = joined.get(one.id, JoinedImport(one.id, one.name, 0, 0))
            rows, again = found.rows, found.again
            for digests in self._slices(one, months):
                with self._units() as unit:
                    more, both = unit.bills.join(bill.id, one.id, months, digests)
                rows, again = rows + more, again + both
            joined[one.id] = replace(found, rows=rows, again=again)
            newest = max(filter(None, (newest, one.counts.newest)), default=None)
        return replace(
            bill,
            counts=replace(bill.counts, newest=newest),
            joined=tuple(joined.values()),
            periods=tuple(sorted({*bill.periods, *months})),
        )

    def _slices(self, bill: Bill, months: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        """Ranges of digests with about as many rows as are written at once."""
        with self._units.reading() as unit:
            rows = unit.bills.rows_of(bill.id, months)
        number = min(256, rows // BATCH + 1)
        bounds = [index * 256 // number for index in range(1, number)]
        edges = [b"", *(bytes([bound]) for bound in bounds), b"\xff" * 17]
        return pairwise(edges)

    def _compare(self, bill: Bill) -> None:
        """Compare some hours at a time, each in a unit of its own, and finish."""
        compared = ComparisonTotals()
        counts = bill.counts
        start, end = counts.start or 0, counts.end or 0
        rules = Rules(counts.newest or end, bill.tolerance)
        with self._units.reading() as unit:
            strangers = unit.witnesses.of_orphans(self._projects)
            bought = unit.reservations.all()
            rows = dict(unit.bills.hours(bill.id))
            counter = _commitments(unit, bill.id)
            for hour, number in unit.witnesses.charged_hours(self._projects, start, end):
                rows[hour] = rows.get(hour, 0) + number
        for first, last in in_chunks(sorted(rows.items()), CHUNK):
            with self._units() as unit:
                charged: Sequence[Charged] = ()
                if first < end and last > start:
                    low, high = max(first, start), min(last, end)
                    charged = unit.witnesses.charged(self._projects, low, high)
                billed = _billed(unit, unit.bills.summed(bill.id, first, last))
                sights = _sights(unit, billed, charged, (first, last), strangers)
                lines = reconcile(billed, charged, rules, sights, bought)
                unit.bills.compare(bill.id, compared.passing(lines))
                if counter is not None:
                    counter.add(unit.bills.coverable(bill.id, first, last))
        with self._units() as unit:
            unit.bills.take_turns()
            _check_all_joined(unit, bill)
            apart, totals = unit.bills.apart(bill.id), unit.bills.totals(bill.id)
            found = invoices(compared.invoices, apart, totals)
            covered = _reported(unit, counter)
            done = replace(bill, groups=compared.groups, invoices=found, commitments=covered)
            unit.bills.save(replace(done, finished_at=self._clock()))

    def _forget_rows(self, bill: Bill) -> None:
        """Keep no rows of a bill; the comparisons stay."""
        for digests in self._slices(bill, bill.periods):
            with self._units() as unit:
                unit.bills.leave(bill.id, bill.periods, digests)

    def _leave(self, bill: Bill) -> None:
        """Let the earlier imports keep no rows that this one has; their comparisons stay."""
        for joined in bill.joined:
            with self._units.reading() as unit:
                earlier = unit.bills.get(joined.id)
            for digests in self._slices(earlier, bill.periods):
                with self._units() as unit:
                    unit.bills.leave(earlier.id, bill.periods, digests)
            with self._units() as unit:  # another import may leave it at this moment
                earlier = unit.bills.get(joined.id, locked=True)
                left = tuple(one for one in earlier.periods if one not in bill.periods)
                unit.bills.save(replace(earlier, periods=left, joined_into=bill.id))


def _check_removable(unit: Unit, bill: Bill) -> None:
    if bill.joined_into:
        raise Conflict(
            f"the rows of this file are part of reconciliation {bill.joined_into}; delete that one"
        )
    if unit.bills.under_way():
        raise Conflict(
            "a file is being imported, or an import broke off in the last hours; retry later"
        )


def _check_all_joined(unit: Unit, bill: Bill) -> None:
    """Raise Conflict where another file of the same months was imported meanwhile: neither has the
    rows of the other."""
    kinds = _of_the_same_kind(bill.shape)
    there = () if bill.is_alone else unit.bills.with_rows_of(bill.periods, kinds)
    missing = {one.id for one in there} - {one.id for one in bill.joined}
    if missing:
        raise Conflict(
            "another file of the same months was imported at the same time; send this file again",
            reconciliation_ids=sorted(missing),
        )


def _with_earlier(unit: Unit, bill_id: str) -> list[Bill]:
    """A bill and all whose rows it has, each before the ones that it was made of; all are locked
    until the commit."""
    found = [unit.bills.get(bill_id, locked=True)]
    for bill in found:
        known = {one.id for one in found}
        found += [
            unit.bills.get(one.id, locked=True)
            for one in unit.bills.earlier(bill)
            if one.id not in known
        ]
    return found


def _unmark(unit: Unit, bill: Bill) -> None:
    """Let later files have the rows of a bill again, but for the months that one has just taken."""
    marked = unit.bills.get(bill.id, locked=True)
    is_taken = marked.joined_into != bill.joined_into
    taken = unit.bills.get(marked.joined_into).periods if is_taken else ()
    left = tuple(period for period in bill.periods if period not in taken)
    unit.bills.save(replace(marked, periods=left))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(_READ_BYTES), b"")


def _of_the_same_kind(shape: Shape) -> Sequence[Shape]:
    """The shapes in which the same rows may come again: those of FOCUS have no rows in common with
    the detailed export."""
    focus = (Shape.FOCUS_CSV, Shape.FOCUS_JSON_LINES)
    return focus if shape in focus else (Shape.CSV, Shape.JSON_LINES)


def _outcome(bill: Bill) -> Reconciliation:
    return Reconciliation(bill, headline(bill.groups))


def _commitments(unit: Unit, bill_id: str) -> CommitmentCounter | None:
    """What counts the usage that commitments cover; None where there are none."""
    return CommitmentCounter(unit.bills.fees(bill_id)) if unit.bills.covers(bill_id) else None


def _reported(unit: Unit, counter: CommitmentCounter | None) -> tuple[BilledCommitment, ...]:
    if counter is None:
        return ()
    return counter.report(unit.witnesses.whose_are(counter.resources))


def _billed(unit: Unit, staged: Sequence[StagedUsage]) -> list[Billed]:
    """What the bill says, with the nodes that it speaks of."""
    whose = unit.witnesses.whose(staged)
    return [
        Billed(
            project=one.project,
            resource=one.resource,
            node_id=whose.get((one.project, one.resource, one.label), ""),
            sku_id=one.sku_id,
            description=one.description,
            generation=one.generation,
            model=one.model,
            hour=one.hour,
            rows=one.rows,
            cost=one.cost,
            credits=one.credits,
            at_list=one.at_list,
            chip_seconds=one.chip_seconds,
            zone=one.zone,
            credit_kinds=one.credit_kinds,
            shares=one.shares,
            no_rate=one.no_rate,
        )
        for one in staged
    ]


def _sights(
    unit: Unit,
    billed: Sequence[Billed],
    charged: Sequence[Charged],
    hours: tuple[int, int],
    strangers: Mapping[tuple[str, str], InventorySight],
) -> Mapping[str, InventorySight]:
    """What the inventory saw of everything that is compared, by node id or by the bill's name."""
    nodes = {one.node_id for one in billed if one.node_id}
    nodes |= {one.node_id for one in charged if not one.is_unused}
    sights = dict(unit.witnesses.of_nodes(nodes, *hours))
    for one in billed:
        if not one.node_id and (sight := strangers.get(orphan_key(one.project, one.resource))):
            sights[one.resource] = sight
    return sights
