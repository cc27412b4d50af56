"""The phases of an attempt divide its cost, and never change the sum."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.jobs.job import Attempt, Phase, Reason
from service.domain.jobs.phases import (
    charged_to,
    list_claims,
    list_periods,
    lost_seconds,
    price_phases,
    seconds_without_charge,
    unpriced_seconds,
)
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter
from tests import factories
from tests.hands import NOON

INSTANT = st.none() | st.integers(NOON - 2_000, NOON + 9_000)


def attempt(number, node_id, claimed_at, **changes):
    base = Attempt(f"j-{number}", "j", number, "lab", node_id, claimed_at, phase=Phase.ENDED)
    return replace(base, **changes)


def report(**times):
    return SupervisorReport(seq=1, attempt="j-1", state=WorkerState.EXITED, **times)


@given(
    st.lists(st.tuples(*[INSTANT] * 6), min_size=1, max_size=4),
    st.sampled_from([Reason.COMPLETED, Reason.PREEMPTED, Reason.PROGRAM_FAILED]),
    st.integers(0, 3_000),
    st.booleans(),
)
def test_the_phases_of_all_attempts_come_to_what_is_charged_to_the_job(
    times, reason, claimed, saves
):
    names = ["pull_started_at", "pulled_at", "started_at", "ended_at", "checkpoint_at"]
    names += ["caught_up_at"]
    reports = {
        str(number): report(**dict(zip(names, one, strict=True)))
        for number, one in enumerate(times)
    }
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + 7_777, end_lo=NOON + 7_777)
    whose = [
        Attribution(usage.node_id),
        Attribution(usage.node_id, NOON + claimed, job="j"),
        Attribution(usage.node_id, NOON + 5_000),
    ]
    meter = Meter(usage, factories.book(factories.price()), NOON + 9_000, whose)
    first = attempt(
        1, usage.node_id, NOON + claimed, released_at=NOON + 3_500, reports=reports, reason=reason
    )
    second = attempt(2, usage.node_id, NOON + 3_500, released_at=NOON + 5_000)
    found = [
        amount
        for claim in list_claims([first, second], usage.node_id, own_node=False)
        for amount in price_phases(claim, [meter], "j", saves=saves)
    ]
    assert sum(phase.cost for phase in found) == charged_to(meter, "j")
    assert sum(phase.seconds for phase in found) == 5_000 - claimed


def test_no_second_is_in_two_phases():
    times = {"pull_started_at": NOON + 5, "pulled_at": NOON + 9, "started_at": NOON + 20}
    one = attempt(1, "n", NOON, reports={"0": report(**times, ended_at=NOON + 90)})
    (claim,) = list_claims([one], "n", own_node=False)
    found = list_periods(claim)
    assert [part.spent.value for part in found] == [
        "boot",
        "pull",
        "init",
        "running",
        "unattributed",
    ]
    assert all(left.end == right.start for left, right in pairwise(found))


def test_seconds_that_two_slices_use_are_no_wait_twice():
    one = factories.usage(start=NOON + 10, start_hi=NOON + 10, end=NOON + 50, end_lo=NOON + 50)
    other = replace(one, start=NOON + 30, start_hi=NOON + 30, end=NOON + 70, end_lo=NOON + 70)
    short = replace(other, start=NOON + 35, start_hi=NOON + 35, end=NOON + 40, end_lo=NOON + 40)
    whose = [Attribution(one.node_id, job="j")]
    meters = [
        Meter(usage, factories.book(factories.price()), NOON + 900, whose)
        for usage in (other, short, one)
    ]
    assert seconds_without_charge(meters, "j", NOON, NOON + 100) == 10 + 30
    assert seconds_without_charge(meters, "another", NOON, NOON + 100) == 100
    assert seconds_without_charge([], "j", NOON, NOON) == 0


def test_only_the_seconds_of_the_job_count_as_unpriced():
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + 50, end_lo=NOON + 50)
    whose = [Attribution(usage.node_id), Attribution(usage.node_id, NOON + 20, job="j")]
    other = factories.book(factories.price(generation="v4"))
    assert unpriced_seconds(Meter(usage, other, NOON + 90, whose), "j") == 30
    priced = Meter(usage, factories.book(factories.price()), NOON + 90, whose)
    assert unpriced_seconds(priced, "j") == 0


STARTED = {"pull_started_at": NOON, "pulled_at": NOON, "started_at": NOON + 10}


def lost(attempt_of=None, saves=False, **report_changes):
    """The seconds [start, end) of an attempt of 100 s by kind, and what it lost."""
    changes = {"reason": Reason.PREEMPTED, **(attempt_of or {})}
    one = attempt(1, "n", NOON, reports={"0": report(**STARTED, **report_changes)}, **changes)
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + 110, end_lo=NOON + 110)
    meter = Meter(
        usage,
        factories.book(factories.price()),
        NOON + 900,
        [Attribution(usage.node_id, job="j")],
    )
    (claim,) = list_claims([one], "n", own_node=True)
    found = price_phases(claim, [meter], "j", saves=saves)
    seconds = {amount.spent.value: amount.seconds for amount in found if amount.spent != "init"}
    return seconds, lost_seconds(one, found, saves=saves)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, ({"running": 100}, None)),
        ({"devices": 8}, ({"running": 100}, None)),
        ({"saves": True}, ({"lost": 100}, 100)),
        ({"step": 1, "step_at": NOON + 20}, ({"lost": 100}, 100)),
        (
            {"checkpoint": 1, "checkpoint_at": NOON + 50},
            ({"running": 40, "lost": 60}, 60),
        ),
        ({"attempt_of": {"reason": Reason.COMPLETED}}, ({"running": 100}, 0)),
        ({"attempt_of": {"phase": Phase.RUNNING}, "saves": True}, ({"running": 100}, 0)),
        (
            {"step_at": NOON + 70, "caught_up_at": NOON + 40, "checkpoint_at": NOON + 60},
            ({"recovery": 30, "running": 20, "lost": 50}, 50),
        ),
        (
            {"step_at": NOON + 70, "caught_up_at": NOON + 40, "checkpoint_at": NOON + 30},
            ({"recovery": 20, "lost": 80}, 80),
        ),
        ({"step_at": NOON + 40, "caught_up_at": NOON + 40}, ({"lost": 100}, 100)),
    ],
)
def test_what_an_attempt_lost_follows_from_what_its_program_reported(case, expected):
    assert lost(**case) == expected
