"""Costs by calendar bucket and any grouping, exact to the nano-dollar, up to now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.application.answers import Answers
from service.application.costs.activities import Activities
from service.application.costs.aggregation import Cells, CostRow, CostTally
from service.application.costs.running import BilledLines, RunningMeters, read_running
from service.domain.clock import END_OF_TIME, MINUTE, Clock
from service.domain.costs.buckets import edges_of, settle_parts
from service.domain.costs.dimensions import ACTIVITY, check_dimensions
from service.domain.costs.markers import CostMarker, list_markers
from service.domain.idle.assess import WARMUP_SECONDS
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import (
    Granularity,
    Window,
    parse_window,
    split_into_buckets,
    zone_of,
)
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

_MOST_REPORTS = 128
_MOST_PARTS = 128
_MOST_ROWS = 2_000
"""An answer with more rows is not cached: a few of them would fill the memory."""


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """The question: a window, the dimensions to group by, the length of a bucket, and which rows
    count.

    `only` maps a dimension to the values that count; a row matches any of them.
    """

    window: str = "7d"
    aggregate: tuple[str, ...] = ()
    step: Granularity = Granularity.DAY
    tz: str = "UTC"
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def only_key(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """`only` in a fixed order, as a part of a cache key."""
        return tuple(sorted((name, tuple(values)) for name, values in self.only.items()))


@dataclass(frozen=True, slots=True)
class CostReport:
    """The rows, by bucket and group. `total` is their exact sum; `list_total` is the sum for the
    same seconds on demand at list price. Both in nano-dollars.

    `uncertainty` is the part of `total` for seconds that may not have been used; `estimated` says
    that something in the window still runs; `unpriced_seconds` were used at an unknown price, and
    are in no figure.
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
    """Everything that running figures depend on: the revision of the books, prices, the second."""

    books: int
    book: PriceBook
    now: int

    @property
    def fresh_key(self) -> tuple[int, int]:
        """Everything that stored figures depend on. The minute limits how long the writes of an
        older daemon, which does not count them, can go unnoticed during an upgrade."""
        return self.books, self.now // MINUTE


