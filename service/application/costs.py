"""What was spent: by calendar bucket and any grouping, exact to the nano-dollar, up to now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.application.activities import Activities
from service.application.tally import CostRow, Tally
from service.domain.clock import Clock
from service.domain.dimension import ACTIVITY, check_dimensions
from service.domain.edge import edges_of
from service.domain.idle.assess import WARMUP_SECONDS
from service.domain.lines import meters
from service.domain.metering import Usage
from service.domain.window import (
    Granularity,
    Window,
    buckets,
    parse_window,
    zone_of,
)
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a window, what to group by, how long a bucket is, and which rows count.

    `only` maps a dimension to the values that count; any of them does.
    """

    window: str = "7d"
    aggregate: tuple[str, ...] = ()
    step: Granularity = Granularity.DAY
    tz: str = "UTC"
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)


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


def running(unit: Unit, now: int) -> list[Usage]:
    """What is billed now, reservations among it, with all that ran in these since the ledger has
    come to."""
    bought = unit.usage.purchases(now)
    found = {usage.id: usage for usage in unit.usage.open()}
    if bought:
        since = min(usage.posted_until for usage in bought)
        found |= {usage.id: usage for usage in unit.usage.reserved(since, now)}
    return [*found.values(), *bought]


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

    def report(self, question: Question) -> CostReport:
        """The costs that are asked for. Raises Rejected where the question makes no sense."""
        now = self._clock()
        with self._units.reading() as unit:
            return self.report_in(unit, question, now)

    def report_in(self, unit: Unit, question: Question, now: int) -> CostReport:
        """The same as of an instant, for whoever reads something else beside it."""
        check_dimensions((*question.aggregate, *question.only))
        zone = zone_of(question.tz)
        asked = parse_window(question.window, zone, now)
        window = Window(asked.start, max(asked.start, min(asked.end, now)))
        parts = list(buckets(window, question.step, zone))
        edges = edges_of(parts, to_the_end=asked.end >= now)
        if ACTIVITY in (*question.aggregate, *question.only):
            intervals = list(unit.usage.overlapping(window.start, window.end))
            activities = Activities.read(unit, intervals, window.start, window.end, self._warmup)
            tally = Tally(question.aggregate, question.only, parts, activities)
            self._add(unit, tally, intervals, window, now)
        elif edges is not None and question.step is not Granularity.HOUR:
            tally = Tally(question.aggregate, question.only, parts)
            tally.add_posted(unit, edges)
            self._add_the_rest(unit, tally, window, now)
        else:
            tally = Tally(question.aggregate, question.only, parts)
            intervals = list(unit.usage.overlapping(window.start, window.end))
            self._add(unit, tally, intervals, window, now)
        return self._told(question, tally, window, now)

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

    def _add_the_rest(self, unit: Unit, tally: Tally, window: Window, now: int) -> None:
        """What no rollup knows: the open tails, what has no price, and what is uncertain."""
        book, whose = self._prices.book(unit), unit.attributions.running()
        for meter in meters(running(unit, now), book, now, whose):
            tally.add_open(meter)
            if meter.end > meter.usage.posted_until:
                tally.add_usage(meter, since=meter.usage.posted_until)
        doubtful = {usage.id: usage for usage in unit.usage.doubtful(window.start, window.end)}
        whose = unit.attributions.of_each([usage.node_id for usage in doubtful.values()])
        for meter in meters(doubtful.values(), book, now, whose):
            tally.add_doubts(meter, posted_only=True)

    def _add(
        self, unit: Unit, tally: Tally, intervals: Iterable[Usage], window: Window, now: int
    ) -> None:
        book, whose = self._prices.book(unit), unit.attributions.used_in(window.start, window.end)
        for meter in meters(intervals, book, now, whose):
            tally.add_open(meter)
            tally.add_usage(meter, since=meter.usage.start)
            tally.add_doubts(meter, posted_only=False)

    def _told(self, question: Question, tally: Tally, window: Window, now: int) -> CostReport:
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
