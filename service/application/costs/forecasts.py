"""What a period will have cost at its end, asked of the books; and how wrong that was last time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple
from zoneinfo import ZoneInfo

from service.application.answers import Answers
from service.application.costs.aggregation import CostRow
from service.application.costs.costs import CostQuestion, CostService
from service.application.costs.running import RunningMeters, read_running
from service.domain.budgets.budget import Period, calendar
from service.domain.clock import DAY, MINUTE, Clock, floor_to, rfc3339
from service.domain.costs.dimensions import value_of
from service.domain.costs.forecast import (
    DAYS,
    ENOUGH,
    NODE_DAYS,
    CostHistory,
    DayAhead,
    Forecast,
    ForecastBasis,
    RunningNode,
    Snapshot,
    forecast,
    middle,
    nearest,
)
from service.domain.costs.habits import NodeDay
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import meters
from service.domain.metering.meter import Meter, Usage
from service.domain.nodes.keep import goes_at
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import RESERVED, PriceBook, reservation_in
from service.domain.time_window import Granularity, Window, buckets, midnight, zone_of
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

Only = Mapping[str, Sequence[str]]
"""A dimension, and the values of it that count; as costs are filtered."""

_KEPT = 128
_KEPT_HISTORIES = 64
_KEPT_PARTS = 4
_TEAM = "team"
_KIND = ("team", "accelerator_type", "provisioning_model")
"""By what nodes are alike, so that one tells how long another will live."""


@dataclass(frozen=True, slots=True)
class ForecastOutlook:
    """A forecast, and the last month's as it was at half time, once that is over."""

    forecast: Forecast
    last: Snapshot | None


@dataclass(slots=True)
class _Running:
    """What runs will cost from now on."""

    committed: int = 0
    nodes: dict[str, RunningNode] = field(default_factory=dict)
    unpriced: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


class _At(NamedTuple):
    """All that a forecast depends on: how often books and nodes were written, prices, the
    minute."""

    books: int
    nodes: int
    book: PriceBook
    now: int


@dataclass(frozen=True, slots=True)
class _Planned:
    """The meters of what runs up to the ends that are expected, the nodes by id, and whether a
    reservation is written down."""

    meters: RunningMeters
    nodes: Mapping[str, Node]
    bought: bool


class _Days(NamedTuple):
    """Whose calendar days, of which costs, as of when."""

    zone: ZoneInfo
    only: Only
    now: int


