"""Writes down once a day what the month is expected to cost, and later what it came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

from service.domain.billing_period import GRACE, period_of
from service.domain.clock import DAY, Clock, floor_to
from service.domain.costs.forecast import Snapshot, middle, nearest
from service.domain.lease import Lease
from service.domain.time_window import Window
from service.store.unit import Units


class Forecaster(Protocol):
    """Whoever forecasts."""

    def snapshots(self, now: int) -> Sequence[Snapshot]:
        """What the month is expected to cost, seen from `now`: everything, and each team."""
        ...

    def actual(self, scope: str, window: Window) -> int:
        """Nano-dollars that a period came to, as far as is known."""
        ...


class ForecastsController:
    """The first tick of a UTC day does it for all projects; every other one finds it done.

    What was forecast at half time of the last month is held against what that came to as soon as it
    is over, and again each day until it is closed, when nothing becomes known any more.
    """

    name = "forecasts"

    def __init__(self, units: Units, forecaster: Forecaster, clock: Clock) -> None:
        self._units = units
        self._forecaster = forecaster
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Forecast and score, unless that was done today."""
        now = self._clock()
        with self._units.reading() as unit:
            if unit.forecasts.taken(floor_to(now, DAY)):
                return
            last = _month_before(now)
            said = unit.forecasts.of(last)
        due = [one for one in _at_half_time(said, last) if _is_open(one)]
        scores = [(one, self._forecaster.actual(one.scope, last)) for one in due]
        snapshots = self._forecaster.snapshots(now)
        with self._units(lease) as unit:
            for one, actual in scores:
                unit.forecasts.score(one, actual, now)
            unit.forecasts.add(snapshots)


def _month_before(now: int) -> Window:
    last = period_of(period_of(now).start - 1)
    return Window(last.start, last.end)


def _at_half_time(said: Sequence[Snapshot], window: Window) -> Iterator[Snapshot]:
    """Of each scope what was said closest to the middle of the period."""
    for _, some in groupby(said, lambda one: one.scope):
        found = nearest(list(some), middle(window))
        if found is not None:
            yield found


def _is_open(one: Snapshot) -> bool:
    """Whether what it came to was last looked at while it could still change."""
    return one.scored_at is None or one.scored_at < one.window.end + GRACE
