"""As of when the forecasts of small and of large fleets are."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Engine

from service.application.answers import NEXT, Answers, LatestAnswers
from service.application.costs import forecasts
from service.application.costs.costs import CostService
from service.application.costs.forecasts import LARGE_STEP, ForecastService
from service.domain.clock import HOUR, MINUTE
from service.domain.nodes.node import NodeState
from service.settings import Settings
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from service.wiring import Foundation, build_services
from tests import factories
from tests.hands import NOON, HandClock


def start_node(units: Units) -> None:
    with units() as unit:
        node = factories.node(state=NodeState.READY, ready_at=NOON)
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id, start=NOON))


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == NEXT:
            thread.join()


@pytest.fixture
def service(units: Units, clock: HandClock) -> ForecastService:
    start_node(units)
    clock.pass_(HOUR + 8 * MINUTE + 30)
    books = units, PriceBookCache(), clock
    return ForecastService(*books, CostService(*books))


def test_the_forecast_of_a_small_fleet_follows_each_change_at_once(
    service: ForecastService, units: Units
) -> None:
    before = service.forecast_period({})
    assert before.basis.now == NOON + HOUR + 8 * MINUTE
    start_node(units)
    assert service.forecast_period({}).total.mid > before.total.mid


def test_the_forecast_of_a_large_fleet_is_as_of_the_last_full_five_minutes(
    service: ForecastService, units: Units, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "LARGE_FLEET", 1)
    before = service.forecast_period({})
    assert before.basis.now == NOON + HOUR + 5 * MINUTE
    start_node(units)
    clock.pass_(89)
    assert service.forecast_period({}) is before
    clock.pass_(1)
    after = service.forecast_period({})
    assert after.basis.now == NOON + HOUR + 10 * MINUTE
    assert after.total.mid > before.total.mid


def test_a_caller_is_shown_the_forecast_before_while_a_thread_makes_the_next_one(
    service: ForecastService, units: Units, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "LARGE_FLEET", 1)
    books = units, PriceBookCache(), clock
    latest = LatestAnswers(Answers(4), LARGE_STEP)
    shown = ForecastService(*books, CostService(*books), latest)
    before = shown.forecast_period({})
    start_node(units)
    clock.pass_(LARGE_STEP)
    assert shown.forecast_period({}) is before
    wait_for_threads()
    assert shown.forecast_period({}) == service.forecast_period({})
    assert shown.forecast_period({}).basis.now == before.basis.now + LARGE_STEP
    clock.pass_(2 * LARGE_STEP)
    assert shown.forecast_period({}).basis.now == before.basis.now + 3 * LARGE_STEP, "too old"
    assert shown.forecast_period({"team": ["nobody"]}).total.mid == 0


def test_the_api_and_the_dashboard_show_the_forecast_before(
    engine: Engine, units: Units, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "LARGE_FLEET", 1)
    settings = Settings(projects=("lab",), _env_file=None)  # type: ignore[call-arg]
    start_node(units)
    services = build_services(Foundation(settings, engine, units, PriceBookCache(), clock))
    before = services.forecasts.forecast_period({})
    clock.pass_(LARGE_STEP)
    assert services.forecasts.forecast_period({}) is before
    wait_for_threads()
    assert services.forecasts.forecast_period({}).basis.now == before.basis.now + LARGE_STEP