class ForecastService:
    """Puts together what the costs, the nodes and the prices say."""

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock, costs: CostService) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._costs = costs
        self._forecasts = Answers(_KEPT)
        self._histories = Answers(_KEPT_HISTORIES)
        self._parts = Answers(_KEPT_PARTS)

    def of(
        self, only: Only, period: Period = Period.MONTH, tz: str = "UTC"
    ) -> tuple[int, int, int]:
        """(low, mid, high) nano-dollars for the whole of the present period."""
        total = self.forecast(only, period, tz).total
        return total.low, total.mid, total.high

    def forecast(self, only: Only, period: Period = Period.MONTH, tz: str = "UTC") -> Forecast:
        """The forecast for the present period of a zone's calendar, as of the last full minute."""
        return self.within(only, calendar(period, zone_of(tz), self._clock()), tz)

    def outlook(self, only: Only, period: Period, tz: str) -> ForecastOutlook:
        """The same, with how the last month's was; of everything and of one team alone."""
        found = self.forecast(only, period, tz)
        scope = _scope_of(only)
        if scope is None:
            return ForecastOutlook(found, None)
        last = month_before(month_of(found.basis.now))
        with self._units.reading() as unit:
            said = unit.forecasts.of(last, scope)
        return ForecastOutlook(
            found, nearest([one for one in said if one.actual is not None], middle(last))
        )

    def within(self, only: Only, window: Window, tz: str = "UTC") -> Forecast:
        """The forecast for any window that is not over, by the days of a time zone. It is as of the
        last full minute, and worked out once a minute unless the books or the nodes change."""
        with self._units.reading() as unit:
            return self.within_in(unit, only, window, tz, self._clock())

    def within_in(self, unit: Unit, only: Only, window: Window, tz: str, instant: int) -> Forecast:
        """The same as of an instant, in a transaction that reads."""
        zone, now = zone_of(tz), max(floor_to(instant, MINUTE), min(instant, window.start))
        revision, book = unit.revisions.now(), self._prices.book(unit)
        at = _At(revision.books, revision.nodes, book, now)
        key = at, window, zone.key, _said(only)
        return self._forecasts.of(key, lambda: self._forecast(unit, only, window, zone, at))

    def _forecast(
        self, unit: Unit, only: Only, window: Window, zone: ZoneInfo, at: _At
    ) -> Forecast:
        spent = self._costs.report_in(unit, _spent_in(window, only), at.now)
        ahead = _ahead(at.now, window.end, zone)
        running = self._running(unit, only, window.end, ahead, at)
        return forecast(
            ForecastBasis(
                window=window,
                now=at.now,
                spent=spent.total,
                committed=running.committed,
                unpriced=len(running.unpriced),
                history=self._history(unit, only, zone, at),
                ahead=ahead,
                running=tuple(running.nodes.values()),
                names=frozenset(running.names),
            )
        )

    def snapshots(self, now: int) -> list[Snapshot]:
        """The forecasts of this month to write down: of everything, and of each team."""
        window = month_of(now)
        since = f"{rfc3339(min(window.start, floor_to(now, DAY) - DAYS * DAY))},{rfc3339(now + 1)}"
        report = self._costs.report(CostQuestion(since, (_TEAM,), Granularity.ALL))
        teams = [f"{_TEAM}:{row.group[0]}" for row in report.rows]
        found = []
        for scope in ("", *teams):
            seen = self.within(_only_of(scope), window)
            day = floor_to(now, DAY)
            found.append(Snapshot(scope, window, day, now, seen.total, seen.method))
        return found

    def actual(self, scope: str, window: Window) -> int:
        """Nano-dollars that a period came to, as far as is known."""
        return self._costs.report(_spent_in(window, _only_of(scope))).total

    def _running(
        self, unit: Unit, only: Only, end: int, ahead: Sequence[DayAhead], at: _At
    ) -> _Running:
        found = _Running()
        planned = self._parts.of((at, end), lambda: self._planned(unit, end, at))
        now, edges = at.now, [at.now + left for left in accumulate(day.left for day in ahead)]
        for meter in planned.meters.among(only):
            node_id, until = meter.usage.node_id, max(now, meter.end)
            latest = _latest(planned.meters.whose, node_id)
            if not _counts(meter.usage, latest, only):
                continue
            found.committed += meter.figures(now, until).cost
            found.names.add(node_id)
            node = planned.nodes.get(node_id)
            if (
                node is not None
                and until > now
                and not _is_bought(meter, has_bought=planned.bought)
            ):
                costs = tuple(meter.figures(now, edge).cost for edge in edges)
                kind = _kind_of(value_of(name, meter.usage, latest) for name in _KIND)
                one = RunningNode(node_id, kind, costs, node.deletes_at is not None)
                found.nodes[node_id] = _with(one, found.nodes.get(node_id))
            if meter.figures(now, until).unpriced_seconds:
                found.unpriced.add(node_id)
        return found

    def _planned(self, unit: Unit, end: int, at: _At) -> _Planned:
        """What runs, each with the end that is expected of it, for all scopes."""
        usages = [usage for usage in read_running(unit, at.now) if usage.is_open(at.now)]
        whose = unit.attributions.running()
        nodes = unit.nodes.many({usage.node_id for usage in usages})
        planned = [_planned(usage, nodes.get(usage.node_id), at.now, end) for usage in usages]
        metered = RunningMeters(meters(planned, at.book, end, whose), whose)
        return _Planned(metered, nodes, bool(unit.reservations.standing()))

    def _history(self, unit: Unit, only: Only, zone: ZoneInfo, at: _At) -> CostHistory:
        """What was spent by day and node; the full days are asked for once until the books change,
        as that is the largest question, and today only where there are too few of them."""
        today = midnight(_date(at.now, zone), zone)
        key = at.books, at.book, zone.key, today, _said(only)
        history = self._histories.of(
            key, lambda: self._read_history(unit, only, zone, today, at.now)
        )
        if history.days >= ENOUGH or at.now <= today:
            return history
        so_far = Window(today, at.now)
        rows = self._launched(unit, so_far, (), Granularity.ALL, _Days(zone, only, at.now))
        return replace(history, today=sum(row.cost for row in rows))

    def _read_history(
        self, unit: Unit, only: Only, zone: ZoneInfo, today: int, now: int
    ) -> CostHistory:
        first = midnight(_date(today, zone) - timedelta(days=DAYS), zone)
        starts = [part.start for part in buckets(Window(first, today), Granularity.DAY, zone)]
        number = {start: place for place, start in enumerate(starts)}
        by_day = Granularity.DAY, _Days(zone, only, now)
        levels: dict[str, list[int]] = defaultdict(lambda: [0] * len(starts))
        for row in self._launched(unit, Window(first, today), (), *by_day):
            levels[_kind_of(row.group)][number[row.bucket.start]] += row.cost
        of_nodes = Window(starts[-NODE_DAYS - 1], today)
        return CostHistory(
            starts=(*starts, today),
            weekdays=tuple(_date(start, zone).weekday() for start in starts),
            levels={kind: tuple(costs) for kind, costs in sorted(levels.items())},
            nodes=tuple(
                NodeDay(number[row.bucket.start], row.group[0], _kind_of(row.group[1:]), row.cost)
                for row in self._launched(unit, of_nodes, ("node",), *by_day)
            ),
        )

    def _launched(
        self, unit: Unit, window: Window, by: tuple[str, ...], step: Granularity, days: _Days
    ) -> list[CostRow]:
        """What was spent, by the kind last. Reserved usage is left out where reservations are
        recorded: they are paid for until their end, whether or not nodes run in them."""
        asked = f"{rfc3339(window.start)},{rfc3339(window.end)}"
        question = CostQuestion(asked, (*by, *_KIND), step, days.zone.key, days.only)
        rows = self._costs.report_in(unit, question, days.now).rows
        left_out = RESERVED if unit.reservations.standing() else None
        return [row for row in rows if row.group[-1] != left_out]


