"""An imported bill: its contents, and a headline of how it differs from our ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from service.domain.clock import HOUR, floor_to, to_rfc3339
from service.domain.money import MAX_NANOS, format_dollars, format_usd, half_even
from service.domain.reconciliation.bill_file import BillFileRow, Shape
from service.domain.reconciliation.bill_row import (
    REGULAR,
    BillRow,
    RowSpan,
    SkipReason,
    row_refusal,
)
from service.domain.reconciliation.bill_sku import COMMITMENT
from service.domain.reconciliation.commitments import DISCOUNTS, BilledCommitment
from service.domain.reconciliation.invoice import Invoice, InvoiceKey, RowSum, reason_of
from service.domain.reconciliation.variance import Comparison, Verdict

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by what became of them, and the range of the bill: the hours [start, end) in which any
    resource was used, and the instant of the newest row.

    `machine_entries` counts the entries of our ledger in these hours that are left out, and
    `machine_nanos` is their sum: driver VMs of TPU Nodes, which the bill does not show as TPUs.
    """

    rows: int = 0
    other_projects: int = 0
    not_tpu: int = 0
    kept: int = 0
    start: int | None = None
    end: int | None = None
    newest: int | None = None
    machine_entries: int = 0
    machine_nanos: int = 0


@dataclass(frozen=True, slots=True)
class ApartRows:
    """Rows of one kind that are not compared: their number, their cost with credits in
    nano-dollars, the reason, and the cost in each currency that they are billed in, as decimals."""

    rows: int
    cost: int
    reason: str = ""
    local: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Comparisons that share a verdict, a project and a SKU. Amounts in nano-dollars; `more` is the
    sum of variances above zero, `less` the sum of those below, which is negative. `credit_kinds`
    are the credits by Google's `credits.type`, `explained` the comparisons in which the ledger
    agrees with the cost before or after credits."""

    verdict: Verdict
    project: str
    sku_id: str
    generation: str
    model: str
    lines: int
    billed: int
    credits: int
    charged: int
    more: int
    less: int
    credit_kinds: Mapping[str, int] = field(default_factory=dict)
    explained: int = 0


@dataclass(frozen=True, slots=True)
class JoinedImport:
    """An earlier import whose rows are part of a later import. `again` counts the rows that the
    later file has too."""

    id: str
    name: str
    rows: int
    again: int


@dataclass(frozen=True, slots=True)
class Bill:
    """One import, with the rows of earlier imports of the same months. `digest` is of the file,
    `tolerance` nano-dollars per node and hour; `duplicates` counts the rows that the file has twice
    and that count once, `groups` are the sums of its comparisons. Instants in whole UTC seconds."""

    id: str
    name: str
    digest: str
    shape: Shape
    tolerance: int
    created_at: int
    counts: Counts = field(default_factory=Counts)
    duplicates: int = 0
    apart: Mapping[str, ApartRows] = field(default_factory=dict)
    groups: tuple[ComparisonGroup, ...] = ()
    finished_at: int | None = None
    periods: tuple[str, ...] = ()
    """The invoice months of its rows. A later file joins the rows of the same months; see
    `period_of`."""

    invoices: tuple[Invoice, ...] = ()
    joined: tuple[JoinedImport, ...] = ()
    joined_into: str = ""
    """The later import that has these rows and more of the same month; empty without one."""

    is_alone: bool = False
    """Whether no other file is joined with this import."""

    commitments: tuple[BilledCommitment, ...] | None = None
    """None where the comparison did not read them."""


def shows_commitments(bill: Bill) -> bool:
    """Whether an imported bill shows commitments: a fee, or a credit for covered usage."""
    kinds = {kind for group in bill.groups for kind in group.credit_kinds}
    return COMMITMENT in bill.apart or not kinds.isdisjoint(DISCOUNTS)


def why_no_commitments(bill: Bill) -> str:
    """Return why an imported bill does not show its commitments. Empty where it has none, or they
    are known."""
    if bill.commitments is not None or not shows_commitments(bill):
        return ""
    if bill.joined_into:
        return "a later file was joined with this one; its reconciliation has them"
    return (
        "an earlier version imported the bill. GET /v1/reconciliations/{id} reads them from its"
        " rows; if the rows are gone, send the file again"
    )


@dataclass(frozen=True, slots=True)
class BillTally:
    """The sums of several groups. `matched` is the billed amount with the verdict MATCHED."""

    lines: int = 0
    billed: int = 0
    credits: int = 0
    charged: int = 0
    more: int = 0
    less: int = 0
    matched: int = 0
    credit_kinds: Mapping[str, int] = field(default_factory=dict)
    explained: int = 0

    @property
    def net(self) -> int:
        """The cost with its credits."""
        return self.billed + self.credits

    @property
    def variance(self) -> int:
        """The bill less the ledger."""
        return self.more + self.less

    @property
    def explanation(self) -> str:
        """Whether credits explain the difference between the ledger and the net cost, in words."""
        if not self.lines:
            return ""
        gap = self.net - self.charged
        named = ", ".join(
            f"{kind} {format_dollars(nanos)}" for kind, nanos in self.credit_kinds.items()
        )
        if self.explained == self.lines:
            if not self.credits:
                return "the ledger agrees with the cost; there are no credits"
            return f"credits explain all of {format_dollars(gap)}: {named}"
        open_lines = self.lines - self.explained
        told = f"{open_lines:,} of {self.lines:,} hours differ, and credits do not explain it"
        return f"{told}: {named}" if named else told

    @property
    def percent(self) -> str | None:
        """The variance in percent of what matched, four places; None where nothing did."""
        if not self.matched:
            return None
        tenths = half_even(abs(self.variance) * 1_000_000, self.matched)
        sign = "-" if self.variance < 0 and tenths else ""
        return f"{sign}{tenths // 10_000}.{tenths % 10_000:04d}"


@dataclass(frozen=True, slots=True)
class Headline:
    """The outcome. Pending comparisons are in `verdicts` and in none of the other sums."""

    total: BillTally
    verdicts: Mapping[Verdict, BillTally]
    projects: Mapping[str, BillTally]
    skus: Mapping[tuple[str, str, str], BillTally]
    """By SKU id, generation and model; the id is empty for charges without a bill."""


class RowCounter:
    """Counts rows of a stream. Changed in place, as there may be millions of rows."""

    def __init__(self) -> None:
        self._number: dict[object, int] = dict.fromkeys((None, *SkipReason), 0)
        self._start: int | None = None
        self._end: int | None = None
        self._newest: int | None = None
        self._noted: RowSpan | None = None  # of the previous row: the same span changes nothing
        self._nanos = self._seconds = 0
        self._periods: set[str] = set()

    @property
    def counts(self) -> Counts:
        """The counts of the rows so far."""
        number = self._number
        return Counts(
            rows=sum(number.values()),
            other_projects=number[SkipReason.OTHER_PROJECT],
            not_tpu=number[SkipReason.NOT_TPU],
            kept=number[None],
            start=self._start,
            end=self._end,
            newest=self._newest,
        )

    @property
    def periods(self) -> tuple[str, ...]:
        """The invoice months of the rows so far."""
        return tuple(sorted(self._periods))

    def count_passing(self, reads: Iterable[BillFileRow]) -> Iterator[BillFileRow]:
        """Count the rows and yield them again. Raises Rejected once a sum of the rows is more than
        can be stored."""
        for read in reads:
            self._count_row(read)
            row, amounts = read.row, read.amounts
            at_list, seconds = 0, 0
            if isinstance(row, BillRow):
                at_list, seconds = row.at_list or 0, row.chip_seconds or 0
            credit = amounts.credit if amounts.credits else 0
            self._nanos += max(abs(amounts.cost) + abs(credit), abs(at_list))
            self._seconds += abs(seconds)
            if max(self._nanos, self._seconds) > MAX_NANOS:
                raise row_refusal(
                    read.number, "with the rows before it, the sum is more than can be stored"
                )
            self._periods.add(period_of(read))
            yield read

    def _count_row(self, read: BillFileRow) -> None:
        row, span = read.row, read.span
        is_ours = isinstance(row, BillRow)
        self._number[None if is_ours else row] += 1
        if span is self._noted and not is_ours:
            return
        self._noted = None if is_ours else span
        exported = span.exported_at
        if exported is not None and (self._newest is None or exported > self._newest):
            self._newest = exported
        hour = hour_of(read)
        if hour is None:
            return
        if self._start is None or hour < self._start:
            self._start = hour
        if self._end is None or hour + HOUR > self._end:
            self._end = hour + HOUR


def hour_of(read: BillFileRow) -> int | None:
    """Return the first second of the hour of the bill in which a row's resource was used. None for
    a tax or a fee, which is for a whole month."""
    hour = floor_to(read.span.start, HOUR)
    if read.span.end > hour + HOUR:
        return None
    return None if isinstance(read.row, BillRow) and read.row.kind != REGULAR else hour


def period_of(read: BillFileRow) -> str:
    """Return the month of the bill, `2026-11`, whose invoice a row is on. For a row without one,
    `~2026-11` is the UTC month of its usage."""
    return read.amounts.invoice or f"~{to_rfc3339(read.span.start)[:7]}"


def list_adjacent_months(periods: Iterable[str]) -> tuple[str, ...]:
    """Return the months before and after the months of a bill, without these. Usage at the end of a
    month may be on the invoice of the next month, and its hours are compared with both."""
    own = set(periods)
    found = set()
    for period in own:
        mark, year, month = period[:-7], int(period[-7:-3]), int(period[-2:])
        for months in (-1, 1):
            moved_year, index = divmod(year * 12 + month - 1 + months, 12)
            found.add(f"{mark}{moved_year:04d}-{index + 1:02d}")
    return tuple(sorted(found - own))


class ComparisonTotals:
    """Adds up the comparisons of a stream, by their common fields and by invoice. Changed in place,
    as there may be millions of comparisons."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Verdict, str, str, str, str], list[int]] = {}
        self._kinds: dict[tuple[Verdict, str, str, str, str], dict[str, int]] = {}
        self._shares: dict[tuple[str, str, str, Verdict], list[int]] = {}

    @property
    def groups(self) -> tuple[ComparisonGroup, ...]:
        """The sums so far, by verdict, project and SKU."""
        groups = []
        for key, sums in sorted(self._sums.items()):
            lines, billed, credits_, charged, more, less, explained = sums
            amounts = lines, billed, credits_, charged, more, less
            kinds = dict(sorted(self._kinds[key].items()))
            groups.append(ComparisonGroup(*key, *amounts, kinds, explained))
        return tuple(groups)

    @property
    def invoices(self) -> dict[tuple[InvoiceKey, str], RowSum]:
        """The sums so far, by invoice and verdict."""
        return {
            (InvoiceKey(*invoice), verdict.value): RowSum(*sums)
            for (*invoice, verdict), sums in self._shares.items()
        }

    def add_passing(self, lines: Iterable[Comparison]) -> Iterator[Comparison]:
        """Add up the comparisons and yield them again."""
        for line in lines:
            key = line.verdict, line.project, line.sku_id, line.generation, line.model
            if (sums := self._sums.get(key)) is None:
                sums = self._sums[key] = [0] * 7
                self._kinds[key] = {}
            sums[0] += 1  # in the order of the fields of `ComparisonGroup`
            sums[1] += line.billed
            sums[2] += line.credits
            sums[3] += line.charged
            sums[4 if line.variance > 0 else 5] += line.variance
            sums[6] += line.is_explained
            for kind, nanos in line.credit_kinds.items():
                self._kinds[key][kind] = self._kinds[key].get(kind, 0) + nanos
            for share in line.shares:
                of_share = share.account, share.invoice, share.currency, line.verdict
                if (parts := self._shares.get(of_share)) is None:
                    parts = self._shares[of_share] = [0] * 5
                parts[0] += share.rows  # in the order of the fields of `RowSum`
                parts[1] += share.cost
                parts[2] += share.credits
                parts[3] += share.local_cost
                parts[4] += share.local_credits
            yield line


