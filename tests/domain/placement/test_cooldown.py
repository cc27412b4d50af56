"""The back-off: what to leave alone for a while, learned from what became of the last attempts."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.nodes.placement import HardwareKey, Outcome, Placement
from service.domain.placement.cooldown import (
    DENIED_SECONDS,
    PROBE_SECONDS,
    QUOTA_SECONDS,
    SHORTAGE_DELAYS,
    TROUBLE_DELAYS,
    Cooldown,
    cooldowns_with_quota,
    find_cooldowns,
)
from tests.hands import NOON

HERE = HardwareKey("us-west4-a", "v5litepod-8", "v5e", "spot")
NEXT_DOOR = replace(HERE, zone="us-west4-b")
ELSEWHERE = replace(HERE, zone="us-east5-a")
LARGER = replace(HERE, accelerator_type="v5litepod-16")
OTHER_GENERATION = replace(HERE, accelerator_type="v6e-8", generation="v6e")
ON_DEMAND = replace(HERE, model="on_demand")
LEGACY = replace(HERE, model="preemptible")
ALL = (HERE, NEXT_DOOR, ELSEWHERE, LARGER, OTHER_GENERATION, ON_DEMAND, LEGACY)

_numbers = count(1)


def tried(began, outcome=Outcome.OPEN, ended=None, key=HERE, **changes):
    """An attempt that began so many seconds after noon, and how it ended."""
    number = next(_numbers)
    base = Placement(
        node_id=f"n-{number}",
        attempt=1,
        zone=key.zone,
        model=key.model,
        cloud_id=f"c-{number}",
        started_at=NOON + began,
        outcome=outcome,
        ended_at=None if ended is None else NOON + ended,
        accelerator_type=key.accelerator_type,
        generation=key.generation,
    )
    return replace(base, **changes)


def ran_out(began, ended, key=HERE):
    return tried(began, Outcome.STOCK_OUT, ended, key)


def up(began, ready, key=HERE):
    return tried(began, Outcome.READY, key=key, ready_at=NOON + ready)


def lost(began, ready, ended, key=HERE):
    ready_at = None if ready is None else NOON + ready
    return tried(began, Outcome.PREEMPTED, ended, key, ready_at=ready_at)


def until(history, now, key=HERE, of=""):
    """Until how many seconds after noon a node leaves it alone; None when it does not."""
    rest = find_cooldowns([key], history, NOON + now, of).get(key)
    return None if rest is None else rest.until - NOON


def in_a_row(times):
    """That many stock-outs, each attempt as early as the back-off allows."""
    history, now = [], 0
    for _ in range(times):
        history.append(ran_out(now, now + 10))
        now = until(history, now + 10)
    return history


def test_what_was_never_tried_is_free():
    assert find_cooldowns(ALL, [], NOON) == {}


@pytest.mark.parametrize(("times", "delay"), [*enumerate(SHORTAGE_DELAYS, 1), (6, 1_800)])
def test_what_runs_out_again_and_again_is_left_alone_ever_longer(times, delay):
    history = in_a_row(times)
    ended = history[-1].ended_at - NOON
    assert until(history, ended) == ended + delay
    assert until(history, ended + delay - 1) == ended + delay
    assert until(history, ended + delay) is None


def test_a_stock_out_says_nothing_of_other_zones_types_and_models():
    assert set(find_cooldowns(ALL, [ran_out(0, 10)], NOON + 10)) == {HERE}


def test_attempts_that_were_under_way_at_once_say_it_once():
    crowd = [ran_out(began, 30 + began) for began in range(20)]
    at_once = [ran_out(0, 0) for _ in range(20)]
    assert until(crowd, 49) == 49 + SHORTAGE_DELAYS[0]
    assert until(at_once, 0) == SHORTAGE_DELAYS[0]


def test_a_ready_in_between_begins_the_count_anew():
    history = [*in_a_row(4), up(3_000, 3_100)]
    assert until(history, 3_100) is None
    again = [*history, ran_out(3_200, 3_210)]
    assert until(again, 3_210) == 3_210 + SHORTAGE_DELAYS[0]


def test_a_ready_that_died_at_once_is_one_more_failure_and_makes_nothing_good():
    history = [ran_out(0, 10), lost(70, 100, 399)]
    assert until(history, 399, of=history[-1].node_id) == 399 + SHORTAGE_DELAYS[1]
    lived = [ran_out(0, 10), lost(70, 100, 400)]
    assert until(lived, 400, of=lived[-1].node_id) is None


def test_a_node_that_was_lost_before_it_came_up_is_a_failure_too():
    history = [lost(0, None, 30)]
    assert until(history, 30, of=history[0].node_id) == 30 + SHORTAGE_DELAYS[0]


def test_nodes_that_were_taken_back_together_cool_down_and_go_together():
    crowd = [lost(began, began + 30, 200) for began in range(10)]
    for attempt in crowd:
        assert until(crowd, 200, of=attempt.node_id) == 200 + SHORTAGE_DELAYS[0]
    first = tried(260)
    for attempt in crowd:
        assert until([*crowd, first], 260, of=attempt.node_id) is None, "none waits for a probe"


def test_what_was_taken_back_from_one_node_is_tried_by_one_other_at_once():
    history = [lost(0, 30, 200)]
    assert until(history, 200) is None, "it asks first"
    probing = [*history, tried(205)]
    assert until(probing, 206, of="third") == 200 + SHORTAGE_DELAYS[0], "and waits no longer"
    (rest,) = find_cooldowns([HERE], probing, NOON + 206, "third").values()
    assert rest.probing
    assert rest.outcome is Outcome.PREEMPTED
    came_up = [*history, up(205, 230)]
    assert until(came_up, 230, of="third") is None
    assert until(came_up, 230, of=history[0].node_id) is None, "which frees the node itself too"


def test_what_was_taken_back_from_others_keeps_none_away_from_another_zone():
    """Ten nodes that may be in two zones: those of one go to the other at once, one first."""
    here = [lost(0, 30, 200) for _ in range(5)]
    there = [lost(0, 30, 200, NEXT_DOOR) for _ in range(5)]
    crowd = [*here, *there]
    assert until(crowd, 200, NEXT_DOOR, of=here[0].node_id) is None
    moved = [*crowd, replace(up(200, 225, NEXT_DOOR), node_id=here[0].node_id, attempt=2)]
    for attempt in here[1:]:
        assert until(moved, 225, NEXT_DOOR, of=attempt.node_id) is None
        assert until(moved, 225, HERE, of=attempt.node_id) == 260


def test_a_stock_out_keeps_away_those_too_whose_own_time_is_over():
    died = lost(0, 30, 200)
    assert until([died, ran_out(205, 215)], 270, of=died.node_id) == 215 + SHORTAGE_DELAYS[1]


def test_a_deletion_that_was_asked_for_is_no_failure():
    gone = tried(0, Outcome.DELETED, 120, ready_at=NOON + 100)
    assert until([gone], 120) is None
    assert until([ran_out(0, 10), gone], 30 + 10) is None, "and it had come up"


def test_failures_fade():
    times = 5
    history = in_a_row(times)
    last = history[-1].ended_at - NOON
    assert until([*history, ran_out(last + 21_000, last + 21_010)], last + 21_010) is not None
    alone = [*history, ran_out(last + 21_700, last + 21_710)]
    assert until(alone, last + 21_710) == last + 21_710 + SHORTAGE_DELAYS[0]
    deaths = [lost(0, 10, 20), lost(1_900, 1_910, 1_920)]
    delay, last = SHORTAGE_DELAYS[0], deaths[1].node_id
    assert until(deaths, 1_920, of=last) == 1_920 + delay, "deaths within half an hour"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NAME_TAKEN])
def test_errors_that_nobody_understands_are_waited_out_mildly(outcome):
    history, now = [], 0
    for delay in (*TROUBLE_DELAYS, TROUBLE_DELAYS[-1]):
        history.append(tried(now, outcome, now + 5))
        assert until(history, now + 5) == now + 5 + delay
        now += 5 + delay


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.VANISHED, Outcome.DELETED])
def test_what_concerns_one_node_only_keeps_no_other_away(outcome):
    assert until([tried(0, outcome, 5)], 5) is None


@pytest.mark.parametrize(
    ("scope", "blocked"),
    [
        ("", {HERE, LARGER}),
        ("us-west4-a", {HERE, LARGER}),
        ("us-west4", {HERE, LARGER, NEXT_DOOR}),
    ],
)
def test_a_quota_is_that_of_a_generation_and_model_in_the_place_that_was_named(scope, blocked):
    refused = tried(0, Outcome.QUOTA, 1, scope=scope)
    assert set(find_cooldowns(ALL, [refused], NOON + 1)) == blocked
    assert until([refused], 1) == 1 + QUOTA_SECONDS


def test_a_denial_is_that_of_a_zone_and_model():
    denied = tried(0, Outcome.DENIED, 1)
    found = find_cooldowns(ALL, [denied], NOON + 1)
    assert set(found) == {HERE, LARGER, OTHER_GENERATION}
    assert found[HERE] == Cooldown(NOON + 1 + DENIED_SECONDS, NOON + 1, HERE.zone, Outcome.DENIED)


def test_a_refusal_stands_no_longer_once_a_later_attempt_has_come_up():
    refused = tried(0, Outcome.QUOTA, 1, scope="us-west4")
    assert until([refused, up(-60, 50)], 60) == 1 + QUOTA_SECONDS, "it began before"
    assert until([refused, up(2, 50, NEXT_DOOR)], 60) is None


def test_one_node_probes_when_the_time_is_over_and_the_others_wait_for_it():
    history = [ran_out(0, 10)]
    assert until(history, 70) is None
    history.append(tried(70))
    (rest,) = find_cooldowns([HERE], history, NOON + 75).values()
    assert rest == Cooldown(
        NOON + 70 + PROBE_SECONDS, NOON + 10, HERE.zone, Outcome.STOCK_OUT, probing=True
    )
    assert until(history, 129) == 130
    assert until(history, 130) is None, "undecided for long enough: the next one may try"


def test_a_probe_that_fails_makes_all_wait_longer_and_one_that_comes_up_sets_them_free():
    failed = [ran_out(0, 10), ran_out(70, 90)]
    assert until(failed, 90) == 90 + SHORTAGE_DELAYS[1]
    assert until([ran_out(0, 10), up(70, 95)], 95) is None


def test_a_probe_for_a_quota_may_be_anywhere_that_the_quota_holds():
    refused = tried(0, Outcome.QUOTA, 1, scope="us-west4")
    probe = tried(301, key=NEXT_DOOR)
    assert until([refused, probe], 310) == 361
    assert until([refused, replace(probe, zone="us-east5-a")], 310) is None


def test_an_attempt_that_was_under_way_before_is_no_probe():
    assert until([ran_out(0, 10), tried(5)], 70) is None


def test_the_longest_of_several_reasons_counts():
    history = [ran_out(0, 10), tried(0, Outcome.DENIED, 10), tried(0, Outcome.QUOTA, 10)]
    assert until(history, 10) == 10 + DENIED_SECONDS


@pytest.mark.parametrize(("barred_until", "longest"), [(60, 70), (70, 70), (80, 80)])
def test_of_a_failure_and_a_small_quota_the_one_counts_that_ends_later(barred_until, longest):
    barred = Cooldown(NOON + barred_until, NOON, HERE.zone, Outcome.QUOTA)
    found = cooldowns_with_quota([HERE, ELSEWHERE], [ran_out(0, 10)], NOON + 10, {HERE: barred})
    assert {key: rest.until for key, rest in found.items()} == {HERE: NOON + longest}


def test_a_clock_that_is_ahead_makes_nobody_wait_longer():
    assert until([ran_out(0, 5_000)], 0) == SHORTAGE_DELAYS[0]
    assert until([tried(0, Outcome.DENIED, 5_000)], 0) == DENIED_SECONDS


# ---- whatever happens

LONGEST = max(*SHORTAGE_DELAYS, DENIED_SECONDS, QUOTA_SECONDS)


@st.composite
def attempts(draw):
    began = draw(st.integers(-30_000, 100))
    outcome = draw(st.sampled_from(list(Outcome)))
    lasted = draw(st.integers(0, 3_000))
    came_up = outcome is Outcome.READY or (
        outcome in {Outcome.PREEMPTED, Outcome.DELETED} and draw(st.booleans())
    )
    open_still = outcome in {Outcome.OPEN, Outcome.READY}
    return tried(
        began,
        outcome,
        None if open_still else began + lasted,
        draw(st.sampled_from(ALL)),
        ready_at=NOON + began + lasted // 2 if came_up else None,
        scope=draw(st.sampled_from(["", "us-west4"])) if outcome is Outcome.QUOTA else "",
    )


HISTORIES = st.lists(attempts(), max_size=30)


@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_in_which_the_past_is_told_does_not_matter(history, luck: Random):
    told = find_cooldowns(ALL, history, NOON)
    assert find_cooldowns(ALL, history, NOON) == told
    luck.shuffle(history)
    assert find_cooldowns(ALL, history, NOON) == told


@given(HISTORIES)
def test_nobody_waits_longer_than_the_longest_delay(history):
    of = history[0].node_id if history else ""
    for rest in find_cooldowns(ALL, history, NOON, of).values():
        assert NOON < rest.until <= NOON + LONGEST
        assert rest.since <= NOON


@given(HISTORIES)
def test_a_ready_now_sets_free_what_had_run_out(history):
    hardware = [
        attempt
        for attempt in history
        if attempt.outcome not in {Outcome.QUOTA, Outcome.DENIED, Outcome.OPEN}
    ]
    assert HERE not in find_cooldowns([HERE], [*hardware, up(0, 200)], NOON + 200)


@given(HISTORIES)
def test_once_the_time_is_over_it_is_tried_again(history):
    """Nothing is given up: without new attempts everything is free within the longest delay."""
    done = [attempt for attempt in history if attempt.outcome is not Outcome.OPEN]
    assert find_cooldowns(ALL, done, NOON + LONGEST + 3_100) == {}