def _said(only: Only) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((name, *values) for name, values in only.items()))


def month_of(instant: int) -> Window:
    """The UTC month that an instant lies in."""
    return calendar(Period.MONTH, zone_of("UTC"), instant)


def month_before(window: Window) -> Window:
    """The month that ends where another begins."""
    return month_of(window.start - 1)


def _ahead(now: int, end: int, zone: ZoneInfo) -> tuple[DayAhead, ...]:
    """The days from now until the end, the first and the last perhaps in part."""
    if now >= end:
        return ()
    first = midnight(_date(now, zone), zone)
    last = midnight(_date(end - 1, zone) + timedelta(days=1), zone)
    return tuple(
        DayAhead(_date(day.start, zone).weekday(), left, day.end - day.start)
        for day in buckets(Window(first, last), Granularity.DAY, zone)
        if (left := min(day.end, end) - max(day.start, now)) > 0
    )


def _date(instant: int, zone: ZoneInfo) -> date:
    return datetime.fromtimestamp(instant, zone).date()


def _spent_in(window: Window, only: Only) -> CostQuestion:
    said = f"{rfc3339(window.start)},{rfc3339(window.end)}"
    return CostQuestion(said, step=Granularity.ALL, only=only)


def _latest(whose: Mapping[str, Sequence[Attribution]], node_id: str) -> Attribution:
    return whose.get(node_id, (Attribution(node_id),))[-1]


def _counts(usage: Usage, latest: Attribution, only: Only) -> bool:
    """Whether it counts, by whose it is now."""
    return all(value_of(name, usage, latest) in some for name, some in only.items())


def _kind_of(values: Iterable[str]) -> str:
    return "/".join(values)


def _with(one: RunningNode, other: RunningNode | None) -> RunningNode:
    """The same with what another interval of the node costs."""
    if other is None:
        return one
    return replace(one, costs=tuple(map(sum, zip(one.costs, other.costs, strict=True))))


def _is_bought(meter: Meter, *, has_bought: bool) -> bool:
    """Whether it takes from what was bought: to go sooner only moves the cost from the node to what
    nobody used. The history cannot tell other reserved usage apart: it counts as bought too."""
    if has_bought and meter.usage.sku.model == RESERVED:
        return True
    return any(cut.price is not None and reservation_in(cut.price.id) for cut in meter.cuts)


def _planned(usage: Usage, node: Node | None, now: int, end: int) -> Usage:
    """An interval with the end that is expected of it."""
    if usage.end is not None:
        return usage
    return replace(usage, end=max(now, min(end, _ends_at(node, now, end))))


def _ends_at(node: Node | None, now: int, end: int) -> int:
    """When a node will be gone: now, where its deletion was asked for; at its TTL, or once nobody
    keeps it any more; or not before the end."""
    if node is None:
        return end
    if node.delete_requested_at is not None:
        return now
    at = goes_at(node)
    return end if at is None else at


def _scope_of(only: Only) -> str | None:
    """Under what its forecasts are recorded; None where they are not."""
    if not only:
        return ""
    values = only.get(_TEAM, ())
    return f"{_TEAM}:{values[0]}" if len(only) == 1 and len(values) == 1 else None


def _only_of(scope: str) -> Only:
    name, colon, value = scope.partition(":")
    return {name: (value,)} if colon else {}
