"""A bill that was imported: what it held, and in one headline how it differs from our ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from service.domain.clock import HOUR, floor_to, rfc3339
from service.domain.money import MAX_NANOS, dollars, half_even, usd
from service.domain.reconciliation.bill_file import BillFileRow, Shape
from service.domain.reconciliation.bill_row import REGULAR, BillRow, RowSpan, SkipReason, refused
from service.domain.reconciliation.bill_sku import COMMITMENT
from service.domain.reconciliation.commitments import DISCOUNTS, BilledCommitment
from service.domain.reconciliation.invoice import Invoice, InvoiceKey, RowSum, reason_of
from service.domain.reconciliation.variance import Comparison, InvoiceShare, Verdict

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by what became of them, and how far the bill reaches: the hours [start, end) in which it
    says something was used, by whomever, and the instant of its newest row.

    `machine_entries` are those of our ledger in these hours that are left out, `machine_nanos` what
    they come to: of the machines that users drive a TPU Node with, which are not on it as TPUs.
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
    """Rows that are compared with nothing, of one kind: how many, nano-dollars with their credits,
    why, and the same in each currency that they are billed in, as decimals."""

    rows: int
    cost: int
    reason: str = ""
    local: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Comparisons that share a verdict, a project and a SKU. Amounts in nano-dollars; `more` is
    what the bill says more than the ledger, `less` what it says less, which is negative.
    `credit_kinds` are the credits by Google's `credits.type`, `explained` the comparisons in which
    the ledger agrees with the cost before or after credits."""

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
    """An earlier import whose rows are part of a later one: how many, and how many of those the
    later file had too."""

    id: str
    name: str
    rows: int
    again: int


@dataclass(frozen=True, slots=True)
class Bill:
    """One import, with the rows of earlier ones of the same months. `digest` is of the file,
    `tolerance` nano-dollars per node and hour; `duplicates` are rows that the file has twice and
    that count once, `groups` its comparisons added up. Instants in whole UTC seconds."""

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
    """The invoice months that it has rows of, whose rows a later file joins; see `period_of`."""

    invoices: tuple[Invoice, ...] = ()
    joined: tuple[JoinedImport, ...] = ()
    joined_into: str = ""
    """The later import that has its rows, with more of the same month; empty if there is none."""

    is_alone: bool = False
    """Whether no other file joins it, and it joins none."""

    commitments: tuple[BilledCommitment, ...] | None = None
    """None where they were not asked for when it was compared."""


def shows_commitments(bill: Bill) -> bool:
    """Whether it has a fee of a commitment, or a credit for usage that one covers."""
    kinds = {kind for group in bill.groups for kind in group.credit_kinds}
    return COMMITMENT in bill.apart or not kinds.isdisjoint(DISCOUNTS)


def why_no_commitments(bill: Bill) -> str:
    """Why nothing is known of its commitments; empty where it has none, or they are known."""
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
    """Several groups together, in the same words. `matched` is what is billed and matched."""

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
        """What is to be paid: the cost with its credits."""
        return self.billed + self.credits

    @property
    def variance(self) -> int:
        """The bill less the ledger."""
        return self.more + self.less

    @property
    def explanation(self) -> str:
        """Whether credits account for what the ledger says otherwise than what is to be paid."""
        if not self.lines:
            return ""
        gap = self.net - self.charged
        named = ", ".join(f"{kind} {dollars(nanos)}" for kind, nanos in self.credit_kinds.items())
        if self.explained == self.lines:
            if not self.credits:
                return "the ledger agrees with the cost; there are no credits"
            return f"credits explain all of {dollars(gap)}: {named}"
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
    """The outcome. What is pending is in `verdicts` and in none of the other sums."""

    total: BillTally
    verdicts: Mapping[Verdict, BillTally]
    projects: Mapping[str, BillTally]
    skus: Mapping[tuple[str, str, str], BillTally]
    """By SKU id, generation and model; the id is empty for what is not on the bill."""


