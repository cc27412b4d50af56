"""Reconciliations: a bill of the cloud is read and compared with the ledger, and the outcome is
kept."""

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
    build_headline,
    in_chunks,
    list_adjacent_months,
    set_apart,
    shows_commitments,
)
from service.domain.reconciliation.bill_file import Shape, read_bill
from service.domain.reconciliation.commitments import BilledCommitment, CommitmentCounter
from service.domain.reconciliation.invoice import build_invoices
from service.domain.reconciliation.reconcile import compare_hours
from service.domain.reconciliation.variance import Billed, Charged, InventorySight, Rules, Verdict
from service.store.bill_matches import orphan_key
from service.store.bills import NumberedComparison, StagedUsage
from service.store.unit import Unit, Units

__all__ = ["DEFAULT_TOLERANCE", "NumberedComparison", "Reconciliation", "ReconciliationService"]

DEFAULT_TOLERANCE = NANOS // 100
"""A cent for each node and hour: a smaller difference needs no attention."""

MEGABYTE = 1_000_000
AT_ONCE = 4
"""Files that are imported at once: each is on the disk as a whole meanwhile."""

BATCH = 2_000
"""Rows that are written at once: few enough that no other writer waits long."""

CHUNK = 20_000
"""Rows that are compared at once, in whole hours: the memory grows with this number."""

