"""What a period will have cost at its end: what is spent, what runs, and what will be launched.

How well it does that is measured in `tests/forecasts`, and told in the manual.
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
    usual,
)
from service.domain.money import half_even
from service.domain.time_window import Window

DAYS = 84
"""Days of which it is known what they cost: twelve of each weekday."""

NODE_DAYS = 28
"""Days of which it is known what each node cost, and of one more day before, which only tells
which nodes are older than all others."""

ENOUGH = 7
"""Days of history below which no weekday is known, and there is only a run-rate."""

_PACE, _YOUNG = 10, 3
"""As how many days of history the pace of the last week counts, beside the two other views: ten,
and one more for every three days by which the history is shorter than `DAYS`."""

_ABOVE, _BELOW = (9, 5), (4, 3)
"""How far the band goes from its middle, in parts of what the past gives reason to doubt. One in
ten is beyond 1.28 where all doubt is known; these are for labs that change (`tests/forecasts`)."""


class Method(StrEnum):
    """How the cost of future requests was estimated."""

    WEEKDAYS = "weekday_launches"
    RUN_RATE = "run_rate"


@dataclass(frozen=True, slots=True)
class Band:
    """Nano-dollars that are meant to be exceeded nine times, five times and once in ten."""

    low: int
    mid: int
    high: int

    def over(self, nanos: int) -> Band:
        """The same, so much higher."""
        return Band(self.low + nanos, self.mid + nanos, self.high + nanos)


@dataclass(frozen=True, slots=True)
class DayAhead:
    """One calendar day that is not over, and how many of its seconds are left within the period.
    Monday is 0."""

    weekday: int
    left: int
    whole: int


@dataclass(frozen=True)
class CostHistory:
    """What the last days cost, the oldest first, today left out.

    `starts` are the first instants of the days, and of today; `weekdays` are those of the days.
    `levels` says for each kind of node what all of it cost on each day, in nano-dollars; `nodes`
    says what each node cost on the last `NODE_DAYS` days and on the one before. `today` are the
    nano-dollars of today so far, which only a run-rate asks for.
    """

    starts: tuple[int, ...]
    weekdays: tuple[int, ...]
    levels: Mapping[str, tuple[int, ...]]
    nodes: tuple[NodeDay, ...] = ()
    today: int = 0

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """What each day cost."""
        return tuple(map(sum, zip(*self.levels.values(), strict=True))) or (0,) * len(self.weekdays)

    @cached_property
    def first(self) -> int:
        """The number of the first day on which anything cost, or else that of today."""
        costs = self.costs
        return next((day for day, nanos in enumerate(costs) if nanos), len(costs))

    @property
    def days(self) -> int:
        """Full days since the first cost, as far as they are looked at."""
        return len(self.weekdays) - self.first


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that runs and may go before its TTL, or before the period's end where it has none:
    nano-dollars from now on, if it goes at the end of today, of the next day, and so on."""

    node: str
    kind: str
    costs: tuple[int, ...]
    has_ttl: bool = False


@dataclass(frozen=True, slots=True)
class ForecastBasis:
    """What a forecast stands on, in nano-dollars as of `now`.

    `committed` is what all that runs will cost until its TTL or the period's end; `running` are the
    nodes of it that may go before, `names` those of all. `unpriced` nodes run at a price that
    nobody knows, and are in no figure.
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
    def endless(self) -> int:
        """The part of what is committed that is of nodes without a TTL."""
        return sum(one.costs[-1] for one in self.running if one.costs and not one.has_ttl)

    @property
    def certain(self) -> int:
        """The part of what is committed that no node can save by going before."""
        return self.committed - sum(one.costs[-1] for one in self.running if one.costs)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the period will have cost by its end (`total`): what is spent, what runs now (`running`;
    the nodes of it without a TTL are `endless`), and what is launched from now on."""

    basis: ForecastBasis
    method: Method
    launches: Band
    running: Band
    endless: Band
    total: Band

    @property
    def said(self) -> str:
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
    """A forecast as it was recorded on a UTC day: whose (`scope`: empty for everything, or as in
    `team:vision`), of which period, and after that what it came to (`actual`)."""

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
        """Nano-dollars by which it was too high; below zero where it was too low."""
        return None if self.actual is None else self.band.mid - self.actual

    @property
    def permille(self) -> int | None:
        """The error in thousandths of what it came to; None where that was nothing."""
        if self.actual is None or self.actual <= 0:
            return None
        return half_even(1_000 * (self.band.mid - self.actual), self.actual)


def forecast(basis: ForecastBasis) -> Forecast:
    """What the period will have cost. The same basis always gives the same answer."""
    if basis.history.days >= ENOUGH:
        return _by_habits(basis)
    # A node without a TTL is in the run-rate, as it was so far: to carry each of them on to the end
    # of the period would say ten times what a young fleet comes to.
    sure = basis.committed - basis.endless
    # What was bought is paid for beside it, and is not in it.
    more = max(0, _run_rate(basis) - (sure - basis.certain))
    bands = (Band(nanos, nanos, nanos) for nanos in (more, sure, 0, basis.spent + sure + more))
    return Forecast(basis, Method.RUN_RATE, *bands)