def set_apart(sums: Mapping[tuple[InvoiceKey, str], RowSum]) -> Mapping[str, ApartRows]:
    """Return the rows of an imported bill that are not compared, by kind, all invoices together."""
    by_kind: dict[str, dict[str, RowSum]] = defaultdict(dict)
    for (key, kind), rows in sums.items():
        if kind not in set(SkipReason):
            currencies = by_kind[kind]
            currencies[key.currency] = currencies.get(key.currency, RowSum()) + rows
    apart = {}
    for kind, by_currency in sorted(by_kind.items()):
        whole = sum(by_currency.values(), RowSum())
        local = {
            currency: format_usd(rows.local_cost + rows.local_credits)
            for currency, rows in sorted(by_currency.items())
        }
        apart[kind] = ApartRows(whole.rows, whole.cost + whole.credits, reason_of(kind), local)
    return apart


def in_chunks(hours: Iterable[tuple[int, int]], limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges [start, end) of a bill's consecutive hours that have about `limit` rows at most.
    A range is a day long at most. `hours` are pairs of an hour and its number of rows, in order."""
    start = end = held = 0
    for hour, rows in hours:
        if held and (held + rows > limit or hour - start >= 24 * HOUR):
            yield start, end
            held = 0
        start = start if held else hour
        end, held = hour + HOUR, held + rows
    if held:
        yield start, end


def build_headline(groups: Sequence[ComparisonGroup]) -> Headline:
    """Return the headline of a bill: the sums of all groups, and by verdict, project and SKU."""
    settled = [group for group in groups if group.verdict is not Verdict.PENDING]
    return Headline(
        total=_add_up(settled),
        verdicts={
            verdict: _add_up([group for group in groups if group.verdict is verdict])
            for verdict in Verdict
        },
        projects=_add_up_by((group.project, group) for group in settled),
        skus=_add_up_by(
            ((group.sku_id, group.generation, group.model), group) for group in settled
        ),
    )


def _add_up_by(pairs: Iterable[tuple[K, ComparisonGroup]]) -> dict[K, BillTally]:
    by_key: dict[K, list[ComparisonGroup]] = defaultdict(list)
    for key, group in pairs:
        by_key[key].append(group)
    return {key: _add_up(by_key[key]) for key in sorted(by_key, key=str)}


def _add_up(groups: Sequence[ComparisonGroup]) -> BillTally:
    kinds: dict[str, int] = {}
    for group in groups:
        for kind, nanos in group.credit_kinds.items():
            kinds[kind] = kinds.get(kind, 0) + nanos
    return BillTally(
        lines=sum(group.lines for group in groups),
        billed=sum(group.billed for group in groups),
        credits=sum(group.credits for group in groups),
        charged=sum(group.charged for group in groups),
        more=sum(group.more for group in groups),
        less=sum(group.less for group in groups),
        matched=sum(group.billed for group in groups if group.verdict is Verdict.MATCHED),
        credit_kinds=dict(sorted(kinds.items())),
        explained=sum(group.explained for group in groups),
    )