_READ_BYTES = 256 * 1024
_ABANDONED_SECONDS = 6 * HOUR


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A bill and its headline; `known` says that the same file had been imported before."""

    bill: Bill
    headline: Headline
    known: bool = False


@dataclass(frozen=True, slots=True)
class BillImport:
    """A file to be imported: its name, its digest, and the tolerance. `alone` says that no other
    file joins it."""

    name: str
    digest: str
    tolerance: int
    alone: bool = False


class ReconciliationService:
    """Reads a file twice, once for its digest and once for its rows, and never holds it in
    memory."""

    def __init__(
        self, units: Units, clock: Clock, projects: Sequence[str], max_bytes: int = 2_000 * MEGABYTE
    ) -> None:
        self._units = units
        self._clock = clock
        self._projects = tuple(projects)
        self.max_bytes = max_bytes
        """The largest file in bytes."""
        self._places = BoundedSemaphore(AT_ONCE)

    @contextmanager
    def take_place(self) -> Iterator[None]:
        """Hold a place while a file is received. Raises RateLimited if all places are taken."""
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
        """Compare a billing export with the ledger. Importing the same file again changes nothing.
        With `alone`, earlier files of its months do not join it, and later ones leave it alone.

        Raises Rejected for an invalid file, Conflict if another file of its months was imported
        meanwhile; nothing of the file is kept then.
        """
        digest = hashlib.sha256()
        for chunk in _iter_pieces(file):
            digest.update(chunk)
        file.seek(0)
        return self._import_bill(file, BillImport(name, digest.hexdigest(), tolerance, alone))

    def _import_bill(self, file: BinaryIO, wanted: BillImport) -> Reconciliation:
        with self._units() as unit:
            before = unit.bills.find_same(wanted.digest, wanted.tolerance, is_alone=wanted.alone)
            for abandoned in unit.bills.list_abandoned(self._clock() - _ABANDONED_SECONDS):
                unit.bills.delete(abandoned)
        if before is not None:
            return replace(self.get_outcome(before.id), known=True)
        shape, reads = read_bill(_iter_pieces(file), self._projects)
        bill = Bill(
            *(new_id(), wanted.name, wanted.digest, shape, wanted.tolerance, self._clock()),
            is_alone=wanted.alone,
        )
        with self._units() as unit:
            unit.bills.add(bill)
        try:
            counter = RowCounter()
            rows = counter.count_passing(reads)
            while batch := list(islice(rows, BATCH)):
                with self._units() as unit:
                    unit.bills.add_rows(bill.id, batch)
            bill = self._with_counts(bill, counter)
            bill = self._with_hours(bill if wanted.alone else self._with_earlier_rows(bill))
            self._compare_hours(bill)
        except BaseException:
            with self._units() as unit:
                unit.bills.delete(bill.id)
            raise
        self._clear_earlier(bill)
        if wanted.alone:
            self._forget_rows(bill)
        return self.get_outcome(bill.id)

    def get_outcome(self, bill_id: str) -> Reconciliation:
        """The outcome of a reconciliation. Raises NotFound. If the bill was imported before
        commitments were recorded with it, they are read from its rows as long as these exist."""
        with self._units.reading() as unit:
            bill = unit.bills.get(bill_id)
        if bill.commitments is None and not bill.joined_into and shows_commitments(bill):
            with self._units.reading() as unit:
                hours, counter = (
                    unit.bills.count_rows_by_hour(bill.id),
                    _make_counter(unit, bill.id),
                )
            for first, last in in_chunks(hours, CHUNK):
                with self._units.reading() as unit:
                    if counter is not None:
                        counter.add(unit.bills.list_coverable(bill.id, first, last))
            with self._units.reading() as unit:
                bill = replace(bill, commitments=_report_commitments(unit, counter) or None)
        return _to_reconciliation(bill)

    def delete(self, bill_id: str) -> Sequence[Bill]:
        """Delete a reconciliation, and the earlier files whose rows became part of it: which rows
        came from which file is not stored. Returns all deleted bills, this one first. Correct files
        can be sent again. The ledger stays as it is.

        Raises NotFound, and Conflict if a later file has the rows, or a file is being imported.
        """
        with self._units() as unit:
            _check_removable(unit, unit.bills.get(bill_id, locked=True))
            # The bill and all bills whose rows it has, each before the ones that it was made of.
            # All are locked until the commit.
            gone = [unit.bills.get(bill_id, locked=True)]
            for bill in gone:
                known = {bill.id for bill in gone}
                gone += [
                    unit.bills.get(earlier.id, locked=True)
                    for earlier in unit.bills.list_earlier(bill)
                    if earlier.id not in known
                ]
            for removed in gone:
                unit.bills.save(replace(removed, periods=()))
        # Imports that begin from now on do not take these rows. Earlier imports are visible by now.
        try:
            with self._units() as unit:
                _check_removable(unit, unit.bills.get(bill_id, locked=True))
        except Conflict:
            with self._units() as unit:
                # Later files join the rows again, except for months that a bill has just taken.
                for removed in gone:
                    marked = unit.bills.get(removed.id, locked=True)
                    is_taken = marked.joined_into != removed.joined_into
                    taken = unit.bills.get(marked.joined_into).periods if is_taken else ()
                    left = tuple(period for period in removed.periods if period not in taken)
                    unit.bills.save(replace(marked, periods=left))
            raise
        for bill in reversed(gone):
            self._forget_rows(bill)
            with self._units() as unit:
                unit.bills.delete(bill.id)
        return gone

    def list_newest(self, limit: int, offset: int = 0) -> Sequence[Reconciliation]:
        """The outcome of each reconciliation, the newest first."""
        with self._units.reading() as unit:
            return [_to_reconciliation(bill) for bill in unit.bills.list_newest(limit, offset)]

    def list_lines(
        self, bill_id: str, verdicts: Sequence[Verdict], after: int, limit: int
    ) -> Sequence[NumberedComparison]:
        """The comparisons with these verdicts, by number. Raises NotFound."""
        with self._units.reading() as unit:
            unit.bills.get(bill_id)
            return unit.bills.list_lines(bill_id, verdicts or tuple(Verdict), after, limit)

    def list_largest(
        self, bill_id: str, verdicts: Sequence[Verdict], limit: int
    ) -> Sequence[NumberedComparison]:
        """The comparisons with the largest variances."""
        with self._units.reading() as unit:
            return unit.bills.list_largest(bill_id, verdicts, limit)

    def _with_counts(self, bill: Bill, counter: RowCounter) -> Bill:
        """The bill with its counts, after all of its rows are stored."""
        counts = counter.counts
        if not counts.rows:
            raise Rejected("the file has a header and no rows; nothing was stored", field="body")
        with self._units.reading() as unit:
            different = unit.bills.count_staged(bill.id)
        return replace(
            bill,
            counts=counts,
            duplicates=counts.kept - different,
            periods=counter.periods,
        )

    def _with_earlier_rows(self, bill: Bill) -> Bill:
        """The bill with the rows that earlier files have of its months. Google's export adds rows
        to a past month for days, so a month consists of all files that were sent for it.

        The neighbouring months join too if they have usage in the same hours: such an hour is on
        two invoices, and is compared with both.
        """
        bill = self._with_rows(bill, bill.periods)
        with self._units.reading() as unit:
            reach = unit.bills.find_hour_range(bill.id)
            beside = list_adjacent_months(bill.periods) if reach else ()
            near = tuple(
                period
                for period in beside
                for other in unit.bills.list_with_rows_of([period], _of_the_same_kind(bill.shape))
                if unit.bills.has_usage_in(other.id, period, *(reach or (0, 0)))
            )
        return self._with_rows(bill, near) if near else bill

    def _with_hours(self, bill: Bill) -> Bill:
        """The bill with the hours of its rows, and with the rows that are set apart."""
        with self._units.reading() as unit:
            start, end = unit.bills.find_hour_range(bill.id) or (None, None)
            entries, nanos = unit.bill_matches.sum_machines(self._projects, start or 0, end or 0)
            apart = unit.bills.sum_apart(bill.id)
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
        """The bill with all earlier rows of these months."""
        with self._units.reading() as unit:
            earlier = unit.bills.list_with_rows_of(months, _of_the_same_kind(bill.shape))
        joined, newest = {joined.id: joined for joined in bill.joined}, bill.counts.newest
        for other in earlier:
            found = joined.get(other.id, JoinedImport(other.id, other.name, 0, 0))
            rows, again = found.rows, found.again
            for digests in self._iter_slices(other, months):
                with self._units() as unit:
                    more, both = unit.bills.join_rows(bill.id, other.id, months, digests)
                rows, again = rows + more, again + both
            joined[other.id] = replace(found, rows=rows, again=again)
            newest = max(filter(None, (newest, other.counts.newest)), default=None)
        return replace(
            bill,
            counts=replace(bill.counts, newest=newest),
            joined=tuple(joined.values()),
            periods=tuple(sorted({*bill.periods, *months})),
        )

    def _iter_slices(self, bill: Bill, months: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        """Ranges of digests with about as many rows each as one batch."""
        with self._units.reading() as unit:
            rows = unit.bills.count_rows(bill.id, months)
        number = min(256, rows // BATCH + 1)
        bounds = [index * 256 // number for index in range(1, number)]
        edges = [b"", *(bytes([bound]) for bound in bounds), b"\xff" * 17]
        return pairwise(edges)

    def _compare_hours(self, bill: Bill) -> None:
        """Compare some hours at a time, each in its own unit of work, and finish the bill."""
        compared = ComparisonTotals()
        counts = bill.counts
        start, end = counts.start or 0, counts.end or 0
        rules = Rules(counts.newest or end, bill.tolerance)
        with self._units.reading() as unit:
            strangers = unit.bill_matches.find_orphan_sights(self._projects)
            bought = unit.reservations.list_all()
            rows = dict(unit.bills.count_rows_by_hour(bill.id))
            counter = _make_counter(unit, bill.id)
            for hour, number in unit.bill_matches.iter_charged_hours(self._projects, start, end):
                rows[hour] = rows.get(hour, 0) + number
        for first, last in in_chunks(sorted(rows.items()), CHUNK):
            with self._units() as unit:
                charged: Sequence[Charged] = ()
                if first < end and last > start:
                    low, high = max(first, start), min(last, end)
                    charged = unit.bill_matches.list_charged(self._projects, low, high)
                billed = _list_billed(unit, unit.bills.list_usage(bill.id, first, last))
                sights = _find_sights(unit, billed, charged, (first, last), strangers)
                lines = compare_hours(billed, charged, rules, sights, bought)
                unit.bills.add_comparisons(bill.id, compared.add_passing(lines))
                if counter is not None:
                    counter.add(unit.bills.list_coverable(bill.id, first, last))
        with self._units() as unit:
            unit.bills.lock_until_commit()
            _check_all_joined(unit, bill)
            apart, totals = unit.bills.sum_apart(bill.id), unit.bills.sum_by_invoice(bill.id)
            found = build_invoices(compared.invoices, apart, totals)
            covered = _report_commitments(unit, counter)
            done = replace(bill, groups=compared.groups, invoices=found, commitments=covered)
            unit.bills.save(replace(done, finished_at=self._clock()))

    def _forget_rows(self, bill: Bill) -> None:
        """Delete the rows of a bill; the comparisons stay."""
        for digests in self._iter_slices(bill, bill.periods):
            with self._units() as unit:
                unit.bills.delete_rows(bill.id, bill.periods, digests)

    def _clear_earlier(self, bill: Bill) -> None:
        """Delete the rows of the earlier imports that this one has; their comparisons stay."""
        for joined in bill.joined:
            with self._units.reading() as unit:
                earlier = unit.bills.get(joined.id)
            for digests in self._iter_slices(earlier, bill.periods):
                with self._units() as unit:
                    unit.bills.delete_rows(earlier.id, bill.periods, digests)
            with self._units() as unit:  # another import may update it at the same time
                earlier = unit.bills.get(joined.id, locked=True)
                left = tuple(period for period in earlier.periods if period not in bill.periods)
                unit.bills.save(replace(earlier, periods=left, joined_into=bill.id))


def _check_removable(unit: Unit, bill: Bill) -> None:
    if bill.joined_into:
        raise Conflict(
            f"the rows of this file are part of reconciliation {bill.joined_into}; delete that one"
        )
    if unit.bills.is_import_running():
        raise Conflict(
            "a file is being imported, or an import broke off in the last hours; retry later"
        )


def _check_all_joined(unit: Unit, bill: Bill) -> None:
    """Raise Conflict if another file of the same months was imported meanwhile: neither has the
    rows of the other."""
    kinds = _of_the_same_kind(bill.shape)
    there = () if bill.is_alone else unit.bills.list_with_rows_of(bill.periods, kinds)
    missing = {bill.id for bill in there} - {joined.id for joined in bill.joined}
    if missing:
        raise Conflict(
            "another file of the same months was imported at the same time; send this file again",
            reconciliation_ids=sorted(missing),
        )


def _iter_pieces(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(_READ_BYTES), b"")


def _of_the_same_kind(shape: Shape) -> Sequence[Shape]:
    """The shapes in which the same rows may come again. FOCUS files share no rows with the detailed
    export."""
    focus = (Shape.FOCUS_CSV, Shape.FOCUS_JSON_LINES)
    return focus if shape in focus else (Shape.CSV, Shape.JSON_LINES)


def _to_reconciliation(bill: Bill) -> Reconciliation:
    return Reconciliation(bill, build_headline(bill.groups))


def _make_counter(unit: Unit, bill_id: str) -> CommitmentCounter | None:
    """A counter of the usage that commitments cover; None if there are none."""
    return (
        CommitmentCounter(unit.bills.list_fees(bill_id))
        if unit.bills.has_commitments(bill_id)
        else None
    )


def _report_commitments(
    unit: Unit, counter: CommitmentCounter | None
) -> tuple[BilledCommitment, ...]:
    if counter is None:
        return ()
    return counter.list_commitments(unit.bill_matches.find_nodes(counter.resources))


def _list_billed(unit: Unit, staged: Sequence[StagedUsage]) -> list[Billed]:
    """The usage of the bill, with the nodes that it is of."""
    whose = unit.bill_matches.find_staged_nodes(staged)
    return [
        Billed(
            project=usage.project,
            resource=usage.resource,
            node_id=whose.get((usage.project, usage.resource, usage.label), ""),
            sku_id=usage.sku_id,
            description=usage.description,
            generation=usage.generation,
            model=usage.model,
            hour=usage.hour,
            rows=usage.rows,
            cost=usage.cost,
            credits=usage.credits,
            at_list=usage.at_list,
            chip_seconds=usage.chip_seconds,
            zone=usage.zone,
            credit_kinds=usage.credit_kinds,
            shares=usage.shares,
            no_rate=usage.no_rate,
        )
        for usage in staged
    ]


def _find_sights(
    unit: Unit,
    billed: Sequence[Billed],
    charged: Sequence[Charged],
    hours: tuple[int, int],
    strangers: Mapping[tuple[str, str], InventorySight],
) -> Mapping[str, InventorySight]:
    """What the inventory saw of everything that is compared, by node id or by the bill's resource
    name."""
    nodes = {usage.node_id for usage in billed if usage.node_id}
    nodes |= {charge.node_id for charge in charged if not charge.is_unused}
    sights = dict(unit.bill_matches.find_node_sights(nodes, *hours))
    for usage in billed:
        if not usage.node_id and (
            sight := strangers.get(orphan_key(usage.project, usage.resource))
        ):
            sights[usage.resource] = sight
    return sights
