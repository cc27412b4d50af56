"""Forecasts of what a period will cost at its end, and how accurate earlier forecasts were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple
from zoneinfo import ZoneInfo

from service.application.answers import Answers, LatestAnswers
from service.application.costs.aggregation import CostRow
from service.application.costs.costs import CostQuestion, CostService
from service.application.costs.running import BilledLines, RunningMeters, read_running
from service.domain.budgets.budget import Period, calendar_period
from service.domain.clock import DAY, MINUTE, Clock, floor_to, to_rfc3339
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
    find_nearest,
    forecast_cost,
    middle_of,
)
from service.domain.costs.habits import NodeDay
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.nodes.keep import goes_at
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import RESERVED, PriceBook, reservation_in
from service.domain.time_window import Granularity, Window, midnight_of, split_into_buckets, zone_of
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

Only = Mapping[str, Sequence[str]]
"""The values that count by dimension, as costs are filtered."""

LARGE_FLEET = 500
"""From so many open intervals of usage on, a forecast is as of the last full five minutes, whatever
changes meanwhile: it would take seconds for each change, and one node is a small part of it."""

LARGE_STEP = 5 * MINUTE
"""The step of the instants that forecasts of a large fleet are as of."""

KEPT_FORECASTS = 128
_KEPT_HISTORIES = 64
_KEPT_PARTS = 12
_TEAM = "team"
_KIND = ("team", "accelerator_type", "provisioning_model")
"""Nodes of one kind are alike, so that the lifetime of one predicts that of another."""


@dataclass(frozen=True, slots=True)
class ForecastOutlook:
    """A forecast, and the forecast of the previous month at half time, once that month is over.
    `last` is None if nothing was expected then, as before the first charge."""

    forecast: Forecast
    last: Snapshot | None


@dataclass(slots=True)
class _Running:
    """What running nodes will cost from now on."""

    committed: int = 0
    nodes: dict[str, RunningNode] = field(default_factory=dict)
    unpriced: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


class _At(NamedTuple):
    """Everything that a forecast depends on: the revisions of books and nodes (0 for those of a
    large fleet), prices, and the instant."""

    books: int
    nodes: int
    book: PriceBook
    now: int


class _Open(NamedTuple):
    """Open usage, its payers, the nodes by id, and whether a reservation is recorded."""

    usages: Sequence[Usage]
    whose: Mapping[str, tuple[Attribution, ...]]
    nodes: Mapping[str, Node]
    bought: bool


@dataclass(frozen=True, slots=True)
class _Planned:
    """The meters of what runs up to the expected ends, the nodes by id, and whether a reservation
    is recorded."""

    meters: RunningMeters
    nodes: Mapping[str, Node]
    bought: bool


class _Days(NamedTuple):
    """A time zone, the filter of the costs, and the instant of the report."""

    zone: ZoneInfo
    only: Only
    now: int


class ForecastService:
    """Combines costs, nodes and prices into forecasts."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        costs: CostService,
        latest: LatestAnswers | None = None,
    ) -> None:
        """With `latest`, a forecast of a large fleet is returned at once if it is a little old, and
        a thread makes the next one."""
        self._latest = latest
        self._units = units
        self._prices = prices
        self._clock = clock
        self._costs = costs
        self._forecasts = Answers(KEPT_FORECASTS)
        self._histories = Answers(_KEPT_HISTORIES)
        self._parts = Answers(_KEPT_PARTS)

    def total_band(
        self, only: Only, period: Period = Period.MONTH, tz: str = "UTC"
    ) -> tuple[int, int, int]:
        """(low, mid, high) nano-dollars for the whole of the current period."""
        total = self.forecast_period(only, period, tz).total
        return total.low, total.mid, total.high

    def forecast_period(
        self, only: Only, period: Period = Period.MONTH, tz: str = "UTC"
    ) -> Forecast:
        """The forecast for the current period of a zone's calendar, as of the last full minute."""
        return self.forecast_window(only, calendar_period(period, zone_of(tz), self._clock()), tz)

    def read_outlook(self, only: Only, period: Period, tz: str) -> ForecastOutlook:
        """The forecast, with the previous month's forecast of everything or of one team."""
        found = self.forecast_period(only, period, tz)
        teams = only.get(_TEAM, ())
        if only and (
            len(only) != 1 or len(teams) != 1
        ):  # forecasts of such scopes are not recorded
            return ForecastOutlook(found, None)
        scope = f"{_TEAM}:{teams[0]}" if only else ""
        last = month_before(month_of(found.basis.now))
        with self._units.reading() as unit:
            said = unit.forecasts.list_by_window(last, scope)
        scored = [snapshot for snapshot in said if snapshot.actual is not None]
        nearest = find_nearest(scored, middle_of(last))
        if nearest is not None and not nearest.band.mid:  # nothing had been charged yet
            nearest = None
        return ForecastOutlook(found, nearest)

    def forecast_window(self, only: Only, window: Window, tz: str = "UTC") -> Forecast:
        """The forecast for any window that is not over, by the days of a time zone. It is as of the
        last full minute, and computed once a minute unless the books or the nodes change. See also
        LARGE_FLEET."""
        zone, instant = zone_of(tz), self._clock()
        with self._units.reading() as unit:
            is_large = unit.usage.count_open() >= LARGE_FLEET
            step = LARGE_STEP if is_large else MINUTE
            revision, book = unit.revisions.read_current(), self._prices.get_book(unit)
            now = max(floor_to(instant, step), min(instant, window.start))
            at = _At(*((0, 0) if is_large else (revision.books, revision.nodes)), book, now)
            if not is_large or self._latest is None:
                return self._find_forecast(unit, only, window, zone, at)

        def make() -> Forecast:
            with self._units.reading() as unit:
                return self._find_forecast(unit, only, window, zone, at)

        question = window, zone.key, _only_key(only)
        return self._latest.get_or_make(question, at, now, make)

    def _find_forecast(
        self, unit: Unit, only: Only, window: Window, zone: ZoneInfo, at: _At
    ) -> Forecast:
        key = at, window, zone.key, _only_key(only)
        return self._forecasts.get_or_make(
            key, lambda: self._build_forecast(unit, only, window, zone, at)
        )

    def _build_forecast(
        self, unit: Unit, only: Only, window: Window, zone: ZoneInfo, at: _At
    ) -> Forecast:
        spent = self._costs.report_in(unit, _spent_in(window, only), at.now)
        ahead = _list_days_ahead(at.now, window.end, zone)
        running = self._sum_running(unit, only, window.end, ahead, at)
        return forecast_cost(
            ForecastBasis(
                window=window,
                now=at.now,
                spent=spent.total,
                committed=running.committed,
                unpriced=len(running.unpriced),
                history=self._get_history(unit, only, zone, at),
                ahead=ahead,
                running=tuple(running.nodes.values()),
                names=frozenset(running.names),
            )
        )

    def make_snapshots(self, now: int) -> list[Snapshot]:
        """The forecasts of this month to record: of everything, and of each team."""
        window = month_of(now)
        first = min(window.start, floor_to(now, DAY) - DAYS * DAY)
        since = f"{to_rfc3339(first)},{to_rfc3339(now + 1)}"
        report = self._costs.report(CostQuestion(since, (_TEAM,), Granularity.ALL))
        teams = [f"{_TEAM}:{row.group[0]}" for row in report.rows]
        found = []
        for scope in ("", *teams):
            seen = self.forecast_window(_only_of(scope), window)
            day = floor_to(now, DAY)
            found.append(Snapshot(scope, window, day, now, seen.total, seen.method))
        return found

    def sum_actual(self, scope: str, window: Window) -> int:
        """Nano-dollars that a period cost, as far as is known."""
        return self._costs.report(_spent_in(window, _only_of(scope))).total

    def _sum_running(
        self, unit: Unit, only: Only, end: int, ahead: Sequence[DayAhead], at: _At
    ) -> _Running:
        found = _Running()
        planned = self._parts.get_or_make((at, end), lambda: self._plan_usages(unit, end, at))
        now, edges = at.now, [at.now + left for left in accumulate(day.left for day in ahead)]
        for meter in planned.meters.find_matching(only):
            node_id, until = meter.usage.node_id, max(now, meter.end)
            whose = planned.meters.lines.whose.get(node_id, (Attribution(node_id),))
            latest = whose[-1]
            if not all(value_of(name, meter.usage, latest) in some for name, some in only.items()):
                continue  # the current payer does not match
            found.committed += meter.figures_in(now, until).cost
            found.names.add(node_id)
            node = planned.nodes.get(node_id)
            if (
                node is not None
                and until > now
                and not _is_bought(meter, has_bought=planned.bought)
            ):
                costs = tuple(meter.charge_in(now, edge) for edge in edges)
                kind = _kind_of(value_of(name, meter.usage, latest) for name in _KIND)
                before = found.nodes.get(node_id)
                if before is not None:  # another interval of the same node
                    costs = tuple(map(sum, zip(costs, before.costs, strict=True)))
                has_end = node.deletes_at is not None
                found.nodes[node_id] = RunningNode(node_id, kind, costs, has_end)
            if meter.figures_in(now, until).unpriced_seconds:
                found.unpriced.add(node_id)
        return found

    def _plan_usages(self, unit: Unit, end: int, at: _At) -> _Planned:
        """Open usage, each with its expected end, for all scopes."""
        running = self._parts.get_or_make(("open", at), lambda: _read_open(unit, at.now))
        planned = []
        for usage in running.usages:
            node, gone_at = running.nodes.get(usage.node_id), None
            # Now, if the deletion was requested; at the time to live, or once the node is not kept
            # any more; or not before the end.
            if node is not None:
                gone_at = at.now if node.delete_requested_at is not None else goes_at(node)
            until = max(at.now, min(end, end if gone_at is None else gone_at))
            planned.append(replace(usage, end=until) if usage.end is None else usage)
        metered = RunningMeters(BilledLines(planned, running.whose), at.book, end)
        return _Planned(metered, running.nodes, running.bought)

    def _get_history(self, unit: Unit, only: Only, zone: ZoneInfo, at: _At) -> CostHistory:
        """Costs by day and node. The full days are read once until the books change, because that
        is the largest query; today is read only if there are too few full days."""
        today = midnight_of(_date_of(at.now, zone), zone)
        books = unit.revisions.read_current().books
        key = books, at.book, zone.key, today, _only_key(only)
        history = self._histories.get_or_make(
            key, lambda: self._read_history(unit, only, zone, today, at.now)
        )
        if history.days >= ENOUGH or at.now <= today:
            return history
        so_far = Window(today, at.now)
        rows = self._read_costs_by_kind(
            unit, so_far, (), Granularity.ALL, _Days(zone, only, at.now)
        )
        return replace(history, today=sum(row.cost for row in rows))

    def _read_history(
        self, unit: Unit, only: Only, zone: ZoneInfo, today: int, now: int
    ) -> CostHistory:
        first = midnight_of(_date_of(today, zone) - timedelta(days=DAYS), zone)
        starts = [
            part.start for part in split_into_buckets(Window(first, today), Granularity.DAY, zone)
        ]
        number = {start: place for place, start in enumerate(starts)}
        by_day = Granularity.DAY, _Days(zone, only, now)
        levels: dict[str, list[int]] = defaultdict(lambda: [0] * len(starts))
        for row in self._read_costs_by_kind(unit, Window(first, today), (), *by_day):
            levels[_kind_of(row.group)][number[row.bucket.start]] += row.cost
        of_nodes = Window(starts[-NODE_DAYS - 1], today)
        return CostHistory(
            starts=(*starts, today),
            weekdays=tuple(_date_of(start, zone).weekday() for start in starts),
            levels={kind: tuple(costs) for kind, costs in sorted(levels.items())},
            nodes=tuple(
                NodeDay(number[row.bucket.start], row.group[0], _kind_of(row.group[1:]), row.cost)
                for row in self._read_costs_by_kind(unit, of_nodes, ("node",), *by_day)
            ),
        )

    def _read_costs_by_kind(
        self, unit: Unit, window: Window, by: tuple[str, ...], step: Granularity, days: _Days
    ) -> list[CostRow]:
        """Costs, with the kind as the last dimension. Reserved usage is left out if reservations
        are recorded: they are paid until their end, whether or not nodes run in them."""
        asked = f"{to_rfc3339(window.start)},{to_rfc3339(window.end)}"
        question = CostQuestion(asked, (*by, *_KIND), step, days.zone.key, days.only)
        rows = self._costs.report_in(unit, question, days.now).rows
        left_out = RESERVED if unit.reservations.list_standing() else None
        return [row for row in rows if row.group[-1] != left_out]


