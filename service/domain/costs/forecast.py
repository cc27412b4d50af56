"""Forecasts the cost of a period at its end: spent, running, and launched from now on.

`tests/forecasts` measures the accuracy, and the manual states it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import isqrt
from typing import NamedTuple

from service.domain.clock import DAY
from service.domain.costs.habits import (
    PPM,
    NodeDay,
    NodeLives,
    doubt_of_days,
    mean_and_doubt,
    usual_day,
)
from service.domain.money import half_even
from service.domain.time_window import Window

DAYS = 84
"""Days of history with a known cost: twelve of each weekday."""

NODE_DAYS = 28
"""Days of history with the cost of each node. One more day before them only tells which nodes are
older."""

ENOUGH = 7
"""Days of history that a forecast by weekday needs; with fewer, there is only a run-rate."""

_PACE, _YOUNG = 10, 3
"""Weight of the pace of the last week, in days of history: ten, and one more for every three days
by which the history is shorter than `DAYS`."""

_ABOVE, _BELOW = (9, 5), (4, 3)
"""Distance of the band's edges from its middle, as fractions (numerator, denominator) of the
standard deviation of the past. For a normal distribution 1.28 leaves one in ten outside; these
values are for labs that change (`tests/forecasts`)."""


class Method(StrEnum):
    """How the cost of future requests was estimated."""

    WEEKDAYS = "weekday_launches"
    RUN_RATE = "run_rate"


@dataclass(frozen=True, slots=True)
class Band:
    """Nano-dollars that the cost should exceed nine times, five times and once in ten."""

    low: int
    mid: int
    high: int

    def raised_by(self, nanos: int) -> Band:
        """The band, raised by so many nano-dollars."""
        return Band(self.low + nanos, self.mid + nanos, self.high + nanos)


@dataclass(frozen=True, slots=True)
class DayAhead:
    """One calendar day that is not over: its seconds, and those left within the period.

    Monday is 0.
    """

    weekday: int
    left: int
    whole: int


@dataclass(frozen=True)
class CostHistory:
    """The cost of the last days, the oldest first, without today.

    `starts` are the first instants of the days, and of today; `weekdays` are those of the days.
    `levels` has the nano-dollars of each day by kind of node. `nodes` has the cost of each node on
    the last `NODE_DAYS` days and on the day before. `today` is the nano-dollars of today so far,
    which only a run-rate uses.
    """

    starts: tuple[int, ...]
    weekdays: tuple[int, ...]
    levels: Mapping[str, tuple[int, ...]]
    nodes: tuple[NodeDay, ...] = ()
    today: int = 0

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """The cost of each day."""
        return tuple(map(sum, zip(*self.levels.values(), strict=True))) or (0,) * len(self.weekdays)

    @cached_property
    def first_day(self) -> int:
        """The number of the first day with a cost; the number of today if no day has one."""
        costs = self.costs
        return next((day for day, nanos in enumerate(costs) if nanos), len(costs))

    @property
    def days(self) -> int:
        """Full days since the first cost, `DAYS` at most."""
        return len(self.weekdays) - self.first_day


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A running node that may end before its TTL, or before the period's end if it has no TTL.

    `costs` are nano-dollars from now on if the node ends today, the next day, and so on.
    """

    node: str
    kind: str
    costs: tuple[int, ...]
    has_ttl: bool = False