def _run_rate(basis: ForecastBasis) -> int:
    """Nano-dollars until the period's end, at the pace since the first day on which anything
    cost."""
    history = basis.history
    elapsed = basis.now - history.starts[history.first]
    if elapsed <= 0:
        return 0
    lately = history.today + sum(history.costs)
    return half_even(lately * max(0, basis.window.end - basis.now), elapsed)


class _Part(NamedTuple):
    """Nano-dollars that are expected, and the square of by how much that may be wrong."""

    nanos: int
    doubt: int

    def band(self) -> Band:
        """It may be twice as much sooner than nothing at all, so it goes down by a share."""
        off, mid = isqrt(self.doubt), self.nanos
        high = mid + off * _ABOVE[0] // _ABOVE[1]
        below = off * _BELOW[0] // _BELOW[1]
        return Band(mid * mid // (mid + below) if mid else 0, mid, high)


def _by_habits(basis: ForecastBasis) -> Forecast:
    history, today = basis.history, len(basis.history.weekdays)
    lives = NodeLives(history.nodes, basis.names, max(0, today - NODE_DAYS - 1), today)
    with_ttl, endless = (_running(basis, lives, has_ttl) for has_ttl in (True, False))
    days = _days(basis, lives)
    running = _Part(with_ttl.nanos + endless.nanos, with_ttl.doubt + endless.doubt)
    views = (
        days.new.nanos,
        max(0, days.whole - running.nanos),
        max(0, days.at_the_pace_of(sum(history.costs[-ENOUGH:])) - running.nanos),
    )
    new = _Part(_launches(views, history.days), days.new.doubt)
    total = _Part(running.nanos + new.nanos, running.doubt + new.doubt).band()
    return Forecast(
        basis,
        Method.WEEKDAYS,
        new.band(),
        running.band().over(basis.certain),
        endless.band(),
        total.over(basis.spent + basis.certain),
    )


def _launches(views: tuple[int, int, int], days: int) -> int:
    """One figure of three views of launches, in nano-dollars, where so many days are known.

    Node by node: what new nodes cost on such days. Day by day: what such days cost, less what runs.
    At the pace of the last week, less what runs. Each is wrong where the others are not: a service
    that ended is followed by another, or it is not; a young lab grows by the week.
    """
    by_node, by_day, by_week = views
    pace = _PACE + (DAYS - days) // _YOUNG
    return half_even((by_node + by_day) * days + 2 * pace * by_week, 2 * (days + pace))


def _running(basis: ForecastBasis, lives: NodeLives, has_ttl: bool) -> _Part:
    """What runs and may go. Nodes of one kind that were launched on one day go together, as those
    of a sweep do: that leaves more doubt than if each went for itself."""
    mean, together = 0, defaultdict[tuple[str, int], int](int)
    today = len(basis.history.weekdays)
    for one in basis.running:
        if one.costs and one.has_ttl == has_ttl:
            born = lives.born(one.node)
            chances = lives.lasts(one.kind, today - born, len(one.costs))
            nanos, doubt = mean_and_doubt(one.costs, chances)
            mean += nanos
            together[one.kind, born] += isqrt(doubt)
    return _Part(mean, sum(off * off for off in together.values()))


class _Days(NamedTuple):
    """What the days ahead usually cost, in nano-dollars: `new` is what is launched from now on,
    `whole` is all of it, and `week` is what seven days usually cost."""

    new: _Part
    whole: int
    week: int

    def at_the_pace_of(self, week: int) -> int:
        """What all of them cost if they differ from what is usual as that week did."""
        return half_even(self.whole * week, self.week) if self.week else 0


def _days(basis: ForecastBasis, lives: NodeLives) -> _Days:
    history, new, whole, week = basis.history, 0, 0, 0
    weekdays = history.weekdays[history.first :]
    for kind, costs in history.levels.items():
        usually = usual(costs[history.first :], weekdays)
        week += usually.week
        shares = lives.new_by(kind, len(basis.ahead))
        for day, share in zip(basis.ahead, shares, strict=True):
            nanos = half_even(usually.on(day.weekday) * day.left, day.whole)
            whole += nanos
            new += half_even(nanos * share, PPM)
    left = sum(day.left for day in basis.ahead)
    doubt = doubt_of_days(history.costs[history.first :], weekdays, left, DAY)
    return _Days(_Part(new, doubt), whole, week)


def nearest(snapshots: Sequence[Snapshot], instant: int) -> Snapshot | None:
    """The one that was made closest to an instant, the earlier of two."""
    return min(snapshots, key=lambda one: (abs(one.made_at - instant), one.made_at), default=None)


def middle(window: Window) -> int:
    """The instant at which half of a period is over: whoever forecasts is judged by then."""
    return (window.start + window.end) // 2
