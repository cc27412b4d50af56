"""Tests of the course of a node from work to its deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.idle.assess import IdleSubject, IdleTimes, assess_node
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import (
    BLIND_SECONDS,
    IdleCourse,
    Notice,
    State,
    advance_course,
    due_at,
    idle_at,
)
from service.domain.idle.policy import SHIPPED, Action, AppliedRule, Rule, Waste, with_waste
from service.domain.idle.proof import Blocker, IdleVerdict, MetricFamily, Signals
from service.domain.idle.signals.signal import COUNTED, MONITORED, Kind, Level, SignalTrack
from service.domain.nodes.keep import Keep
from tests import factories

T, DELAY, AFTER, GRACE = 1_000_000, 240, 3_600, 900
START = IdleCourse("n", 1, State.ACTIVE, T - 100)
ACTIVE = IdleVerdict(Level.ACTIVE, "works")
UNKNOWN = IdleVerdict(Level.UNKNOWN, "CPU of worker 0 has stopped")


def quiet(since, **changes):
    base = IdleVerdict(Level.QUIET, "quiet", since=since, proved_since=since, coverage=100)
    return replace(base, **changes)


IDLE = quiet(T - DELAY - AFTER)


def policy(action=Action.DELETE, also=()):
    rule = Rule(AFTER, GRACE, action, frozenset(also))
    return AppliedRule(rule, "default", 1, action, (), SHIPPED.recipients, "")


def move(course, verdict, at=T, applied=None, *, is_warm=True, is_kept=False):
    return advance_course(
        course, verdict, applied or policy(), at, DELAY, is_warm=is_warm, is_kept=is_kept
    )


def notified(at=T, **changes):
    return replace(move(START, quiet(at - DELAY - AFTER), at).course, **changes)


def test_an_idle_node_is_told_of_first_and_due_after_its_grace():
    first = move(START, IDLE)
    assert (first.course.state, first.tell, first.is_due) == (State.NOTIFIED, Notice.IDLE, False)
    early = move(first.course, IDLE, T + GRACE - 1)
    assert (early.tell, early.is_due) == (None, False)
    assert move(early.course, IDLE, T + GRACE).is_due
    assert due_at(first.course, policy()) == T + GRACE


@pytest.mark.parametrize(("short", "state"), [(0, State.NOTIFIED), (1, State.QUIET)])
def test_a_node_has_to_be_idle_for_the_whole_time(short, state):
    assert move(START, quiet(T - DELAY - AFTER + short)).course.state is state


@pytest.mark.parametrize("short", [0, 1, 700])
def test_a_quiet_node_is_idle_at_the_announced_time_and_not_before(short):
    """`short` is what its rest lacks at T. The newest seconds do not count at any time."""
    rest = quiet(T - DELAY - AFTER + short, until=T - DELAY)
    at = idle_at(replace(START, state=State.QUIET), rest, policy(), T)
    assert at is not None
    assert at == T + short
    for early, state in ((1, State.QUIET), (0, State.NOTIFIED)):
        then = replace(rest, until=at - early - DELAY)
        assert move(START, then, at - early).course.state is state


@pytest.mark.parametrize(
    ("course", "verdict"),
    [
        (notified(), quiet(T, until=T)),
        (START, quiet(T, until=T)),
        (replace(START, state=State.QUIET), None),
        (replace(START, state=State.QUIET), quiet(T)),
        (replace(START, state=State.QUIET), replace(quiet(None), until=T)),
        (
            replace(START, state=State.QUIET),
            quiet(T, until=T, blockers=(Blocker.HOST_BUSY,)),
        ),
    ],
)
def test_no_time_is_announced_for_a_node_that_is_not_at_rest_or_is_blocked(course, verdict):
    assert idle_at(course, verdict, policy(), T) is None


def test_a_busy_host_does_not_delay_the_time_of_a_crash_loop():
    loop = quiet(T - 60, until=T, blockers=(Blocker.HOST_BUSY,), waste=Waste.CRASH_LOOP)
    at_rest = replace(START, state=State.QUIET)
    assert idle_at(at_rest, loop, policy(), T) == T - 60 + AFTER


def test_work_and_warming_up_reset_the_course():
    assert move(notified(), ACTIVE).course == IdleCourse("n", 1, State.ACTIVE, T)
    assert move(START, IDLE, is_warm=False).course.state is State.WARMING
    assert move(START, ACTIVE, is_warm=False).course.state is State.ACTIVE
    again = move(move(notified(), ACTIVE, T + 5).course, quiet(T), T + GRACE)
    assert (again.course.state, again.is_due) == (State.QUIET, False)


def test_a_rest_that_began_after_the_notice_is_told_of_anew():
    """Nobody looked while the node worked once more: its people were told of another rest."""
    before, later = notified(), T + 3 * AFTER
    again = move(before, quiet(T + AFTER), later)
    assert (again.tell, again.is_due) == (Notice.IDLE, False)
    assert (again.course.notified_at, again.course.since) == (later, later)
    assert not move(again.course, quiet(T + AFTER), later + GRACE - 1).is_due
    assert move(again.course, quiet(T + AFTER), later + GRACE).is_due


def test_an_end_that_a_policy_took_back_is_announced_anew():
    softened = move(notified(), IDLE, T + 60, policy(Action.NOTIFY))
    assert (softened.tell, due_at(softened.course, policy(Action.NOTIFY))) == (None, None)
    again = move(softened.course, IDLE, T + 10 * GRACE)
    assert (again.tell, again.is_due) == (Notice.IDLE, False)
    assert due_at(again.course, policy()) == T + 11 * GRACE


@pytest.mark.parametrize("waste", list(Waste))
def test_waste_that_the_policy_does_not_mean_has_no_end_and_what_follows_it_is_announced(waste):
    wasted = move(START, replace(IDLE, waste=waste))
    assert wasted.tell is Notice.IDLE
    assert due_at(wasted.course, with_waste(policy(), waste)) is None
    after = move(wasted.course, IDLE, T + 10 * GRACE)
    assert (after.tell, after.is_due) == (Notice.IDLE, False)
    assert due_at(after.course, policy()) == T + 11 * GRACE


def test_an_idle_node_of_which_nobody_can_be_told_has_no_end():
    untold = advance_course(START, IDLE, policy(), T, DELAY, is_warm=True, is_told=False)
    assert untold.course.state is State.NOTIFIED
    assert due_at(untold.course, policy()) is None


def test_the_state_began_when_it_began():
    first = move(START, quiet(T), T + 10).course
    assert (first.state, first.since) == (State.QUIET, T + 10)
    assert move(first, quiet(T), T + 70).course.since == T + 10


def test_unknown_freezes_the_grace_and_resets_nothing():
    frozen = move(notified(), UNKNOWN, T + 100)
    assert (frozen.course.state, frozen.is_due) == (State.UNKNOWN, False)
    assert not move(frozen.course, UNKNOWN, T + 10 * GRACE).is_due
    back = move(frozen.course, IDLE, T + 600)
    assert (back.course.state, back.tell) == (State.NOTIFIED, None)
    assert due_at(back.course, policy()) == T + GRACE + 500
    assert not move(back.course, IDLE, T + GRACE + 499).is_due
    assert move(back.course, IDLE, T + GRACE + 500).is_due


def test_each_time_that_a_node_is_unknown_lengthens_the_grace():
    course = notified()
    for start in (T + 100, T + 400):
        frozen = move(course, UNKNOWN, start).course
        course = move(frozen, IDLE, start + 200).course
    assert due_at(course, policy()) == T + GRACE + 2 * 200
    assert not move(course, IDLE, T + GRACE + 2 * 200 - 1).is_due
    assert move(course, IDLE, T + GRACE + 2 * 200).is_due


def test_unknown_never_becomes_idle_however_long_it_lasts():
    course = notified()
    for hours in range(1, 100):
        moved = move(course, UNKNOWN, T + 3_600 * hours)
        assert (moved.course.state, moved.is_due) == (State.UNKNOWN, False)
        course = moved.course


def test_the_owner_is_told_after_two_hours_without_sight_and_once_a_day_from_then_on():
    course, told = START, []
    for minute in range(0, 3 * 24 * 60, 10):
        moved = move(course, UNKNOWN, T + 60 * minute)
        course = moved.course
        if moved.tell is Notice.BLIND:
            told.append(60 * minute)
    assert told == [BLIND_SECONDS, BLIND_SECONDS + 86_400, BLIND_SECONDS + 2 * 86_400]


def test_observing_tells_nobody_and_ends_nothing():
    moved = move(START, IDLE, applied=policy(Action.OBSERVE))
    assert (moved.course.state, moved.tell) == (State.CANDIDATE, None)
    assert not move(moved.course, IDLE, T + 10 * GRACE, policy(Action.OBSERVE)).is_due


def test_notifying_ends_nothing():
    moved = move(START, IDLE, applied=policy(Action.NOTIFY))
    assert moved.tell is Notice.IDLE
    later = move(moved.course, IDLE, T + 10 * GRACE, policy(Action.NOTIFY))
    assert (later.tell, later.is_due) == (None, False)
    assert due_at(later.course, policy(Action.NOTIFY)) is None


def test_who_was_told_of_less_is_told_again_and_has_the_whole_grace():
    told = move(START, IDLE, applied=policy(Action.NOTIFY)).course
    moved = move(told, IDLE, T + 10 * GRACE)
    assert (moved.tell, moved.is_due) == (Notice.IDLE, False)
    assert move(moved.course, IDLE, T + 11 * GRACE).is_due


@pytest.mark.parametrize("blocker", list(Blocker))
def test_what_blocks_keeps_a_node_quiet(blocker):
    assert move(notified(), replace(IDLE, blockers=(blocker,))).course.state is State.QUIET


@pytest.mark.parametrize("waste", list(Waste))
def test_waste_is_told_of_and_ended_only_where_the_policy_means_it(waste):
    wasted = replace(IDLE, waste=waste)
    told = move(START, wasted, applied=policy(also=[waste])).course
    assert told.state is State.NOTIFIED
    assert not move(told, wasted, T + 10 * GRACE).is_due
    assert move(told, wasted, T + GRACE, policy(also=[waste])).is_due
    other = next(each for each in Waste if each is not waste)
    assert not move(told, wasted, T + GRACE, policy(also=[other])).is_due


def test_a_host_that_is_busy_with_a_crash_loop_does_not_block():
    looping = replace(IDLE, waste=Waste.CRASH_LOOP, proved_since=T, blockers=(Blocker.HOST_BUSY,))
    assert move(START, looping, applied=policy(also=[Waste.CRASH_LOOP])).tell is Notice.IDLE
    told = move(START, looping)
    assert (told.course.state, told.tell) == (State.NOTIFIED, Notice.IDLE)
    assert not move(told.course, looping, T + 10 * GRACE).is_due
    open_session = replace(looping, blockers=(Blocker.SESSION,))
    kept = move(START, open_session, applied=policy(also=[Waste.CRASH_LOOP]))
    assert kept.course.state is State.QUIET


def test_what_is_being_deleted_stays_so():
    going = replace(START, state=State.DELETING)
    for verdict in (ACTIVE, UNKNOWN, IDLE):
        assert move(going, verdict).course == going


@pytest.mark.parametrize(("grace", "due"), [(0, T + GRACE), (GRACE + 60, T + GRACE + 60)])
def test_a_grace_that_is_shortened_after_the_notice_breaks_no_word(grace, due):
    told = notified()
    other = replace(policy(), rule=Rule(AFTER, grace, Action.DELETE))
    assert due_at(told, other) == due
    assert not move(told, IDLE, due - 1, other).is_due
    assert move(told, IDLE, due, other).is_due


def test_a_kept_node_gets_no_notice_and_the_whole_grace_once_that_is_over():
    kept = move(notified(), quiet(T - 2 * AFTER), T + 10, is_kept=True)
    assert (kept.course.state, kept.tell, kept.is_due) == (State.CANDIDATE, None, False)
    assert (kept.course.notified_at, due_at(kept.course, policy())) == (T, None)
    still = move(kept.course, quiet(T - 2 * AFTER), T + 3 * GRACE, is_kept=True)
    assert (still.course.since, still.tell) == (T + 10, None)
    free = move(still.course, quiet(T - 2 * AFTER), T + 4 * GRACE)
    assert (free.course.state, free.tell) == (State.NOTIFIED, Notice.IDLE)
    assert due_at(free.course, policy()) == T + 5 * GRACE


def test_a_keep_that_ends_before_signals_come_back_has_made_the_notice_void():
    lost = move(notified(), UNKNOWN, T + 60)
    kept = move(lost.course, UNKNOWN, T + 120, is_kept=True)
    back = move(kept.course, quiet(T - 2 * AFTER), T + 3 * GRACE)
    assert (back.tell, back.is_due) == (Notice.IDLE, False)


@pytest.mark.parametrize(
    ("kept_until", "state"),
    [(T, State.CANDIDATE), (T - 299, State.CANDIDATE), (T - 300, State.NOTIFIED)],
)
def test_a_keep_that_came_and_went_after_the_notice_cancels_it(kept_until, state):
    """Nobody looked meanwhile. A keep that was over at the notice changes nothing."""
    node = factories.node(attempt=1, state_since=T - 20_000, up_since=T - 20_000)
    at_rest = {
        (0, kind): SignalTrack(
            T, 1e6 if kind is Kind.TENSORCORE_IDLE else 0.0, Level.QUIET, ((T - 15_000, T),)
        )
        for kind in COUNTED
    }
    told = WatchedNode(notified(T - 300, node_id=node.id), "lab")
    subject = IdleSubject(node, policy(), told, Signals(at_rest), Keep(kept_until, "a demo"))
    families = dict.fromkeys(MONITORED, MetricFamily.PRESENT)
    moved = assess_node(subject, families, T, IdleTimes(warmup=600, telemetry=DELAY)).moved
    assert (moved.course.state, moved.course.told is None) == (state, state is State.CANDIDATE)