@dataclass(frozen=True, slots=True)
class ForecastBasis:
    """The input of a forecast, in nano-dollars as of `now`.

    `committed` is the cost of all running nodes and open reservations until their TTL or end, or
    the period's end. `running` are the nodes that may end before, `names` are those of everything
    in `committed`. `unpriced` counts nodes without a known price, which are in no figure.
    """

    window: Window
    now: int
    spent: int
    committed: int
    unpriced: int
    history: CostHistory
    ahead: tuple[DayAhead, ...]
    running: tuple[RunningNode, ...] = ()
    names: frozenset[str] = field(default_factory=frozenset)

    @property
    def endless_cost(self) -> int:
        """The part of `committed` for nodes without a TTL."""
        return sum(node.costs[-1] for node in self.running if node.costs and not node.has_ttl)

    @property
    def certain_cost(self) -> int:
        """The part of `committed` that no node can save by ending early."""
        return self.committed - sum(node.costs[-1] for node in self.running if node.costs)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the period by its end (`total`): spent, running now, and launched from now on.

    `endless` is the part of `running` for nodes without a TTL.
    """

    basis: ForecastBasis
    method: Method
    launches: Band
    running: Band
    endless: Band
    total: Band

    @property
    def method_sentence(self) -> str:
        """The method, in a sentence."""
        if self.method is Method.WEEKDAYS:
            return (
                "Sum of the spend so far, of running nodes and of new launches. Running nodes"
                " last as long as earlier nodes of their kind. Launches follow the workdays and"
                " weekends of the last"
                f" {self.basis.history.days} days, the latest with the most weight. The band is"
                " made to contain eight months in ten."
            )
        return (
            f"Run-rate only: there are {self.basis.history.days} full days of history, and a"
            f" forecast by weekday needs {ENOUGH}. The spend of each second so far continues to"
            " the end of the period, and is at least the cost of running nodes until their TTL."
            " There is no band."
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A forecast that was recorded on a UTC day, and later the `actual` cost of its period.

    `scope` is empty for everything, else as in `team:vision`.
    """

    scope: str
    window: Window
    day: int
    made_at: int
    band: Band
    method: Method
    actual: int | None = None
    scored_at: int | None = None

    @property
    def error(self) -> int | None:
        """Nano-dollars by which the forecast was too high; negative if it was too low."""
        return None if self.actual is None else self.band.mid - self.actual

    @property
    def permille(self) -> int | None:
        """The error in thousandths of the actual cost; None if that is unknown or zero."""
        if self.actual is None or self.actual <= 0:
            return None
        return half_even(1_000 * (self.band.mid - self.actual), self.actual)


def forecast_cost(basis: ForecastBasis) -> Forecast:
    """The forecast of the cost of a period at its end. The same basis always gives the same
    forecast."""
    history = basis.history
    if history.days >= ENOUGH:
        return _forecast_by_habits(basis)
    # A node without a TTL is in the run-rate only. To charge each of them until the end of the
    # period would give ten times the real cost of a young fleet.
    sure = basis.committed - basis.endless_cost
    # Nano-dollars until the period's end, at the pace since the first day with a cost.
    run_rate = 0
    elapsed = basis.now - history.starts[history.first_day]
    if elapsed > 0:
        lately = history.today + sum(history.costs)
        run_rate = half_even(lately * max(0, basis.window.end - basis.now), elapsed)
    # Reservations are paid separately, and are not in the run-rate.
    more = max(0, run_rate - (sure - basis.certain_cost))
    bands = (Band(nanos, nanos, nanos) for nanos in (more, sure, 0, basis.spent + sure + more))
    return Forecast(basis, Method.RUN_RATE, *bands)


def find_crossing(forecast: Forecast, nanos: int) -> int | None:
    """The instant at which the middle of a forecast exceeds an amount. The rest of the cost is
    taken to come evenly until the end. None if the middle stays at or below the amount."""
    basis, mid = forecast.basis, forecast.total.mid
    if mid <= nanos:
        return None
    if basis.spent > nanos:
        return basis.now
    left = max(0, basis.window.end - basis.now)
    return basis.now + left * (nanos - basis.spent) // (mid - basis.spent)


