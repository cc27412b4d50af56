"""Forecasts: what is spent, what runs, and what may be launched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, floor_to
from service.domain.costs.forecast import (
    DAYS,
    NODE_DAYS,
    Band,
    CostHistory,
    DayAhead,
    ForecastBasis,
    Method,
    RunningNode,
    Snapshot,
    find_crossing,
    find_nearest,
    forecast_cost,
    middle_of,
)
from service.domain.costs.habits import NodeDay
from service.domain.money import half_even
from service.domain.time_window import Window

MONTH = Window(1_793_491_200, 1_796_083_200)
"""November 2026, which begins on a Sunday."""

DOLLAR = 1_000_000_000


def weekday(instant):
    return datetime.fromtimestamp(instant, UTC).weekday()


def history(now, costs=(), today=0):
    """The last days before today, by what each node cost on each: (number of the day, node,
    nano-dollars), where the numbers of the last 28 days are 1 to 28. All are of one kind."""
    midnight = floor_to(now, DAY)
    starts = tuple(midnight - DAY * (DAYS - number) for number in range(DAYS + 1))
    levels, nodes = [0] * DAYS, []
    for day, node, nanos in sorted(costs):
        number = day + DAYS - NODE_DAYS - 1
        levels[number] += nanos
        nodes += [NodeDay(number, node, "v5e", nanos)] if day >= 0 else []
    return CostHistory(
        starts, tuple(map(weekday, starts[:-1])), {"v5e": tuple(levels)}, tuple(nodes), today
    )


def ahead(now, end=MONTH.end):
    days = range(floor_to(now, DAY), end, DAY)
    return tuple(DayAhead(weekday(day), day + DAY - max(day, now), DAY) for day in days)


def basis(now=MONTH.start + 14 * DAY, costs=(), **changes):
    base = ForecastBasis(MONTH, now, 0, 0, 0, history(now, costs), ahead(now))
    return replace(base, **changes)


def each_day(nanos, *, first=1, only=range(7)):
    """One node a day that costs that much and is gone the same day."""
    number = DAYS - NODE_DAYS - 1
    starts = history(MONTH.start + 14 * DAY).starts
    return [
        (day, f"n-{day}", nanos)
        for day in range(first, NODE_DAYS + 1)
        if weekday(starts[day + number]) in only
    ]


def close(nanos, expected, percent):
    return abs(nanos - expected) * 100 <= percent * expected


def test_what_costs_alike_every_day_is_expected_every_day_and_leaves_no_doubt():
    found = forecast_cost(
        basis(costs=each_day(3 * DOLLAR), spent=40 * DOLLAR, committed=2 * DOLLAR)
    )
    assert found.method is Method.WEEKDAYS
    assert found.total.low == found.total.mid == found.total.high
    assert found.running == Band(2 * DOLLAR, 2 * DOLLAR, 2 * DOLLAR)
    # Node by node, half of today is missing: at which hour nodes are launched is not known. That
    # view counts as 14 days of 28, and the pace as 10 and a third of the 56 that are not known.
    missing = half_even(3 * DOLLAR // 2 * 14, 28 + 10 + 56 // 3)
    assert found.launches.mid == 48 * DOLLAR - missing
    assert found.total.mid == 90 * DOLLAR - missing


def test_workdays_and_weekends_have_habits_of_their_own():
    found = forecast_cost(basis(costs=each_day(7 * DOLLAR, only=range(5))))
    rest = [weekday(day) for day in range(found.basis.now, MONTH.end, DAY)]
    workdays = sum(day < 5 for day in rest)
    assert close(found.launches.mid, 7 * DOLLAR * workdays, 2)
    assert found.launches.low == found.launches.high


def test_of_a_day_that_is_partly_over_only_that_part_is_expected():
    last_noon = MONTH.end - DAY // 4
    past = history(last_noon, each_day(4 * DOLLAR))
    found = forecast_cost(basis(now=last_noon, history=past, ahead=ahead(last_noon)))
    assert found.launches.mid == DOLLAR - half_even(DOLLAR // 2 * 14, 28 + 10 + 56 // 3)


def test_the_newest_days_count_most():
    rising = [(day, f"n-{day}", day * DOLLAR) for day in range(1, NODE_DAYS + 1)]
    falling = [(day, f"n-{day}", (29 - day) * DOLLAR) for day in range(1, NODE_DAYS + 1)]
    up, down = (forecast_cost(basis(costs=costs)).launches.mid for costs in (rising, falling))
    assert up > 11 * 14 * DOLLAR
    assert down < 17 * 14 * DOLLAR
    assert up > 21 * down // 20


@pytest.mark.parametrize(("days", "share"), [(28, Fraction(28, 56)), (84, Fraction(10, 94))])
def test_the_pace_of_the_last_week_counts_the_more_the_shorter_the_history(days, share):
    """Each day cost a dollar; or those of the last week nothing, and then that share is missing at
    least."""
    costs = [(day, f"n-{day}", DOLLAR) for day in range(29 - days, 29)]
    quiet = [(day, node, nanos if day < 22 else 0) for day, node, nanos in costs]
    on, off = (forecast_cost(basis(costs=these)).launches.mid for these in (costs, quiet))
    assert 0 < off < on * (1 - share)


def test_what_ran_last_week_and_is_gone_comes_back_in_part_only():
    """A service of 90 dollars a day for four weeks, and nothing since a week ago."""
    costs = [(day, "service", 90 * DOLLAR) for day in range(-55, NODE_DAYS - 6)]
    gone = forecast_cost(basis(costs=costs)).total.mid
    there = forecast_cost(
        basis(costs=[(day, "service", 90 * DOLLAR) for day in range(-55, 29)])
    ).total
    assert 0 < gone < 16 * 90 * DOLLAR // 2
    assert gone < there.mid


def test_doubt_about_the_days_makes_a_band():
    costs = [(day, f"n-{day}", DOLLAR * (1 + day % 9)) for day in range(1, NODE_DAYS + 1)]
    band = forecast_cost(basis(costs=costs)).launches
    assert 0 < band.low < band.mid < band.high
    assert band.high - band.mid > band.mid - band.low


def test_more_days_ahead_leave_more_doubt():
    costs = [(day, f"n-{day}", DOLLAR * (1 + day * 7 % 9)) for day in range(1, NODE_DAYS + 1)]
    widths = []
    for days in (1, 4, 16):
        band = forecast_cost(
            basis(costs=costs, ahead=ahead(MONTH.start + 14 * DAY)[:days])
        ).launches
        widths.append(band.high - band.low)
    assert widths == sorted(widths)
    assert widths[0] < widths[2]


@pytest.mark.parametrize(
    ("first", "days", "method"),
    [
        (NODE_DAYS - 5, 6, Method.RUN_RATE),
        (NODE_DAYS - 6, 7, Method.WEEKDAYS),
        (1, 28, Method.WEEKDAYS),
        (-10, 39, Method.WEEKDAYS),
        (-55, 84, Method.WEEKDAYS),
    ],
)
def test_less_than_a_week_of_history_is_a_run_rate_and_says_so(first, days, method):
    found = forecast_cost(basis(costs=each_day(DOLLAR, first=first)))
    assert (found.basis.history.days, found.method) == (days, method)
    assert ("Run-rate only" in found.method_sentence) == (method is Method.RUN_RATE)
    assert str(days) in found.method_sentence


def test_a_run_rate_carries_on_what_was_spent_a_second():
    now = MONTH.start + 14 * DAY
    found = forecast_cost(basis(costs=each_day(DOLLAR, first=NODE_DAYS - 3), spent=4 * DOLLAR))
    assert found.basis.now == now
    assert found.total == Band(20 * DOLLAR, 20 * DOLLAR, 20 * DOLLAR)


def test_a_run_rate_is_never_less_than_what_runs_until_its_ttl():
    found = forecast_cost(basis(spent=DOLLAR, committed=100 * DOLLAR))
    assert (found.method, found.total.mid) == (Method.RUN_RATE, 101 * DOLLAR)


def test_a_run_rate_comes_on_top_of_what_was_bought_and_contains_what_runs():
    """A reservation of 500 dollars, and a node that will have cost 10 at its TTL."""
    node = {"running": running("new", 10, has_ttl=True)["running"], "names": frozenset({"new"})}
    found = forecast_cost(
        basis(costs=each_day(DOLLAR, first=NODE_DAYS - 3), committed=510 * DOLLAR, **node)
    )
    assert (found.launches.mid, found.total.mid) == (6 * DOLLAR, 516 * DOLLAR)


def test_where_nothing_ever_ran_nothing_is_expected():
    assert forecast_cost(basis()).total == Band(0, 0, 0)
    assert forecast_cost(basis(ahead=())).total == Band(0, 0, 0)


def test_the_run_rate_of_the_first_day_is_that_of_the_day():
    now = MONTH.start + DAY // 2
    only_today = history(now, (), today=DOLLAR)
    found = forecast_cost(basis(now=now, history=only_today, spent=DOLLAR, ahead=ahead(now)))
    assert found.total.mid == 60 * DOLLAR


NODES = st.lists(
    st.tuples(st.integers(0, NODE_DAYS), st.sampled_from("abcdefgh"), st.integers(0, 10**12)),
    unique_by=lambda row: row[:2],
)


@given(NODES, st.integers(0, 10**14), st.integers(0, 10**14), st.integers(0, 30 * DAY - 1))
def test_a_forecast_is_in_order_whole_and_the_same_again(costs, spent, committed, passed):
    now = MONTH.start + passed
    past = history(now, costs)
    asked = basis(now=now, spent=spent, committed=committed, history=past, ahead=ahead(now))
    found = forecast_cost(asked)
    total = found.total
    assert spent + committed <= total.low <= total.mid <= total.high
    assert total.mid == spent + found.running.mid + found.launches.mid
    assert all(isinstance(nanos, int) for nanos in (total.low, total.mid, total.high))
    shuffled = replace(asked, history=replace(past, nodes=tuple(reversed(past.nodes))))
    assert forecast_cost(shuffled).total == total


@given(NODES, st.integers(1, 1_000))
def test_in_another_currency_of_whole_units_it_is_the_same_but_for_rounding(costs, times):
    one = forecast_cost(basis(costs=costs)).total
    many = forecast_cost(
        basis(costs=[(day, node, nanos * times) for day, node, nanos in costs])
    ).total
    assert abs(many.mid - one.mid * times) <= 200 * times
    assert abs(many.high - one.high * times) <= 10_000 * times


def running(node, days, *, has_ttl=False, **changes):
    """A dollar a day, if it goes on for so many days."""
    costs = tuple(DOLLAR * (1 + day) for day in range(days))
    return {
        "running": (RunningNode(node, "v5e", costs, has_ttl),),
        "names": frozenset({node}),
        "committed": costs[-1],
        **changes,
    }


def lived(*lives, each=1):
    """Nodes that cost next to nothing: one that began on each day for each of these lives (in
    days), as far as they are over."""
    return [
        (day, f"{life}-{first}", each)
        for first in range(1, NODE_DAYS + 1)
        for life in lives
        if first + life <= NODE_DAYS + 1
        for day in range(first, first + life)
    ]


def test_a_node_is_expected_to_go_on_as_long_as_others_did_that_had_got_as_old():
    """Those of one day are gone on the next; of five days, one of three has two to go."""
    short = forecast_cost(basis(costs=lived(1), **running("new", 16))).running.mid
    longer = forecast_cost(basis(costs=lived(5), **running("new", 16))).running.mid
    assert DOLLAR <= short < 3 * DOLLAR // 2
    assert 4 * DOLLAR <= longer <= 7 * DOLLAR
    of_three = [(day, "old", 1) for day in (NODE_DAYS - 2, NODE_DAYS - 1, NODE_DAYS)]
    older = forecast_cost(basis(costs=[*lived(5), *of_three], **running("old", 16))).running.mid
    assert DOLLAR <= older < longer


def test_a_node_that_runs_for_long_is_expected_to_go_on():
    costs = [*lived(1), *((day, "old", DOLLAR) for day in range(-55, NODE_DAYS + 1))]
    found = forecast_cost(basis(costs=costs, **running("old", 16)))
    assert close(found.running.mid, 16 * DOLLAR, 12)
    assert found.running.high > found.running.mid


def test_nodes_of_another_kind_say_less_of_a_node_than_those_of_its_own():
    past = history(MONTH.start + 14 * DAY, lived(1))
    others = tuple(NodeDay(day, f"x-{node}", "v6e", nanos) for day, node, _, nanos in past.nodes)
    alike, unlike = (
        forecast_cost(basis(history=replace(past, nodes=nodes), **running("new", 16))).running.mid
        for nodes in (past.nodes, others)
    )
    assert alike < unlike


def test_a_node_with_a_ttl_may_go_before_it_and_never_after():
    often = forecast_cost(basis(costs=lived(1), **running("new", 16, has_ttl=True)))
    assert DOLLAR <= often.running.mid < 3 * DOLLAR // 2
    assert often.endless == Band(0, 0, 0)
    assert often.basis.endless_cost == 0
    assert often.running.high <= often.basis.committed


def test_nodes_of_one_day_go_together_which_leaves_more_doubt():
    def both(*nodes):
        costs = tuple(DOLLAR * (1 + day) for day in range(16))
        days = [*lived(1, 5), *((NODE_DAYS - age, node, 1) for node, age in nodes)]
        runs = tuple(RunningNode(node, "v5e", costs) for node, _ in nodes)
        whole = sum(run.costs[-1] for run in runs)
        names = frozenset(node for node, _ in nodes)
        band = forecast_cost(basis(costs=days, running=runs, names=names, committed=whole)).running
        return band.high - band.mid

    assert both(("a", 1), ("b", 1)) > both(("a", 1), ("b", 0))


def test_a_run_rate_carries_no_node_without_a_ttl_to_the_end():
    """A young fleet of them would be said to cost ten times what it comes to."""
    found = forecast_cost(basis(costs=each_day(DOLLAR, first=NODE_DAYS - 3), **running("new", 500)))
    assert found.method is Method.RUN_RATE
    assert found.basis.endless_cost == 500 * DOLLAR
    assert (found.running.mid, found.endless.mid) == (0, 0)
    assert (found.launches.mid, found.total.mid) == (16 * DOLLAR, 16 * DOLLAR)


def test_the_one_that_was_made_closest_to_half_time_is_judged():
    made = [
        Snapshot("", MONTH, day, MONTH.start + day, Band(1, 2, 3), Method.RUN_RATE)
        for day in (0, 14 * DAY, 16 * DAY, 29 * DAY)
    ]
    assert find_nearest(made, middle_of(MONTH)) == made[1]
    assert find_nearest(made[3:], middle_of(MONTH)) == made[3]
    assert find_nearest([], middle_of(MONTH)) is None


@pytest.mark.parametrize(
    ("actual", "error", "permille"),
    [(None, None, None), (0, 900, None), (1_000, -100, -100), (800, 100, 125), (900, 0, 0)],
)
def test_an_error_is_forecast_less_actual(actual, error, permille):
    band = Band(1, 900, 2_000)
    one = Snapshot("", MONTH, 0, MONTH.start, band, Method.WEEKDAYS, actual)
    assert (one.error, one.permille) == (error, permille)


def test_an_amount_is_crossed_on_the_way_from_the_spend_to_the_middle() -> None:
    middle = (MONTH.start + MONTH.end) // 2
    basis = ForecastBasis(MONTH, middle, 50 * DOLLAR, 0, 0, history(middle), ahead(middle))
    found = replace(forecast_cost(basis), total=Band(0, 150 * DOLLAR, 400 * DOLLAR))
    left = MONTH.end - middle
    assert find_crossing(found, 75 * DOLLAR) == middle + left // 4
    assert find_crossing(found, 50 * DOLLAR) == middle
    assert find_crossing(found, 10 * DOLLAR) == middle  # exceeded already
    assert find_crossing(found, 149 * DOLLAR) == middle + left * 99 // 100
    assert find_crossing(found, 150 * DOLLAR) is None
