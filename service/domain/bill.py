"""A bill that was imported: what it held, and in one headline how it differs from our ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from service.domain.billfile import Read, Shape
from service.domain.billrow import REGULAR, BillRow, Skip, refused
from service.domain.clock import HOUR, floor_to
from service.domain.comparison import Verdict
from service.domain.money import MAX_NANOS, half_even

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
class Apart:
    """Rows that are no usage, of one cost type: how many, and nano-dollars."""

    rows: int
    cost: int


@dataclass(frozen=True, slots=True)
class Group:
    """Comparisons that share a verdict, a project and a SKU. Amounts in nano-dollars; `more` is
    what the bill says more than the ledger, `less` what it says less, which is negative."""

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


@dataclass(frozen=True, slots=True)
class Bill:
    """One import. `digest` is of the file, `tolerance` nano-dollars per node and hour; `duplicates`
    are rows that were there before in full, `groups` its comparisons added up. Instants in whole
    UTC seconds."""

    id: str
    name: str
    digest: str
    shape: Shape
    tolerance: int
    created_at: int
    counts: Counts = field(default_factory=Counts)
    duplicates: int = 0
    apart: Mapping[str, Apart] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    finished_at: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Several groups together, in the same words. `matched` is what is billed and matched."""

    lines: int = 0
    billed: int = 0
    credits: int = 0
    charged: int = 0
    more: int = 0
    less: int = 0
    matched: int = 0

    @property
    def net(self) -> int:
        """What is to be paid: the cost with its credits."""
        return self.billed + self.credits

    @property
    def variance(self) -> int:
        """The bill less the ledger."""
        return self.more + self.less

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

    total: Tally
    verdicts: Mapping[Verdict, Tally]
    projects: Mapping[str, Tally]
    skus: Mapping[tuple[str, str, str], Tally]
    """By SKU id, generation and model; the id is empty for what is not on the bill."""


class Counter:
    """Counts rows while they pass; changed in place, as there may be millions of them."""

    def __init__(self) -> None:
        self._number: dict[object, int] = dict.fromkeys((None, *Skip), 0)
        self._start: int | None = None
        self._end: int | None = None
        self._newest: int | None = None
        self._nanos = self._seconds = 0

    @property
    def counts(self) -> Counts:
        """What has passed so far."""
        number = self._number
        return Counts(
            rows=sum(number.values()),
            other_projects=number[Skip.OTHER_PROJECT],
            not_tpu=number[Skip.NOT_TPU],
            kept=number[None],
            start=self._start,
            end=self._end,
            newest=self._newest,
        )

    def passing(self, reads: Iterable[Read]) -> Iterator[Read]:
        """The rows that count."""
        for read in reads:
            self._note(read)
            if isinstance(read.row, BillRow):
                self._weigh(read.row)
                yield read

    def _weigh(self, row: BillRow) -> None:
        """Raise Rejected once the rows come to more than a sum of them can hold."""
        self._nanos += max(abs(row.cost) + abs(row.credits), abs(row.at_list or 0))
        self._seconds += abs(row.chip_seconds or 0)
        if max(self._nanos, self._seconds) > MAX_NANOS:
            raise refused(row.number, "with those before it, it comes to more than can be kept")

    def _note(self, read: Read) -> None:
        row, span = read.row, read.span
        counts = isinstance(row, BillRow)
        self._number[None if counts else row] += 1
        exported = span.exported_at
        if exported is not None and (self._newest is None or exported > self._newest):
            self._newest = exported
        hour = floor_to(span.start, HOUR)
        if span.end > hour + HOUR or (isinstance(row, BillRow) and row.kind != REGULAR):
            return  # a tax or a fee speaks of a whole month, and says nothing of its hours
        if self._start is None or hour < self._start:
            self._start = hour
        if self._end is None or hour + HOUR > self._end:
            self._end = hour + HOUR


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


def headline(groups: Sequence[Group]) -> Headline:
    """All groups together, and each way in which people look at them."""
    settled = [one for one in groups if one.verdict is not Verdict.PENDING]
    return Headline(
        total=_tally(settled),
        verdicts={one: _tally([g for g in groups if g.verdict is one]) for one in Verdict},
        projects=_by((one.project, one) for one in settled),
        skus=_by(((one.sku_id, one.generation, one.model), one) for one in settled),
    )


def _by(pairs: Iterable[tuple[K, Group]]) -> dict[K, Tally]:
    found: dict[K, list[Group]] = defaultdict(list)
    for key, group in pairs:
        found[key].append(group)
    return {key: _tally(some) for key, some in sorted(found.items(), key=lambda one: str(one[0]))}


def _tally(groups: Iterable[Group]) -> Tally:
    some = list(groups)
    return Tally(
        lines=sum(one.lines for one in some),
        billed=sum(one.billed for one in some),
        credits=sum(one.credits for one in some),
        charged=sum(one.charged for one in some),
        more=sum(one.more for one in some),
        less=sum(one.less for one in some),
        matched=sum(one.billed for one in some if one.verdict is Verdict.MATCHED),
    )