class _Part(NamedTuple):
    """Expected nano-dollars, and the variance."""

    nanos: int
    doubt: int

    def to_band(self) -> Band:
        """The band. Twice the cost is more likely than none, so the lower edge is a quotient."""
        off, mid = isqrt(self.doubt), self.nanos
        high = mid + off * _ABOVE[0] // _ABOVE[1]
        below = off * _BELOW[0] // _BELOW[1]
        return Band(mid * mid // (mid + below) if mid else 0, mid, high)


def _forecast_by_habits(basis: ForecastBasis) -> Forecast:
    history, today = basis.history, len(basis.history.weekdays)
    lives = NodeLives(history.nodes, basis.names, max(0, today - NODE_DAYS - 1), today)
    with_ttl, endless = (_expect_running(basis, lives, has_ttl) for has_ttl in (True, False))
    days = _expect_days(basis, lives)
    running = _Part(with_ttl.nanos + endless.nanos, with_ttl.doubt + endless.doubt)
    # Three estimates of launches, in nano-dollars: what new nodes cost on such days; what such days
    # cost, less the running nodes; the pace of the last week, less the running nodes. Each is wrong
    # where the others are right: a service that ended may have a successor or not, and a young lab
    # grows every week.
    by_node = days.new.nanos
    by_day = max(0, days.whole - running.nanos)
    by_week = max(0, days.at_the_pace_of(sum(history.costs[-ENOUGH:])) - running.nanos)
    known = history.days
    pace = _PACE + (DAYS - known) // _YOUNG
    launches = half_even((by_node + by_day) * known + 2 * pace * by_week, 2 * (known + pace))
    new = _Part(launches, days.new.doubt)
    total = _Part(running.nanos + new.nanos, running.doubt + new.doubt).to_band()
    return Forecast(
        basis,
        Method.WEEKDAYS,
        new.to_band(),
        running.to_band().raised_by(basis.certain_cost),
        endless.to_band(),
        total.raised_by(basis.spent + basis.certain_cost),
    )


def _expect_running(basis: ForecastBasis, lives: NodeLives, has_ttl: bool) -> _Part:
    """The expected cost of running nodes that may end early.

    Nodes of one kind that were launched on one day end together, as the nodes of a sweep do. So
    their variance is larger than that of independent nodes.
    """
    mean, together = 0, defaultdict[tuple[str, int], int](int)
    today = len(basis.history.weekdays)
    for running in basis.running:
        if running.costs and running.has_ttl == has_ttl:
            born = lives.birth_day(running.node)
            chances = lives.survival_chances(running.kind, today - born, len(running.costs))
            nanos, doubt = mean_and_doubt(running.costs, chances)
            mean += nanos
            together[running.kind, born] += isqrt(doubt)
    return _Part(mean, sum(off * off for off in together.values()))


class _Days(NamedTuple):
    """The usual cost of the days ahead, in nano-dollars.

    `new` is launched from now on, `whole` is the cost of all nodes, and `week` is the usual cost of
    seven days.
    """

    new: _Part
    whole: int
    week: int

    def at_the_pace_of(self, week: int) -> int:
        """The cost of the days ahead if they differ from the usual cost as that week did."""
        return half_even(self.whole * week, self.week) if self.week else 0


def _expect_days(basis: ForecastBasis, lives: NodeLives) -> _Days:
    history, new, whole, week = basis.history, 0, 0, 0
    weekdays = history.weekdays[history.first_day :]
    for kind, costs in history.levels.items():
        usually = usual_day(costs[history.first_day :], weekdays)
        week += usually.week
        shares = lives.launched_shares(kind, len(basis.ahead))
        for day, share in zip(basis.ahead, shares, strict=True):
            nanos = half_even(usually.cost_on(day.weekday) * day.left, day.whole)
            whole += nanos
            new += half_even(nanos * share, PPM)
    left = sum(day.left for day in basis.ahead)
    doubt = doubt_of_days(history.costs[history.first_day :], weekdays, left, DAY)
    return _Days(_Part(new, doubt), whole, week)


def find_nearest(snapshots: Sequence[Snapshot], instant: int) -> Snapshot | None:
    """The forecast that was made closest to an instant, the earlier of two; None without any."""
    return min(
        snapshots,
        key=lambda snapshot: (abs(snapshot.made_at - instant), snapshot.made_at),
        default=None,
    )


def middle_of(window: Window) -> int:
    """The instant at which half of a period is over; the forecast of then is scored."""
    return (window.start + window.end) // 2