class RowCounter:
    """Counts rows while they pass; changed in place, as there may be millions of them."""

    def __init__(self) -> None:
        self._number: dict[object, int] = dict.fromkeys((None, *SkipReason), 0)
        self._start: int | None = None
        self._end: int | None = None
        self._newest: int | None = None
        self._noted: RowSpan | None = None  # of the row before: it says nothing new
        self._nanos = self._seconds = 0
        self._periods: set[str] = set()

    @property
    def counts(self) -> Counts:
        """What has passed so far."""
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
        """The invoice months of what has passed so far."""
        return tuple(sorted(self._periods))

    def passing(self, reads: Iterable[BillFileRow]) -> Iterator[BillFileRow]:
        """The same rows."""
        for read in reads:
            self._note(read)
            self._weigh(read)
            self._periods.add(period_of(read))
            yield read

    def _weigh(self, read: BillFileRow) -> None:
        """Raise Rejected once the rows come to more than a sum of them can hold."""
        row, amounts = read.row, read.amounts
        at_list, seconds = 0, 0
        if isinstance(row, BillRow):
            at_list, seconds = row.at_list or 0, row.chip_seconds or 0
        credit = amounts.credit if amounts.credits else 0
        self._nanos += max(abs(amounts.cost) + abs(credit), abs(at_list))
        self._seconds += abs(seconds)
        if max(self._nanos, self._seconds) > MAX_NANOS:
            raise refused(
                read.number, "with the rows before it, the sum is more than can be stored"
            )

    def _note(self, read: BillFileRow) -> None:
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
    """The first second of the hour in which the row says that something was used, by whomever; None
    for a tax or a fee, which speaks of a whole month and says nothing of its hours."""
    hour = floor_to(read.span.start, HOUR)
    if read.span.end > hour + HOUR:
        return None
    return None if isinstance(read.row, BillRow) and read.row.kind != REGULAR else hour


def period_of(read: BillFileRow) -> str:
    """The invoice month of a row, `2026-11`; where it names none, `~2026-11` is the UTC month of
    its usage."""
    return read.amounts.invoice or f"~{rfc3339(read.span.start)[:7]}"


def neighbours(periods: Iterable[str]) -> tuple[str, ...]:
    """The months before and after each of these, without these: what was used at the end of a month
    may be on the invoice of the next, and its hours are to be compared with both."""
    own = set(periods)
    return tuple(sorted({_moved(one, by) for one in own for by in (-1, 1)} - own))


def _moved(period: str, months: int) -> str:
    mark, year, month = period[:-7], int(period[-7:-3]), int(period[-2:])
    year, index = divmod(year * 12 + month - 1 + months, 12)
    return f"{mark}{year:04d}-{index + 1:02d}"


