"""Holds are what a node may still cost at worst: never too little, and no more than that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.budgets.admission import (
    OVERRUN_SECONDS,
    BudgetRoom,
    Hold,
    WorstRate,
    find_refusal,
    rate_of,
)
from service.domain.budgets.budget import HeldAmount, OnExceeded
from service.domain.clock import DAY, HOUR
from service.domain.errors import BudgetExceeded
from service.domain.metering.meter import Meter
from service.domain.money import NANOS, format_usd
from service.domain.nodes.node import Asked, Hardware, NodeState
from service.domain.time_window import Window
from tests import factories
from tests.factories import ZONE
from tests.hands import NOON

RATE = 9_600_000_000
MONTH = Window(NOON - 4 * DAY, NOON + 26 * DAY)


def hold(**changes):
    return Hold("n-1", RATE, None)._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 26 * DAY),
        ({"ttl": HOUR}, HOUR + OVERRUN_SECONDS),
        ({"ttl": 40 * DAY}, 26 * DAY),
        ({"ttl": 26 * DAY - 1}, 26 * DAY),
        ({"ttl": HOUR, "ready_at": NOON - 600, "unposted_since": NOON - 600}, HOUR + 60),
        ({"ttl": HOUR, "ready_at": NOON - 600, "unposted_since": NOON}, HOUR + 60 - 600),
        ({"ready_at": NOON - 9 * DAY, "unposted_since": NOON - 9 * DAY}, 30 * DAY),
        ({"ttl": HOUR, "ready_at": NOON - 2 * HOUR, "unposted_since": NOON - 600}, 600 + 60),
        ({"ttl": HOUR, "ready_at": NOON - HOUR - 5, "unposted_since": NOON}, OVERRUN_SECONDS),
        ({"asked": Asked.STOPPED, "state": NodeState.READY}, 26 * DAY),
        ({"asked": Asked.STOPPED, "state": NodeState.STOPPED}, 0),
        ({"asked": Asked.STOPPED, "state": NodeState.STOPPED, "unposted_since": NOON - 60}, 60),
        ({"asked": Asked.PRESENT, "state": NodeState.STOPPED}, 26 * DAY),
        ({"asked": Asked.ABSENT}, 26 * DAY),
    ],
)
def test_what_is_left_of_a_hold(changes, seconds):
    rounding = 1 if "unposted_since" in changes else 0
    assert hold(**changes).remaining_cost(MONTH, NOON) == RATE * seconds // HOUR + rounding


def test_an_unknown_price_is_never_nothing():
    assert hold(rate=None).remaining_cost(MONTH, NOON) is None
    stopped = hold(rate=None, asked=Asked.STOPPED, state=NodeState.STOPPED)
    assert stopped.remaining_cost(MONTH, NOON) == 0


def test_a_part_of_a_nano_dollar_is_held_as_a_whole_one():
    assert hold(rate=1, ttl=1).remaining_cost(MONTH, NOON) == 1
    assert hold(rate=3_600, ttl=1).remaining_cost(MONTH, NOON) == 1 + OVERRUN_SECONDS
    assert hold(rate=3_601, ttl=1).remaining_cost(MONTH, NOON) == 2 + OVERRUN_SECONDS


@given(
    start=st.integers(0, 10 * DAY),
    ran=st.integers(0, 20 * DAY),
    posted=st.integers(0, 20 * DAY),
    ttl=st.integers(1, 20 * DAY),
    nanos=st.integers(1, 1_000) | st.integers(1, 10**13),
)
def test_posted_and_held_are_never_less_than_what_is_spent_in_the_end(
    start, ran, posted, ttl, nanos
):
    """Whatever was posted so far, and whenever the node ends: within its time to live, or later by
    no more than a deletion takes."""
    start, ran = NOON + start, min(ran, ttl + OVERRUN_SECONDS)
    now = start + min(posted, ran)
    book = factories.book(factories.price(nanos=nanos))
    usage = factories.usage(start=start, end=start + ran)
    meter = Meter(usage, book, start + ran)
    done = meter.charge_in(max(start, MONTH.start), min(now, MONTH.end))
    spent = meter.charge_in(start, min(start + ran, MONTH.end))
    one = Hold("n-1", 8 * nanos, ttl, ready_at=start, unposted_since=now)
    left = one.remaining_cost(MONTH, now)
    assert left is not None
    assert done + left >= spent


def test_the_dearest_of_all_that_a_node_may_be_counts():
    book = factories.book(
        factories.price(),
        factories.price(2 * NANOS, id="far", region="us-east5"),
        factories.price(3 * NANOS, effective_from=NOON + DAY, id="rise"),
    )
    wide = factories.spec(zones=("us-west4-a", "us-east5-a"))
    assert rate_of(wide, book, NOON) == WorstRate(8 * 3 * NANOS)
    assert rate_of(wide, book, NOON + 2 * DAY) == WorstRate(8 * 3 * NANOS)
    large = Hardware("v5litepod-16", "v5e", 16, 4, "4x4", "r", stoppable=False, zones=(ZONE,))
    either = factories.spec(alternatives=(factories.spec().hardware, large))
    assert rate_of(either, book, NOON) == WorstRate(16 * 3 * NANOS)


def test_one_place_without_a_price_leaves_the_worst_case_unknown():
    spec = factories.spec(zones=("us-west4-a", "europe-west4-b"))
    assert rate_of(spec, factories.book(), NOON) == WorstRate(
        None, ("v5litepod-8 in europe-west4-b",)
    )


def room(left, **changes):
    budget = factories.budget(on_exceeded=OnExceeded.REFUSE, id="b-1", **changes)
    return BudgetRoom(budget, MONTH, 10 * NANOS, HeldAmount(budget.amount - 10 * NANOS - left))


def test_there_is_room_up_to_the_last_nano_dollar():
    asked = hold(ttl=HOUR - OVERRUN_SECONDS)
    assert find_refusal(asked, WorstRate(RATE), [room(RATE)], NOON) is None
    assert isinstance(find_refusal(asked, WorstRate(RATE), [room(RATE - 1)], NOON), BudgetExceeded)


def test_a_refusal_says_which_budget_and_what_would_fit():
    rooms = [room(RATE, name="wide"), room(RATE // 2, name="tight")]
    said = find_refusal(hold(ttl=2 * HOUR - OVERRUN_SECONDS), WorstRate(RATE), rooms, NOON)
    assert said is not None
    assert said.facts == {
        "budget": "tight",
        "budget_id": "b-1",
        "amount": "100.000000000",
        "spent": "10.000000000",
        "held": "85.200000000",
        "held_known": "85.200000000",
        "resets_at": "2026-12-01T12:00:00Z",
        "asked": format_usd(2 * RATE),
        "left": "4.800000000",
        "longest_ttl_seconds": HOUR // 2 - OVERRUN_SECONDS,
    }
    assert "at most 1740 would fit" in str(said)
    assert find_refusal(hold(ttl=1740), WorstRate(RATE), rooms, NOON) is None
    assert find_refusal(hold(ttl=1741), WorstRate(RATE), rooms, NOON) is not None


@pytest.mark.parametrize(("seconds", "longest"), [(59, 0), (60, 0), (61, 1), (3_600, 3_540)])
def test_what_would_fit_leaves_time_for_the_deletion(seconds, longest):
    """At a nano-dollar a second."""
    said = find_refusal(hold(rate=HOUR, ttl=DAY), WorstRate(HOUR), [room(seconds)], NOON)
    assert said is not None
    assert said.facts["longest_ttl_seconds"] == longest
    assert ("nothing fits" in str(said)) is not bool(longest)


def test_where_nothing_is_left_nothing_fits():
    said = find_refusal(hold(ttl=1), WorstRate(RATE), [room(-5)], NOON)
    assert said is not None
    assert said.facts["longest_ttl_seconds"] == 0
    assert "nothing fits" in str(said)


def test_what_nobody_can_tell_is_refused():
    unpriced = find_refusal(hold(rate=None), WorstRate(None, ("v9 in moon",)), [room(NANOS)], NOON)
    assert unpriced is not None
    assert unpriced.facts["unpriced"] == ["v9 in moon"]
    blind = replace(room(NANOS), held=HeldAmount(0, ("n-1",)))
    assert "one of its nodes" in str(find_refusal(hold(), WorstRate(RATE), [blind], NOON))
    assert find_refusal(hold(rate=None), WorstRate(None), [], NOON) is None
