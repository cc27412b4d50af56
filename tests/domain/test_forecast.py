"""Forecasts: what is spent, what runs, and what may be launched."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.forecast import (
    DAYS,
    Ahead,
    Band,
    Basis,
    History,
    Lasting,
    Method,
    Snapshot,
    forecast,
    middle,
    nearest,
)
from service.domain.window import Window

MONTH = Window(1_793_491_200, 1_796_083_200)
"""November 2026, which begins on a Sunday."""

DOLLAR = 1_000_000_000


def weekday(instant):
    return datetime.fromtimestamp(instant, UTC).weekday()


def history(now, costs=(), today=0):
    """The 28 days before today, and the one before them."""
    midnight = floor_to(now, DAY)
    starts = tuple(midnight - DAY * (DAYS + 1 - number) for number in range(DAYS + 2))
    return History(starts, tuple(map(weekday, starts[:-1])), tuple(costs), today)


def ahead(now, end=MONTH.end):
    days = range(floor_to(now, DAY), end, DAY)
    return tuple(Ahead(weekday(day), day + DAY - max(day, now), DAY) for day in days)


def basis(now=MONTH.start + 14 * DAY, costs=(), **changes):
    base = Basis(MONTH, now, 0, 0, 0, history(now, costs), ahead(now))
    return replace(base, **changes)


def each_day(nanos, *, first=1, only=None):
    """One node a day that costs that much and is gone the same day."""
    starts = history(MONTH.start + 14 * DAY).starts
    return [
        (number, f"n-{number}", nanos)
        for number in range(first, DAYS + 1)
        if only in {None, weekday(starts[number])}
    ]


def test_what_is_launched_alike_every_day_is_expected_every_day_and_leaves_no_doubt():
    found = forecast(basis(costs=each_day(3 * DOLLAR), spent=40 * DOLLAR, committed=2 * DOLLAR))
    assert found.method is Method.WEEKDAYS
    assert found.launches == Band(48 * DOLLAR, 48 * DOLLAR, 48 * DOLLAR)
    assert found.total == Band(90 * DOLLAR, 90 * DOLLAR, 90 * DOLLAR)


def test_each_weekday_has_its_own_habits():
    monday = forecast(basis(costs=[*each_day(7 * DOLLAR, only=0), (0, "n-old", DOLLAR)]))
    rest = [weekday(day) for day in range(monday.basis.now, MONTH.end, DAY)]
    assert monday.launches.mid == 7 * DOLLAR * rest.count(0)


def test_of_a_day_that_is_partly_over_only_that_part_is_expected():
    costs = each_day(4 * DOLLAR)
    last_noon = MONTH.end - DAY // 4
    found = forecast(
        basis(now=last_noon, history=history(last_noon, costs), ahead=ahead(last_noon))
    )
    assert found.launches.mid == DOLLAR


def test_launches_cost_on_the_days_after_as_well_but_not_after_the_end():
    """A node a day that lives for three days: the last two launches of the month do not get to."""
    costs = [
        (day, f"n-{first}", DOLLAR)
        for first in range(-2, DAYS + 1)
        for day in range(max(0, first), min(first + 3, DAYS + 1))
    ]
    found = forecast(basis(costs=costs))
    assert found.launches.mid == (14 * 3 + 2 + 1) * DOLLAR


def test_what_runs_since_before_all_history_is_no_launch():
    costs = [(day, "old", DOLLAR) for day in range(DAYS + 1)]
    assert forecast(basis(costs=costs, committed=DOLLAR)).total == Band(DOLLAR, DOLLAR, DOLLAR)


def test_doubt_about_the_habits_makes_a_band():
    costs = [(day, f"n-{day}", DOLLAR * (1 + day % 9)) for day in range(1, DAYS + 1)]
    band = forecast(basis(costs=costs)).launches
    assert band.low < band.mid < band.high
    assert band.low >= 16 * DOLLAR
    assert band.high <= 9 * 16 * DOLLAR


@pytest.mark.parametrize(
    ("first", "days", "method"),
    [
        (DAYS - 5, 6, Method.RUN_RATE),
        (DAYS - 6, 7, Method.WEEKDAYS),
        (1, 28, Method.WEEKDAYS),
        (0, 28, Method.WEEKDAYS),
    ],
)
def test_less_than_a_week_of_history_is_a_run_rate_and_says_so(first, days, method):
    found = forecast(basis(costs=each_day(DOLLAR, first=first)))
    assert (found.basis.history.days, found.method) == (days, method)
    assert ("run-rate" in found.said) == (method is Method.RUN_RATE)
    assert str(days) in found.said


def test_a_run_rate_carries_on_what_was_spent_a_second():
    now = MONTH.start + 14 * DAY
    found = forecast(basis(costs=each_day(DOLLAR, first=DAYS - 3), spent=4 * DOLLAR))
    assert found.basis.now == now
    assert found.total == Band(20 * DOLLAR, 20 * DOLLAR, 20 * DOLLAR)


def test_a_run_rate_is_never_less_than_what_runs_until_its_ttl():
    found = forecast(basis(spent=DOLLAR, committed=100 * DOLLAR))
    assert (found.method, found.total.mid) == (Method.RUN_RATE, 101 * DOLLAR)


def test_where_nothing_ever_ran_nothing_is_expected():
    assert forecast(basis()).total == Band(0, 0, 0)
    assert forecast(basis(ahead=())).total == Band(0, 0, 0)


def test_the_run_rate_of_the_first_day_is_that_of_the_day():
    now = MONTH.start + DAY // 2
    only_today = history(now, (), today=DOLLAR)
    found = forecast(basis(now=now, history=only_today, spent=DOLLAR, ahead=ahead(now)))
    assert found.total.mid == 60 * DOLLAR


NODES = st.lists(
    st.tuples(st.integers(0, DAYS), st.sampled_from("abcdefgh"), st.integers(0, 10**12)),
    unique_by=lambda row: row[:2],
)


@given(NODES, st.integers(0, 10**14), st.integers(0, 10**14), st.integers(0, 30 * DAY - 1))
def test_a_forecast_is_in_order_whole_and_the_same_again(costs, spent, committed, passed):
    now = MONTH.start + passed
    asked = basis(
        now=now,
        spent=spent,
        committed=committed,
        history=history(now, costs),
        ahead=ahead(now),
    )
    total = forecast(asked).total
    assert spent + committed <= total.low <= total.mid <= total.high
    assert all(isinstance(nanos, int) for nanos in (total.low, total.mid, total.high))
    shuffled = replace(asked, history=replace(asked.history, costs=tuple(reversed(costs))))
    assert forecast(shuffled).total == total


@given(NODES)
def test_every_launch_is_of_one_day_and_nothing_is_lost(costs):
    found = history(MONTH.start, costs)
    older = {node for day, node, _ in costs if day == 0}
    expected = sum(nanos for _, node, nanos in costs if node not in older)
    assert sum(map(sum, found.launches)) == expected


def lasting(node, days, **changes):
    """A dollar a day, if it goes on for so many days."""
    costs = tuple(DOLLAR * (1 + day) for day in range(days))
    return {
        "lasting": (Lasting(node, costs),),
        "running": frozenset({node}),
        "committed": costs[-1],
        **changes,
    }


def test_a_node_without_a_ttl_goes_on_as_long_as_those_did_that_had_got_as_old():
    """Nodes live for one day or for five: one that is new may do either, one of three days has two
    to go."""
    costs = [
        (day, f"{kind}-{first}", 0)
        for first in range(1, DAYS - 5)
        for kind, life in (("short", 1), ("long", 5))
        for day in range(first, first + life)
    ]
    new = forecast(basis(costs=costs, **lasting("new", 16)))
    assert (new.lasting.low, new.lasting.high) == (DOLLAR, 5 * DOLLAR)
    older = [*costs, *((day, "old", 0) for day in (DAYS - 2, DAYS - 1, DAYS))]
    old = forecast(basis(costs=[row for row in older if row[0] > 0], **lasting("old", 16)))
    assert old.lasting.low == 2 * DOLLAR
    assert old.total.mid == old.lasting.mid == 2 * DOLLAR


def test_a_node_that_is_older_than_all_others_goes_on_until_the_end():
    costs = [*each_day(0), *((day, "old", 0) for day in range(DAYS + 1))]
    found = forecast(basis(costs=costs, **lasting("old", 16)))
    assert found.lasting == found.total == Band(16 * DOLLAR, 16 * DOLLAR, 16 * DOLLAR)


def test_a_run_rate_carries_no_node_without_a_ttl_to_the_end():
    """A young fleet of them would be said to cost ten times what it comes to."""
    found = forecast(basis(costs=each_day(DOLLAR, first=DAYS - 3), **lasting("new", 500)))
    assert found.method is Method.RUN_RATE
    assert found.basis.endless == 500 * DOLLAR
    assert (found.launches.mid, found.lasting.mid, found.total.mid) == (
        16 * DOLLAR,
        0,
        16 * DOLLAR,
    )


@dataclass(frozen=True)
class Run:
    start: int
    end: int
    rate: int

    def cost(self, left, right):
        return self.rate * max(0, min(self.end, right) - max(self.start, left))


class Lab:
    """Two months of a lab that works on weekdays, with a TTL on every node or on none."""

    def __init__(self, seed, has_ttl):
        random = Random(seed)
        self.has_ttl = has_ttl
        habits = [random.randint(2, 8) for _ in range(5)] + [random.randint(0, 1) for _ in "ab"]
        self.runs = [
            self._run(random, day)
            for day in range(MONTH.start - 30 * DAY, MONTH.end, DAY)
            for _ in range(max(0, habits[weekday(day)] + random.randint(-1, 1)))
        ]

    def _run(self, random, day):
        start = day + random.randint(7, 18) * HOUR
        return Run(start, start + random.randint(4, 30) * HOUR, random.choice((8, 16)) * 333_333)

    def spent(self, left, right):
        return sum(run.cost(left, right) for run in self.runs)

    def basis(self, now):
        running = {
            f"n-{place}": run for place, run in enumerate(self.runs) if run.start <= now < run.end
        }
        until = MONTH.end
        forever = {} if self.has_ttl else {n: replace(r, end=until) for n, r in running.items()}
        past = history(now)
        edges = range(floor_to(now, DAY) + DAY, until + 1, DAY)
        costs: defaultdict[tuple[int, str], int] = defaultdict(int)
        for number, start in enumerate(past.starts[:-1]):
            for place, run in enumerate(self.runs):
                if cost := run.cost(start, start + DAY):
                    costs[number, f"n-{place}"] += cost
        known = tuple((number, node, cost) for (number, node), cost in costs.items())
        return basis(
            now=now,
            spent=self.spent(MONTH.start, now),
            committed=sum(run.cost(now, until) for run in (running | forever).values()),
            lasting=tuple(
                Lasting(name, tuple(run.cost(now, day) for day in edges))
                for name, run in forever.items()
            ),
            running=frozenset(running),
            history=replace(past, costs=known),
            ahead=ahead(now),
        )


MOMENTS = [MONTH.start + day * DAY + hour * HOUR for day in (3, 8, 13, 18, 24) for hour in (6, 15)]


def linear(lab, now):
    return lab.spent(MONTH.start, now) * (MONTH.end - MONTH.start) // (now - MONTH.start)


@pytest.mark.parametrize(("has_ttl", "part"), [(True, 50), (False, 60)])
def test_in_labs_with_habits_it_is_wrong_by_far_less_than_a_straight_line(has_ttl, part):
    ours = theirs = within = 0
    seeds = range(8)
    for seed in seeds:
        lab = Lab(seed, has_ttl)
        actual = lab.spent(MONTH.start, MONTH.end)
        for now in MOMENTS:
            band = forecast(lab.basis(now)).total
            ours += abs(band.mid - actual)
            theirs += abs(linear(lab, now) - actual)
            within += band.low <= actual <= band.high
    assert 100 * ours < part * theirs, (ours, theirs)
    assert within * 2 > len(seeds) * len(MOMENTS), within


def test_the_one_that_was_made_closest_to_half_time_is_judged():
    made = [
        Snapshot("", MONTH, day, MONTH.start + day, Band(1, 2, 3), Method.RUN_RATE)
        for day in (0, 14 * DAY, 16 * DAY, 29 * DAY)
    ]
    assert nearest(made, middle(MONTH)) == made[1]
    assert nearest(made[3:], middle(MONTH)) == made[3]
    assert nearest([], middle(MONTH)) is None


@pytest.mark.parametrize(
    ("actual", "error", "permille"),
    [(None, None, None), (0, 900, None), (1_000, -100, -100), (800, 100, 125), (900, 0, 0)],
)
def test_an_error_is_forecast_less_actual(actual, error, permille):
    band = Band(1, 900, 2_000)
    one = Snapshot("", MONTH, 0, MONTH.start, band, Method.WEEKDAYS, actual)
    assert (one.error, one.permille) == (error, permille)
