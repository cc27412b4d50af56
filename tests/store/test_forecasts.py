"""Forecasts as they are kept: once a day, and what they came to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.clock import DAY
from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.time_window import Window
from tests.hands import NOON

MONTH = Window(1_793_491_200, 1_796_083_200)
TODAY = NOON - 12 * 3_600
ONE = Snapshot("", MONTH, TODAY, NOON, Band(1, 2**62, 2**63 - 1), Method.WEEKDAYS)
TEAM = replace(ONE, scope="team:vision", method=Method.RUN_RATE)


@pytest.fixture
def kept(units):
    with units() as unit:
        unit.forecasts.add([TEAM, ONE, replace(ONE, day=TODAY - DAY)])
    return units


def test_what_was_forecast_comes_back_by_scope_and_day(kept):
    with kept.reading() as unit:
        assert unit.forecasts.list_by_window(MONTH) == [replace(ONE, day=TODAY - DAY), ONE, TEAM]
        assert unit.forecasts.list_by_window(MONTH, "team:vision") == [TEAM]
        assert unit.forecasts.list_by_window(Window(0, MONTH.start)) == []


def test_what_was_said_first_on_a_day_stays(kept):
    with kept() as unit:
        unit.forecasts.add([replace(ONE, band=Band(7, 7, 7)), replace(TEAM, scope="team:nlp")])
        unit.forecasts.add([])
    with kept.reading() as unit:
        assert unit.forecasts.list_by_window(MONTH, "")[-1] == ONE
        assert len(unit.forecasts.list_by_window(MONTH)) == 4


def test_a_day_is_done_once_anything_was_written_down_on_it(kept):
    with kept.reading() as unit:
        assert unit.forecasts.has_day(TODAY)
        assert not unit.forecasts.has_day(TODAY + DAY)


@pytest.mark.deep
def test_what_it_came_to_is_written_beside_the_one_that_is_judged(kept):
    for actual in (5, 6):
        with kept() as unit:
            unit.forecasts.save_actual(ONE, actual, NOON + actual)
    with kept.reading() as unit:
        before, judged = unit.forecasts.list_by_window(MONTH, "")
    assert judged == replace(ONE, actual=6, scored_at=NOON + 6)
    assert before.actual is None