class CostService:
    """Answers from what is posted if buckets begin on a full hour of UTC, otherwise from the usage
    itself, which takes longer. Both give the same figures."""

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, warmup: int = WARMUP_SECONDS
    ) -> None:
        """`warmup` is the number of seconds from READY that count as starting, unless a node works
        sooner."""
        self._units = units
        self._prices = prices
        self._clock = clock
        self._warmup = warmup
        self._reports = Answers(_MOST_REPORTS)
        self._parts = Answers(_MOST_PARTS)
        self._tails = Answers(_MOST_PARTS)

    def report(self, question: CostQuestion) -> CostReport:
        """The costs that are asked for. Raises Rejected for an invalid question."""
        now = self._clock()
        with self._units.reading() as unit:
            return self.report_in(unit, question, now)

    def report_all(self, *questions: CostQuestion) -> list[CostReport]:
        """Several reports as of one instant, so that they agree on what they share."""
        now = self._clock()
        with self._units.reading() as unit:
            return [self.report_in(unit, question, now) for question in questions]

    def report_in(self, unit: Unit, question: CostQuestion, now: int) -> CostReport:
        """The report as of `now`, in the transaction of a caller who reads more. Equal questions
        within one second get one answer, until the books change."""
        check_dimensions((*question.aggregate, *question.only))
        if ACTIVITY in (*question.aggregate, *question.only):
            _, window, parts = _split_window(question, now)
            intervals = list(unit.usage.iter_overlapping(window.start, window.end))
            activities = Activities.read_for(
                unit, intervals, window.start, window.end, self._warmup
            )
            tally = CostTally(question.aggregate, question.only, parts, activities)
            self._add_intervals(unit, tally, intervals, window, now)
            return _to_report(question, tally, window, now)
        asked = (question.window, question.aggregate, question.step, question.tz, question.only_key)
        at = _At(unit.revisions.read_current().books, self._prices.get_book(unit), now)
        return self._reports.get_or_make(
            (at, asked),
            lambda: self._build_report(unit, question, at),
            lambda report: len(report.rows) <= _MOST_ROWS,
        )

    def _build_report(self, unit: Unit, question: CostQuestion, at: _At) -> CostReport:
        asked, window, parts = _split_window(question, at.now)
        hourly = question.step is Granularity.HOUR
        edges = edges_of(parts, to_the_end=asked.end >= at.now, hourly=hourly)
        settled, rest = parts, None
        if edges is None:
            settled = settle_parts(parts)
            edges = edges_of(settled, to_the_end=False, hourly=hourly)
        if edges is None:
            tally, rest = CostTally(question.aggregate, question.only, parts), window
        else:
            tally = self._tally_settled(unit, question, settled, edges, at)
            if settled is not parts:
                tally.extend_to(parts)
                rest = Window(settled[-1].end, window.end)
        if rest is not None:
            self._add_metered(unit, tally, rest, at)
        return _to_report(question, tally, window, at.now)

    def _tally_settled(
        self,
        unit: Unit,
        question: CostQuestion,
        parts: Sequence[Window],
        edges: Sequence[int],
        at: _At,
    ) -> CostTally:
        """The costs in buckets between full hours: from what is posted, and from what no rollup
        has: the open tails, the usage without a price, and the uncertainty."""
        tally = CostTally(question.aggregate, question.only, parts)
        tally.add_cells(self._read_posted(unit, question, parts, edges, at))
        running, only = self._running_meters(unit, at), question.only
        for meter in running.find_matching(only):
            if tally.estimated:
                break
            tally.add_open(meter)
        key = self._lasting(at), question.aggregate, question.only_key
        tally.add_tails(
            running,
            self._tails.get_or_make(
                key, lambda: running.lines.group_tails(question.aggregate, only)
            ),
        )
        for meter in self._doubtful_meters(unit, parts[0].start, at).find_matching(only):
            if meter.usage.start < parts[-1].end:
                tally.add_doubts(meter, posted_only=True)
        return tally

    def _read_posted(
        self,
        unit: Unit,
        question: CostQuestion,
        parts: Sequence[Window],
        edges: Sequence[int],
        at: _At,
    ) -> Cells:
        """The posted part of an answer, cached until something is posted."""

        def read_posted() -> Cells:
            tally = CostTally(question.aggregate, question.only, parts)
            tally.add_posted(unit, edges)
            return tally.to_cells()

        key = "posted", at.fresh_key, edges, question.aggregate, question.only_key
        return self._parts.get_or_make(key, read_posted, lambda cells: len(cells) <= _MOST_ROWS)

    def list_markers(self, window: Window) -> Sequence[CostMarker]:
        """What happened in a window that explains its costs: see `markers.list_markers`."""
        start, end = window.start, window.end
        with self._units.reading() as unit:
            return list_markers(
                window,
                self._prices.get_book(unit),
                unit.costs.find_used(start, end),
                unit.fleet.list_preemptions(start, end),
                unit.costs.sum_corrections(start, end),
            )

    def find_names(self, node_ids: Iterable[str]) -> Mapping[str, str]:
        """The names of nodes and reservations by id."""
        wanted = set(node_ids)
        with self._units.reading() as unit:
            names = {key: node.name for key, node in unit.nodes.find_many(wanted).items()}
            if wanted - names.keys():
                bought = unit.reservations.list_all()
                names |= {
                    purchase.id: purchase.name for purchase in bought if purchase.id in wanted
                }
            return names

    def _running_meters(self, unit: Unit, at: _At) -> RunningMeters:
        def build_meters() -> RunningMeters:
            lines = self._parts.get_or_make(
                ("running", self._lasting(at)),
                lambda: BilledLines(read_running(unit, at.now), unit.attributions.list_running()),
            )
            return RunningMeters(lines, at.book, at.now)

        return self._parts.get_or_make(("metered", at), build_meters)

    @staticmethod
    def _lasting(at: _At) -> Hashable:
        """All that running usage depends on: with reservations, which of it is read changes each
        second."""
        return at.fresh_key, at.now if at.book.purchases else 0

    def _doubtful_meters(self, unit: Unit, since: int, at: _At) -> RunningMeters:
        def read_usages() -> BilledLines:
            found = {usage.id: usage for usage in unit.usage.iter_doubtful(since, END_OF_TIME)}
            nodes = [usage.node_id for usage in found.values()]
            return BilledLines(found.values(), unit.attributions.list_by_nodes(nodes))

        def build_meters() -> RunningMeters:
            lines = self._parts.get_or_make(("doubtful", since, at.fresh_key), read_usages)
            return RunningMeters(lines, at.book, at.now)

        return self._parts.get_or_make(("doubts", since, at), build_meters)

    def _add_metered(self, unit: Unit, tally: CostTally, window: Window, at: _At) -> None:
        """Add the last buckets, or a piece of the last one, from the usage itself. What runs is
        metered once for all reports, unless reservations share out its cost."""
        start, end = window.start, window.end
        if at.book.purchases:
            self._add_intervals(
                unit, tally, unit.usage.iter_overlapping(start, end), window, at.now
            )
            return
        self._add_intervals(unit, tally, unit.usage.iter_ended(start, end), window, at.now)
        for meter in self._running_meters(unit, at).meters:
            if meter.usage.end is None and meter.usage.start < window.end:
                _add_meter(tally, meter, window.start)

    def _add_intervals(
        self, unit: Unit, tally: CostTally, intervals: Iterable[Usage], window: Window, now: int
    ) -> None:
        book, whose = (
            self._prices.get_book(unit),
            unit.attributions.list_used_in(window.start, window.end),
        )
        for meter in make_meters(intervals, book, now, whose):
            _add_meter(tally, meter, window.start)


def _add_meter(tally: CostTally, meter: Meter, since: int) -> None:
    tally.add_open(meter)
    tally.add_usage(meter, since=since)
    tally.add_doubts(meter, posted_only=False, since=since)


def _split_window(question: CostQuestion, now: int) -> tuple[Window, Window, list[Window]]:
    """The requested window, the part of it that is over, and the buckets of that part."""
    zone = zone_of(question.tz)
    asked = parse_window(question.window, zone, now)
    window = Window(asked.start, max(asked.start, min(asked.end, now)))
    return asked, window, list(split_into_buckets(window, question.step, zone))


def _to_report(question: CostQuestion, tally: CostTally, window: Window, now: int) -> CostReport:
    rows = tally.list_rows()
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
