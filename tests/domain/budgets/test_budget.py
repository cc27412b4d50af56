"""Budgets begin anew by the calendar, and those that make no sense are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.budgets.budget import (
    Measure,
    OnExceeded,
    Payer,
    Period,
    Scope,
    Threshold,
    calendar_period,
    check_budget,
    check_currency,
    instant_of,
)
from service.domain.clock import DAY, HOUR
from service.domain.errors import Rejected
from service.domain.time_window import Window
from tests import factories
from tests.hands import NOON

ZONES = sorted(available_timezones() - {"localtime", "Factory"})
RECURRING = [period for period in Period if period is not Period.CUSTOM]


def local(window, tz):
    zone = ZoneInfo(tz)
    return tuple(f"{datetime.fromtimestamp(t, zone):%Y-%m-%d}" for t in (window.start, window.end))


@pytest.mark.parametrize(
    ("period", "days"),
    [
        (Period.DAY, ("2026-11-05", "2026-11-06")),
        (Period.WEEK, ("2026-11-02", "2026-11-09")),
        (Period.MONTH, ("2026-11-01", "2026-12-01")),
        (Period.QUARTER, ("2026-10-01", "2027-01-01")),
        (Period.YEAR, ("2026-01-01", "2027-01-01")),
    ],
)
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
def test_a_period_is_one_of_the_calendar_of_its_zone(period, days, tz):
    assert local(calendar_period(period, ZoneInfo(tz), NOON), tz) == days


@given(
    st.sampled_from(ZONES), st.sampled_from(RECURRING), st.integers(1_000_000_000, 2_500_000_000)
)
def test_periods_follow_each_other_without_a_gap_in_every_zone(tz, period, now):
    zone = ZoneInfo(tz)
    this = calendar_period(period, zone, now)
    assert this.start <= now < this.end
    following = calendar_period(period, zone, this.end)
    assert following.start == this.end
    assert calendar_period(period, zone, this.start) == this


def test_a_day_on_which_the_clocks_change_has_23_or_25_hours():
    berlin = ZoneInfo("Europe/Berlin")
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25)):
        window = calendar_period(Period.DAY, berlin, instant_of(day, "Europe/Berlin", "start"))
        assert window.end - window.start == hours * HOUR


def test_a_budget_counts_within_its_dates_only():
    budget = factories.budget(start=NOON - DAY, end=NOON + DAY)
    assert budget.window_at(NOON) == Window(NOON - DAY, NOON + DAY)
    assert budget.window_at(NOON - DAY - 1) is None
    assert budget.window_at(NOON + DAY) is None


def test_a_custom_period_is_once():
    budget = factories.budget(period=Period.CUSTOM, end=NOON + DAY)
    assert budget.window_at(NOON) == Window(NOON, NOON + DAY)
    assert budget.window_at(NOON + DAY) is None
    assert budget.window_at(NOON - 1) is None


def test_a_scope_covers_those_of_whom_all_is_so_that_it_says():
    ada = Payer("lab", "vision", "ada", "", {"run": "17"})
    assert Scope().applies_to(ada)
    assert Scope(team="vision", owner="ada", label=("run", "17")).applies_to(ada)
    for other in (
        Scope(team="speech"),
        Scope(team="vision", owner="bob"),
        Scope(label=("run", "18")),
        Scope(label=("walk", "17")),
        Scope(job="j-1"),
        Scope(project="other"),
    ):
        assert not other.applies_to(ada)
    assert Scope(team="vision", label=("run", "17")).words == "team vision, label run=17"
    assert Scope().words == "everything"


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"amount": 0}, "amount", "more than 0"),
        ({"amount": -1}, "amount", "more than 0"),
        ({"amount": 2**63}, "amount", "more than can be stored"),
        ({"tz": "Mars/Olympus"}, "tz", "not a time zone"),
        ({"period": Period.CUSTOM}, "end", "needs an end"),
        ({"start": NOON, "end": NOON}, "end", "before it starts"),
        ({"period": Period.CUSTOM, "end": NOON - 1}, "end", "before it starts"),
        ({"thresholds": (Threshold(0),)}, "thresholds", "out of range"),
        ({"thresholds": (Threshold(1_001),)}, "thresholds", "out of range"),
        ({"thresholds": (Threshold(80), Threshold(80))}, "thresholds", "twice"),
        ({"burn_rate": 1}, "burn_rate", "between 2 and 100"),
        ({"grace_seconds": -1}, "grace_seconds", "between 0 and"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(changes, field, said):
    with pytest.raises(Rejected, match=said) as caught:
        check_budget(factories.budget(**changes))
    assert caught.value.facts["field"] == field


def test_what_makes_sense_is_not_refused():
    check_budget(factories.budget(thresholds=(Threshold(100), Threshold(100, Measure.FORECAST))))
    check_budget(replace(factories.budget(), period=Period.CUSTOM, end=NOON + 1))
    check_currency("USD")


def test_other_currencies_are_refused():
    with pytest.raises(Rejected, match="use USD"):
        check_currency("EUR")


@given(st.text(max_size=40).filter(lambda text: text != "USD"))
def test_no_other_currency_is_ever_mixed_with_dollars(text):
    with pytest.raises(Rejected, match="is not a currency of budgets; use USD"):
        check_currency(text)


def test_a_date_is_the_first_second_of_it_where_the_budget_is():
    assert instant_of("2026-11-05", "Europe/Berlin", "start") == NOON - 13 * HOUR
    assert instant_of("2026-11-05T12:00:00Z", "Europe/Berlin", "start") == NOON
    for text in ("yesterday", "2026-13-01", "2026-11-05T12:00:00"):
        with pytest.raises(Rejected, match="not a timestamp"):
            instant_of(text, "UTC", "start")


def test_only_those_that_say_no_are_caps():
    kinds = [OnExceeded.NOTIFY, OnExceeded.REFUSE, OnExceeded.DELETE]
    assert [factories.budget(on_exceeded=kind).can_refuse for kind in kinds] == [False, True, True]
