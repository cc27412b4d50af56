"""Once a day the forecasts are written down, and those of last month are held against the truth."""

from __future__ import annotations

import pytest

from service.application.costs.costs import CostService
from service.application.costs.forecasts import ForecastService, month_before, month_of
from service.controllers.budgets.forecast import ForecastsController
from service.domain.billing_period import GRACE
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.errors import LeaseLost
from service.domain.lease import Lease
from service.domain.nodes.node import NodeState
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON

RATE = 9_600_000_000
"""Nano-dollars an hour of eight v5e chips."""

MONTH = month_of(NOON)


@pytest.fixture
def lease(units):
    with units() as unit:
        held = unit.leases.take(factories.PROJECT, "daemon", 3_600)
    assert held is not None
    return held


@pytest.fixture
def controller(units, clock):
    books = units, PriceBookCache(), clock
    return ForecastsController(units, ForecastService(*books, CostService(*books)), clock)


@pytest.fixture
def two_teams(units, clock):
    """Two nodes, of two teams, that run since noon and have nobody to end them."""
    with units() as unit:
        for team in ("vision", ""):
            node = factories.node(state=NodeState.READY, team=team, ready_at=NOON)
            unit.nodes.add(node)
            unit.usage.save(factories.usage(node_id=node.id))
    clock.pass_(HOUR)


def kept(units, window=MONTH):
    with units.reading() as unit:
        return unit.forecasts.list_by_window(window)


@pytest.mark.usefixtures("two_teams")
def test_everything_and_each_team_is_written_down_once_a_day(controller, lease, units, clock):
    controller.tick(lease)
    first = kept(units)
    assert [snapshot.scope for snapshot in first] == ["", "team:", "team:vision"]
    pace = RATE * (MONTH.end - NOON - HOUR) // (NOON + HOUR - floor_to(NOON, DAY))
    assert [snapshot.band.mid for snapshot in first] == [
        2 * (RATE + pace),
        RATE + pace,
        RATE + pace,
    ]
    clock.pass_(11 * HOUR - 1)
    controller.tick(lease)
    assert kept(units) == first
    clock.pass_(1)
    controller.tick(lease)
    assert len(kept(units)) == 6


@pytest.mark.usefixtures("two_teams")
def test_two_daemons_at_once_write_it_down_once(controller, lease, units, monkeypatch):
    with monkeypatch.context() as blind:
        blind.setattr("service.store.forecasts.Forecasts.has_day", lambda *_: False)
        controller.tick(lease)
        controller.tick(lease)
    assert len(kept(units)) == 3


@pytest.mark.usefixtures("two_teams")
def test_who_lost_the_lease_writes_nothing(controller, units):
    with pytest.raises(LeaseLost):
        controller.tick(Lease(factories.PROJECT, "gone", 99))
    assert kept(units) == []


def test_where_nothing_runs_that_is_written_down_too(controller, lease, units):
    controller.tick(lease)
    (one,) = kept(units)
    assert (one.scope, one.band, one.method) == ("", Band(0, 0, 0), Method.RUN_RATE)


@pytest.fixture
def half_time(units):
    """Forecasts of November: of everything on two days, of one team on one."""
    with units() as unit:
        unit.forecasts.add(
            Snapshot(scope, MONTH, day, day, Band(0, mid, mid), Method.WEEKDAYS)
            for scope, day, mid in (
                ("", MONTH.start + 3 * DAY, 1),
                ("", MONTH.start + 15 * DAY, 2),
                ("team:vision", MONTH.start + 20 * DAY, 3),
            )
        )


@pytest.mark.usefixtures("two_teams", "half_time")
def test_after_the_month_it_is_told_what_it_came_to(controller, lease, units, clock):
    clock.now = MONTH.end + 60
    controller.tick(lease)
    early, judged, team = kept(units)
    whole = RATE * ((MONTH.end - NOON) // HOUR)
    assert early.actual is None
    assert (judged.actual, judged.error, judged.scored_at) == (2 * whole, 2 - 2 * whole, clock.now)
    assert team.actual == whole
    assert month_before(month_of(clock.now)) == MONTH


@pytest.mark.usefixtures("two_teams", "half_time")
def test_it_is_judged_anew_each_day_until_the_month_is_closed(controller, lease, units, clock):
    scored = []
    for day in range(6):
        clock.now = MONTH.end + 60 + day * DAY
        controller.tick(lease)
        scored.append((kept(units)[1].scored_at - MONTH.end) // DAY)
    assert scored == [0, 1, 2, 3, 3, 3]
    assert scored[-1] * DAY + 60 >= GRACE
