"""What a day usually costs, and how long nodes live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY
from service.domain.costs.habits import (
    OLDER,
    PPM,
    NodeDay,
    NodeLives,
    UsualDay,
    doubt_of_days,
    mean_and_doubt,
    usual_day,
)

WEEKDAYS = [day % 7 for day in range(84)]


def week_after_week(workday, weekend):
    return [weekend if day >= 5 else workday for day in WEEKDAYS]


def noise(day):
    """Between -30 and 30, without a pattern that a week would show."""
    return day * 37 % 61 - 30


def test_workdays_and_weekends_are_told_apart():
    assert usual_day(week_after_week(500, 20), WEEKDAYS) == UsualDay(500, 20)
    assert UsualDay(500, 20).week == 2_540


def test_a_weekday_that_was_never_seen_costs_what_the_others_do():
    assert usual_day([70, 70], [0, 1]) == UsualDay(70, 70)
    assert usual_day([], []) == UsualDay(0, 0)


def test_a_rush_of_a_week_does_not_make_a_month():
    calm = [1_000 + 10 * noise(day) for day in range(84)]
    rush = [*calm[:77], *(3 * nanos for nanos in calm[77:])]
    before, after = (usual_day(costs, WEEKDAYS).week for costs in (calm, rush))
    pace = sum(rush[77:])
    assert before < after < (before + pace) / 2


def test_a_lab_that_has_doubled_is_seen_after_two_weeks():
    costs = [(2_000 if day >= 70 else 1_000) + noise(day) for day in range(84)]
    mean = 7 * sum(costs) // 84
    assert usual_day(costs, WEEKDAYS).week > (mean + 14_000) / 2


def test_what_differs_by_chance_only_is_the_mean_of_all():
    costs = [1_000 + noise(day) for day in range(84)]
    assert abs(usual_day(costs, WEEKDAYS).week - 7_000) < 70


def test_days_that_are_off_together_leave_more_doubt_than_days_that_are_off_alone():
    alone = [1_000 + 100 * (-1) ** day for day in range(84)]
    together = [1_000 + 100 * (-1) ** (day // 10) for day in range(84)]
    one, other = (doubt_of_days(costs, WEEKDAYS, 10 * DAY, DAY) for costs in (alone, together))
    assert 3 * one < other


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=84), st.integers(0, 30 * DAY))
def test_doubt_is_never_negative_and_that_of_no_time_is_none(costs, seconds):
    weekdays = WEEKDAYS[-len(costs) :]
    assert doubt_of_days(costs, weekdays, seconds, DAY) >= 0
    assert doubt_of_days(costs, weekdays, 0, DAY) == 0
    assert doubt_of_days([], [], seconds, DAY) == 0


def days_of(node, first, last, kind="v5e"):
    return [NodeDay(day, node, kind, 100) for day in range(first, last + 1)]


def test_where_nothing_is_known_a_node_goes_the_less_the_older_it_is():
    lives = NodeLives([], (), 0, 29)
    new, old = lives.survival_chances("v5e", 0, 2), lives.survival_chances("v5e", 20, 2)
    assert new == (PPM, 800_000)
    assert old[1] > 980_000


def test_the_chances_of_a_node_are_those_of_its_kind():
    short = [usage for day in range(1, 28) for usage in days_of(f"s-{day}", day, day, "short")]
    long = [usage for day in range(1, 4) for usage in days_of(f"l-{day}", day, 28, "long")]
    lives = NodeLives([*short, *long], {"l-1", "l-2", "l-3"}, 0, 29)
    assert lives.survival_chances("short", 0, 2)[1] < 200_000
    assert lives.survival_chances("long", 10, 2)[1] > 900_000


def test_a_node_that_ran_on_the_first_day_that_is_known_is_taken_to_be_older():
    lives = NodeLives(days_of("old", 0, 28), {"old"}, 0, 29)
    assert (lives.birth_day("old"), lives.birth_day("never seen")) == (-OLDER, 29)


def test_launches_are_the_share_of_nodes_that_are_younger_than_the_days_ahead():
    """Nodes of two days, one a day: half of each day's cost is of nodes that are new."""
    rows = [usage for day in range(1, 28) for usage in days_of(f"n-{day}", day, day + 1)]
    shares = NodeLives(rows, (), 0, 29).launched_shares("v5e", 4)
    assert shares == sorted(shares)
    assert 240_000 < shares[0] < 270_000
    assert shares[2:] == [PPM, PPM]
    assert NodeLives(rows, (), 0, 29).launched_shares("v6e", 2) == [0, 0]


@pytest.mark.parametrize(
    ("chances", "mean", "doubt"),
    [((PPM, PPM, PPM), 30, 0), ((PPM, 0, 0), 10, 0), ((PPM, 500_000, 500_000), 20, 100)],
)
def test_a_node_costs_what_it_does_on_the_days_on_which_it_is_there(chances, mean, doubt):
    assert mean_and_doubt((10, 20, 30), chances) == (mean, doubt)
