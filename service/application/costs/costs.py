"""What was spent: by calendar bucket and any grouping, exact to the nano-dollar, up to now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.application.answers import Answers
from service.application.costs.activities import Activities
from service.application.costs.aggregation import Cells, CostRow, CostTally
from service.application.costs.running import RunningMeters, read_running
from service.domain.clock import END_OF_TIME, MINUTE, Clock
from service.domain.costs.buckets import edges_of
from service.domain.costs.dimensions import ACTIVITY, check_dimensions
from service.domain.idle.assess import WARMUP_SECONDS
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import meters
from service.domain.metering.meter import Usage
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import Granularity, Window, buckets, parse_window, zone_of
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

Whose = Mapping[str, tuple[Attribution, ...]]
"""Who is charged, by node."""

_MOST_REPORTS = 128
_MOST_PARTS = 128
_MOST_ROWS = 2_000
"""An answer with more rows is not kept: a few of them would fill the memory."""


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """What is asked: a window, what to group by, how long a bucket is, and which rows count.

    `only` maps a dimension to the values that count; any of them does.
    """

    window: str = "7d"
    aggregate: tuple[str, ...] = ()
    step: Granularity = Granularity.DAY
    tz: str = "UTC"
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def said(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """`only` in one order, as a part of a key."""
        return tuple(sorted((name, tuple(values)) for name, values in self.only.items()))


@dataclass(frozen=True, slots=True)
class CostReport:
    """The rows, by bucket and group; `total` is their sum, exactly, as `list_total` is that of what
    the same seconds would have cost on demand at list price. All in nano-dollars.

    `uncertainty` is the part of `total` that was charged for seconds which may not have been used;
    `estimated` says that something that ran in the window runs still; `unpriced_seconds` were used
    at a price that nobody knows, and are in no figure.
    """

    window: Window
    aggregate: tuple[str, ...]
    rows: tuple[CostRow, ...]
    total: int
    list_total: int
    uncertainty: int
    chip_seconds: int
    as_of: int
    estimated: bool
    unpriced_seconds: int


class _At(NamedTuple):
    """All that running figures depend on: how often the books were written, prices, the second."""

    books: int
    book: PriceBook
    now: int

    @property
    def fresh(self) -> tuple[int, int]:
        """All that what is stored depends on. The minute bounds how long a daemon of an older
        version, which does not count what it writes, can go unnoticed during an upgrade."""
        return self.books, self.now // MINUTE


class CostService:
    """Answers from what is posted where buckets begin on a full hour of UTC, from the usage itself
    otherwise, which takes longer; both come to the same figures."""

    def __init__(
        self, units: Units, prices: PriceShelf, clock: Clock, warmup: int = WARMUP_SECONDS
    ) -> None:
        """`warmup` is how many seconds from READY on count as starting, unless a node works."""
        self._units = units
        self._prices = prices
        self._clock = clock
        self._warmup = warmup
        self._reports = Answers(_MOST_REPORTS)
        self._parts = Answers(_MOST_PARTS)

    def report(self, question: CostQuestion) -> CostReport:
        """The costs that are asked for. Raises Rejected where the question makes no sense."""
        now = self._clock()
        with self._units.reading() as unit:
            return self.report_in(unit, question, now)

    def reports(self, *questions: CostQuestion) -> list[CostReport]:
        """Several at one instant, so that what they have in common is the same in all of them."""
        now = self._clock()
        with self._units.reading() as unit:
            return [self.report_in(unit, question, now) for question in questions]

    def report_in(self, unit: Unit, question: CostQuestion, now: int) -> CostReport:
        """The same at a given instant, in the transaction of a caller who reads more than this. All
        who ask the same in one second get one answer, until the books change."""
        check_dimensions((*question.aggregate, *question.only))
        if ACTIVITY in (*question.aggregate, *question.only):
            return self._by_activity(unit, question, now)
        asked = (question.window, question.aggregate, question.step, question.tz, question.said)
        at = self._at(unit, now)
        return self._reports.of((at, asked), lambda: self._report(unit, question, at), _is_small)

    def metered(self, unit: Unit, now: int) -> RunningMeters:
        """The meters of what is billed at an instant, built once for all who ask at it."""
        return self._metered(unit, self._at(unit, now))

    def _at(self, unit: Unit, now: int) -> _At:
        return _At(unit.revisions.now().books, self._prices.book(unit), now)

    def _report(self, unit: Unit, question: CostQuestion, at: _At) -> CostReport:
        asked, window, parts = _buckets(question, at.now)
        edges = edges_of(parts, to_the_end=asked.end >= at.now)
        tally = CostTally(question.aggregate, question.only, parts)
        if edges is not None and question.step is not Granularity.HOUR:
            tally.add_cells(self._posted(unit, question, parts, edges, at))
            self._add_the_rest(unit, tally, question, window, at)
        else:
            intervals = list(unit.usage.overlapping(window.start, window.end))
            self._add(unit, tally, intervals, window, at.now)
        return _told(question, tally, window, at.now)

    def _by_activity(self, unit: Unit, question: CostQuestion, now: int) -> CostReport:
        _, window, parts = _buckets(question, now)
        intervals = list(unit.usage.overlapping(window.start, window.end))
        activities = Activities.read(unit, intervals, window.start, window.end, self._warmup)
        tally = CostTally(question.aggregate, question.only, parts, activities)
        self._add(unit, tally, intervals, window, now)
        return _told(question, tally, window, now)

    def _posted(
        self,
        unit: Unit,
        question: CostQuestion,
        parts: Sequence[Window],
        edges: Sequence[int],
        at: _At,
    ) -> Cells:
        """What is posted of a question; it is the same until something is posted."""

        def read() -> Cells:
            tally = CostTally(question.aggregate, question.only, parts)
            tally.add_posted(unit, edges)
            return tally.cells()

        key = "posted", at.fresh, edges, question.aggregate, question.said
        return self._parts.of(key, read, lambda cells: len(cells) <= _MOST_ROWS)

    def names(self, node_ids: Iterable[str]) -> Mapping[str, str]:
        """The names of nodes and reservations by their ids, for those who are shown costs by
        node."""
        wanted = set(node_ids)
        with self._units.reading() as unit:
            names = {key: node.name for key, node in unit.nodes.many(wanted).items()}
            if wanted - names.keys():
                bought = unit.reservations.all()
                names |= {one.id: one.name for one in bought if one.id in wanted}
            return names

    def _add_the_rest(
        self, unit: Unit, tally: CostTally, question: CostQuestion, window: Window, at: _At
    ) -> None:
        """What no rollup knows: the open tails, what has no price, and what is uncertain."""
        for meter in self._metered(unit, at).among(question.only):
            tally.add_open(meter)
            if meter.end > meter.usage.posted_until:
                tally.add_usage(meter, since=meter.usage.posted_until)
        for meter in self._doubtful(unit, window.start, at).among(question.only):
            if meter.usage.start < window.end:
                tally.add_doubts(meter, posted_only=True)

    def _metered(self, unit: Unit, at: _At) -> RunningMeters:
        def read() -> tuple[Sequence[Usage], Whose]:
            return read_running(unit, at.now), unit.attributions.running()

        def build() -> RunningMeters:
            lasting = "running", at.fresh, at.now if at.book.purchases else 0
            usages, whose = self._parts.of(lasting, read)
            return RunningMeters(meters(usages, at.book, at.now, whose), whose)

        return self._parts.of(("metered", at), build)

    def _doubtful(self, unit: Unit, since: int, at: _At) -> RunningMeters:
        def read() -> tuple[Sequence[Usage], Whose]:
            found = {usage.id: usage for usage in unit.usage.doubtful(since, END_OF_TIME)}
            whose = unit.attributions.of_each([usage.node_id for usage in found.values()])
            return tuple(found.values()), whose

        def build() -> RunningMeters:
            usages, whose = self._parts.of(("doubtful", since, at.fresh), read)
            return RunningMeters(meters(usages, at.book, at.now, whose), whose)

        return self._parts.of(("doubts", since, at), build)

    def _add(
        self, unit: Unit, tally: CostTally, intervals: Iterable[Usage], window: Window, now: int
    ) -> None:
        book, whose = self._prices.book(unit), unit.attributions.used_in(window.start, window.end)
        for meter in meters(intervals, book, now, whose):
            tally.add_open(meter)
            tally.add_usage(meter, since=meter.usage.start)
            tally.add_doubts(meter, posted_only=False)


def _buckets(question: CostQuestion, now: int) -> tuple[Window, Window, list[Window]]:
    """The window that is asked for, what of it is over, and that in buckets."""
    zone = zone_of(question.tz)
    asked = parse_window(question.window, zone, now)
    window = Window(asked.start, max(asked.start, min(asked.end, now)))
    return asked, window, list(buckets(window, question.step, zone))


def _is_small(report: CostReport) -> bool:
    return len(report.rows) <= _MOST_ROWS


def _told(question: CostQuestion, tally: CostTally, window: Window, now: int) -> CostReport:
    rows = tally.rows()
    return CostReport(
        window=window,
        aggregate=question.aggregate,
        rows=rows,
        total=sum(row.cost for row in rows),
        list_total=sum(row.list_cost for row in rows),
        uncertainty=tally.uncertainty,
        chip_seconds=sum(row.chip_seconds for row in rows),
        as_of=now,
        estimated=tally.estimated,
        unpriced_seconds=tally.unpriced_seconds,
    )