class ComparisonTotals:
    """Adds comparisons up while they pass, by what they have in common and by invoice; changed in
    place, as there may be millions of them."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Verdict, str, str, str, str], list[int]] = {}
        self._kinds: dict[tuple[Verdict, str, str, str, str], dict[str, int]] = {}
        self._shares: dict[tuple[str, str, str, Verdict], list[int]] = {}

    @property
    def groups(self) -> tuple[ComparisonGroup, ...]:
        """What has passed so far, by verdict, project and SKU."""
        return tuple(
            _group(key, sums, self._kinds[key]) for key, sums in sorted(self._sums.items())
        )

    @property
    def invoices(self) -> dict[tuple[InvoiceKey, str], RowSum]:
        """What has passed so far, by invoice and verdict."""
        return {
            (InvoiceKey(*invoice), verdict.value): RowSum(*sums)
            for (*invoice, verdict), sums in self._shares.items()
        }

    def passing(self, lines: Iterable[Comparison]) -> Iterator[Comparison]:
        """The same comparisons."""
        for line in lines:
            key = line.verdict, line.project, line.sku_id, line.generation, line.model
            if (sums := self._sums.get(key)) is None:
                sums = self._sums[key] = [0] * 7
                self._kinds[key] = {}
            _add_line(sums, line)
            for kind, nanos in line.credit_kinds.items():
                self._kinds[key][kind] = self._kinds[key].get(kind, 0) + nanos
            for share in line.shares:
                self._share(line.verdict, share)
            yield line

    def _share(self, verdict: Verdict, one: InvoiceShare) -> None:
        key = one.account, one.invoice, one.currency, verdict
        if (sums := self._shares.get(key)) is None:
            sums = self._shares[key] = [0] * 5
        sums[0] += one.rows
        sums[1] += one.cost
        sums[2] += one.credits
        sums[3] += one.local_cost
        sums[4] += one.local_credits


def _group(
    key: tuple[Verdict, str, str, str, str], sums: Sequence[int], kinds: Mapping[str, int]
) -> ComparisonGroup:
    lines, billed, credits_, charged, more, less, explained = sums
    amounts = lines, billed, credits_, charged, more, less
    return ComparisonGroup(*key, *amounts, dict(sorted(kinds.items())), explained)


def _add_line(sums: list[int], line: Comparison) -> None:
    """Add a comparison to the sums of `ComparisonGroup`, in their order."""
    sums[0] += 1
    sums[1] += line.billed
    sums[2] += line.credits
    sums[3] += line.charged
    sums[4 if line.variance > 0 else 5] += line.variance
    sums[6] += line.is_explained


def _merged(several: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """Sums by the same names, in the order of the names."""
    found: dict[str, int] = {}
    for one in several:
        for kind, nanos in one.items():
            found[kind] = found.get(kind, 0) + nanos
    return dict(sorted(found.items()))


def set_apart(sums: Mapping[tuple[InvoiceKey, str], RowSum]) -> Mapping[str, ApartRows]:
    """What is of ours and compared with nothing, by what it is, all invoices together."""
    of: dict[str, dict[str, RowSum]] = defaultdict(dict)
    for (key, what), some in sums.items():
        if what not in set(SkipReason):
            of[what][key.currency] = of[what].get(key.currency, RowSum()) + some
    return {what: _apart(what, of[what]) for what in sorted(of)}


def _apart(what: str, by_currency: Mapping[str, RowSum]) -> ApartRows:
    whole = sum(by_currency.values(), RowSum())
    local = {
        currency: usd(some.local_cost + some.local_credits)
        for currency, some in sorted(by_currency.items())
    }
    return ApartRows(whole.rows, whole.cost + whole.credits, reason_of(what), local)


def in_chunks(hours: Iterable[tuple[int, int]], limit: int) -> Iterator[tuple[int, int]]:
    """Hours with their numbers of rows, in their order, as stretches [start, end) of hours that
    follow each other and have about `limit` rows at most, and a day at most."""
    start = end = held = 0
    for hour, rows in hours:
        if held and (held + rows > limit or hour - start >= 24 * HOUR):
            yield start, end
            held = 0
        start = start if held else hour
        end, held = hour + HOUR, held + rows
    if held:
        yield start, end


def headline(groups: Sequence[ComparisonGroup]) -> Headline:
    """All groups together, and each way in which people look at them."""
    settled = [one for one in groups if one.verdict is not Verdict.PENDING]
    return Headline(
        total=_tally(settled),
        verdicts={one: _tally([g for g in groups if g.verdict is one]) for one in Verdict},
        projects=_by((one.project, one) for one in settled),
        skus=_by(((one.sku_id, one.generation, one.model), one) for one in settled),
    )


def _by(pairs: Iterable[tuple[K, ComparisonGroup]]) -> dict[K, BillTally]:
    found: dict[K, list[ComparisonGroup]] = defaultdict(list)
    for key, group in pairs:
        found[key].append(group)
    return {key: _tally(some) for key, some in sorted(found.items(), key=lambda one: str(one[0]))}


def _tally(groups: Iterable[ComparisonGroup]) -> BillTally:
    some = list(groups)
    return BillTally(
        lines=sum(one.lines for one in some),
        billed=sum(one.billed for one in some),
        credits=sum(one.credits for one in some),
        charged=sum(one.charged for one in some),
        more=sum(one.more for one in some),
        less=sum(one.less for one in some),
        matched=sum(one.billed for one in some if one.verdict is Verdict.MATCHED),
        credit_kinds=_merged(one.credit_kinds for one in some),
        explained=sum(one.explained for one in some),
    )
