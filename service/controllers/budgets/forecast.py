"""Records once a day what the month is expected to cost, and later what it did cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from service.domain.billing_period import GRACE, period_of
from service.domain.clock import DAY, Clock, floor_to
from service.domain.costs.forecast import Snapshot, find_nearest, middle_of
from service.domain.lease import Lease
from service.domain.time_window import Window
from service.store.unit import Units


class Forecaster(Protocol):
    """Forecasts the cost of a month."""

    def make_snapshots(self, now: int) -> Sequence[Snapshot]:
        """Forecast the cost of the month as of `now`: in total, and for each team."""
        ...

    def sum_actual(self, scope: str, window: Window) -> int:
        """Nano-dollars that a period has cost, as far as is known."""
        ...


class ForecastsController:
    """The first tick of a UTC day forecasts for all projects; every later tick does nothing.

    The forecast from the middle of the last month is compared with its actual cost once that month
    is over, and again each day until the month is closed: its cost is final then.
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
            if unit.forecasts.has_day(floor_to(now, DAY)):
                return
            period = period_of(period_of(now).start - 1)
            last_month = Window(period.start, period.end)
            earlier = unit.forecasts.list_by_window(last_month)
        due: list[Snapshot] = []
        for _, of_scope in groupby(earlier, lambda snapshot: snapshot.scope):
            found = find_nearest(list(of_scope), middle_of(last_month))
            if found is None:
                continue
            # A score from before the month was closed may still change.
            if found.scored_at is None or found.scored_at < found.window.end + GRACE:
                due.append(found)
        scores = [(found, self._forecaster.sum_actual(found.scope, last_month)) for found in due]
        snapshots = self._forecaster.make_snapshots(now)
        with self._units(lease) as unit:
            for snapshot, actual in scores:
                unit.forecasts.save_actual(snapshot, actual, now)
            unit.forecasts.add(snapshots)