def _only_key(only: Only) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((name, *values) for name, values in only.items()))


def month_of(instant: int) -> Window:
    """The UTC month that an instant lies in."""
    return calendar_period(Period.MONTH, zone_of("UTC"), instant)


def month_before(window: Window) -> Window:
    """The month that ends where another begins."""
    return month_of(window.start - 1)


def _list_days_ahead(now: int, end: int, zone: ZoneInfo) -> tuple[DayAhead, ...]:
    """The days from now until the end, the first and the last perhaps in part."""
    if now >= end:
        return ()
    first = midnight_of(_date_of(now, zone), zone)
    last = midnight_of(_date_of(end - 1, zone) + timedelta(days=1), zone)
    return tuple(
        DayAhead(_date_of(day.start, zone).weekday(), left, day.end - day.start)
        for day in split_into_buckets(Window(first, last), Granularity.DAY, zone)
        if (left := min(day.end, end) - max(day.start, now)) > 0
    )


def _date_of(instant: int, zone: ZoneInfo) -> date:
    return datetime.fromtimestamp(instant, zone).date()


def _spent_in(window: Window, only: Only) -> CostQuestion:
    said = f"{to_rfc3339(window.start)},{to_rfc3339(window.end)}"
    return CostQuestion(said, step=Granularity.ALL, only=only)


def _kind_of(values: Iterable[str]) -> str:
    return "/".join(values)


def _is_bought(meter: Meter, *, has_bought: bool) -> bool:
    """Whether a meter takes from what was bought: an earlier end only moves the cost from the node
    to the unused part. The history cannot tell other reserved usage apart, so it counts as bought
    too."""
    if has_bought and meter.usage.sku.model == RESERVED:
        return True
    return any(cut.price is not None and reservation_in(cut.price.id) for cut in meter.cuts)


def _read_open(unit: Unit, now: int) -> _Open:
    """What runs now; the same for every scope and window."""
    usages = [usage for usage in read_running(unit, now) if usage.is_open(now)]
    nodes = unit.nodes.find_many({usage.node_id for usage in usages})
    bought = bool(unit.reservations.list_standing())
    return _Open(usages, unit.attributions.list_running(), nodes, bought)


def _only_of(scope: str) -> Only:
    name, colon, value = scope.partition(":")
    return {name: (value,)} if colon else {}
