"""One round: what each rail holds, since when and until when, and who waits in which place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.idle.assess import AssessedNode, IdleSubject, IdleTimes
from service.domain.idle.cleanup import Cleanup, WatchedNode
from service.domain.idle.course import CourseChange, IdleCourse, State
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import Host, IdleVerdict, Signals
from service.domain.idle.rails import Breaker, Rail, Waiting
from service.domain.idle.round import RoundFacts, decide_round
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.lifecycle.absence import FleetCensus
from service.domain.lifecycle.precedence import Holder
from tests import factories

NOW = 1_000_000
TIMES = IdleTimes(warmup=600, telemetry=240, start=900, period=60)
APPLIED = AppliedRule(Rule(action=Action.DELETE), "node", 0, Action.DELETE, (), (), "")
QUIET = IdleVerdict(Level.QUIET, "every device is quiet", since=NOW - 9_000)
FACTS = RoundFacts(NOW, NOW - 10_000, 10, FleetCensus(10, 0))


def node(number, *, is_due=True, verdict=QUIET, hourly=1_000, **changes):
    made = factories.node(id=f"n{number}", owner=f"o{number}", attempt=1, state_since=NOW - 10_000)
    course = IdleCourse(made.id, 1, State.NOTIFIED, NOW - 900)
    watched = WatchedNode(course, "lab", verdict=verdict, judged_at=NOW - 60)
    subject = IdleSubject(made, APPLIED, hourly=hourly)
    one = AssessedNode(subject, watched, verdict, CourseChange(course, is_due=is_due))
    return replace(one, **changes)


def busy(count, start=100):
    moved = CourseChange(IdleCourse("b", 1, State.ACTIVE, NOW))
    work = IdleVerdict(Level.ACTIVE, "active")
    return [
        node(start + number, verdict=work, moved=moved, is_due=False) for number in range(count)
    ]


def round_of(nodes, before=None, earlier=(), **facts):
    given = replace(FACTS, live=len(nodes), **facts)
    courses = {waiting.subject.node.id: waiting.watched for waiting in earlier}
    return decide_round(before or Cleanup("lab"), nodes, courses, given, TIMES)


def names(found):
    return [node_id.subject.node.id for node_id in found.goes]


def rails(found):
    return [held.rail for held in found.cleanup.holds]


def test_what_is_due_goes_the_dearest_first():
    found = round_of([node(1), node(2, hourly=9_000), *busy(18)])
    assert names(found) == ["n2", "n1"]
    assert found.cleanup.holds == found.cleanup.waiting == ()
    assert found.cleanup.ticked_at == NOW


def test_what_has_no_fresh_report_waits_and_takes_nobody_s_turn():
    stale = [node(number, hourly=9_000, is_fresh=False) for number in range(5)]
    assert names(round_of([*stale, node(7), *busy(40)])) == ["n7"]


def test_no_node_ends_without_a_fresh_read_of_monitoring_even_if_all_its_workers_report():
    unseen, seen = node(1), node(2)
    signals = Signals(hosts={worker: Host(NOW) for worker in range(seen.subject.node.spec.hosts)})
    seen = replace(seen, subject=replace(seen.subject, signals=signals))
    fleet = [unseen, seen, *busy(38)]
    assert names(round_of(fleet, is_read=False)) == []
    assert names(round_of(fleet)) == ["n1", "n2"]


def test_nothing_goes_before_this_daemon_has_read_every_metric_itself():
    fleet = [node(1), *busy(9)]
    first = round_of(fleet, has_read=False)
    assert names(first) == []
    (held,) = first.cleanup.holds
    assert (held.rail, held.since, held.until) == (Rail.START, NOW, None)
    assert first.cleanup.waiting[0].rail is Rail.START
    assert names(round_of(fleet, first.cleanup, now=NOW + 60)) == ["n1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"held_by": (Holder.KEEP,)},
        {"is_told": False},
        {"moved": CourseChange(IdleCourse("x", 1, State.QUIET, 0))},
    ],
)
def test_what_is_held_back_does_not_go(changes):
    assert names(round_of([node(1, **changes), *busy(9)])) == []


@pytest.mark.parametrize(
    ("before", "facts", "rail", "until"),
    [
        (Cleanup("lab").with_pause(NOW - 5, "ada", "why"), {}, Rail.PAUSE, None),
        (None, {"held_since": NOW - 899}, Rail.START, NOW + 1),
        (None, {"drift": 61.0}, Rail.CLOCK, NOW + 900),
        (None, {"drift": -61.0}, Rail.CLOCK, NOW + 900),
        (None, {"census": FleetCensus(9, 3)}, Rail.INVENTORY, None),
        (None, {"census": FleetCensus(29, 3)}, Rail.INVENTORY, None),
        (None, {"census": FleetCensus(30, 3), "is_shrunk": True}, Rail.INVENTORY, None),
        (
            Cleanup("lab", breaker=Breaker(opened_at=NOW - 60, reason="why", fresh_since=NOW - 60)),
            {},
            Rail.BREAKER,
            NOW + 840,
        ),
    ],
)
def test_a_rail_holds_everything_and_says_until_when(before, facts, rail, until):
    found = round_of([node(1), *busy(9)], before, **facts)
    assert names(found) == []
    assert rails(found) == [rail]
    (waiting,) = found.cleanup.waiting
    assert (waiting.node_id, waiting.rail, waiting.place) == ("n1", rail, 1)
    assert waiting.until == until == found.cleanup.holds[0].until


@pytest.mark.parametrize(
    "facts",
    [
        {"held_since": NOW - 900},
        {"drift": 60.0},
        {"census": FleetCensus(9, 2)},
        {"census": FleetCensus(30, 3)},
        {"census": FleetCensus(100, 10)},
        {"census": FleetCensus(3, 2), "is_shrunk": True},
        {"census": FleetCensus(3, 0), "is_shrunk": True},
    ],
)
def test_what_is_just_in_order_holds_nothing(facts):
    assert names(round_of([node(1), *busy(9)], **facts)) == ["n1"]


def test_more_than_half_and_more_than_five_at_once_wait_for_an_hour():
    six = [node(number) for number in range(6)]
    assert rails(round_of([*six[:5]])) == [], "five are few"
    assert rails(round_of([*six, *busy(6)])) == [], "half is not more than half"
    first = round_of([*six, *busy(5)])
    assert rails(first) == [Rail.MASS]
    assert first.cleanup.mass_since == NOW
    later = round_of([*six, *busy(5)], first.cleanup, now=NOW + 3_599)
    assert rails(later) == [Rail.MASS]
    assert later.cleanup.holds[0].since == NOW
    over = round_of([*six, *busy(5)], first.cleanup, now=NOW + 3_600)
    assert names(over) == ["n0"], "at its pace: a tenth of eleven"


def test_the_hour_begins_anew_when_a_signal_is_lost_and_ends_when_fewer_are_idle():
    six = [node(number) for number in range(6)]
    first = round_of(six).cleanup
    blind = node(
        7,
        verdict=IdleVerdict(Level.UNKNOWN, "?"),
        is_due=False,
        moved=CourseChange(six[0].moved.course),
    )
    known = [*six, node(7)]
    lost = round_of([*six, blind], first, known, now=NOW + 60).cleanup
    assert lost.mass_since == NOW + 60
    assert round_of([*six[:5]], first, now=NOW + 60).cleanup.mass_since is None


def test_a_node_that_nobody_ever_sees_does_not_hold_the_others_for_ever():
    six = [node(number) for number in range(6)]
    blind = node(7, verdict=IdleVerdict(Level.UNKNOWN, "?"), is_due=False)
    first = round_of([*six, blind]).cleanup
    then = round_of([*six, blind], first, [*six, blind], now=NOW + 1_800).cleanup
    assert then.mass_since == NOW
    assert names(round_of([*six, blind], then, [*six, blind], now=NOW + 3_600)) == ["n0"]


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"state_since": NOW + 30}])
def test_the_hour_goes_on_when_a_node_starts_again(changes):
    six = [node(number) for number in range(6)]
    first = round_of(six).cleanup
    blind = node(7, verdict=IdleVerdict(Level.UNKNOWN, "?"), is_due=False)
    started = replace(blind.subject, node=replace(blind.subject.node, **changes))
    anew = replace(blind, subject=started, moved=CourseChange(six[0].moved.course))
    found = round_of([*six, anew], first, [*six, node(7)], now=NOW + 60)
    assert found.cleanup.mass_since == NOW


def test_a_jump_of_the_clock_holds_until_the_time_of_a_start_is_over():
    first = round_of([node(1), *busy(9)], drift=100.0).cleanup
    assert rails(round_of([node(1), *busy(9)], first, now=NOW + 899)) == [Rail.CLOCK]
    assert rails(round_of([node(1), *busy(9)], first, now=NOW + 900)) == []


def test_what_waits_for_a_rail_stands_in_line_the_dearest_first():
    nodes = [node(1, hourly=None), node(2, hourly=5), node(3, hourly=9), *busy(20)]
    found = round_of(nodes, Cleanup("lab").with_pause(NOW, "ada", "why"))
    assert [waiting.node_id for waiting in found.cleanup.waiting] == ["n3", "n2", "n1"]
    assert [waiting.place for waiting in found.cleanup.waiting] == [1, 2, 3]


def waits(found):
    return {waiting.node_id: (waiting.rail, waiting.since) for waiting in found.cleanup.waiting}


def test_a_node_waits_since_the_first_round_of_an_unbroken_wait_for_any_rail():
    first, second = node(1, hourly=9_000), node(2)
    fleet = [first, second, *busy(8)]
    paused = round_of(fleet, Cleanup("lab").with_pause(NOW, "ada", "why"))
    assert waits(paused) == {"n1": (Rail.PAUSE, NOW), "n2": (Rail.PAUSE, NOW)}
    resumed = paused.cleanup.without_pause()
    paced = round_of(fleet, resumed, now=NOW + 60)
    assert names(paced) == ["n1"]
    assert waits(paced) == {"n2": (Rail.TICK, NOW)}, "it has waited since the pause"
    at_work = round_of([first, *busy(9)], paced.cleanup, now=NOW + 120)
    again = round_of(fleet, at_work.cleanup, now=NOW + 180)
    assert waits(again) == {"n2": (Rail.TICK, NOW + 180)}, "it worked in between"


def test_a_node_whose_row_does_not_say_since_when_it_waits_does_so_since_the_round_before():
    fleet = [node(1, hourly=9_000), node(2), *busy(8)]
    old = Cleanup("lab", ticked_at=NOW - 60, waiting=(Waiting("n2", Rail.TICK, 1, NOW),))
    assert waits(round_of(fleet, old)) == {"n2": (Rail.TICK, NOW - 60)}
    assert waits(round_of(fleet, replace(old, ticked_at=0))) == {"n2": (Rail.TICK, NOW)}
    ahead = replace(old, waiting=(Waiting("n2", Rail.TICK, 1, NOW, NOW + 900),))
    assert waits(round_of(fleet, ahead)) == {"n2": (Rail.TICK, NOW)}, "a clock that was set back"


def test_when_nodes_go_dark_together_the_breaker_opens():
    before = {f"n{number}": node(number).watched for number in range(10)}
    dark = IdleVerdict(Level.UNKNOWN, "?")
    looks = [node(number, verdict=dark if number < 4 else QUIET) for number in range(10)]
    found = decide_round(Cleanup("lab"), looks, before, FACTS, TIMES)
    assert Rail.BREAKER in rails(found)
    few = [
        node(number, verdict=dark if number < 3 else QUIET, is_due=False) for number in range(10)
    ]
    assert Rail.BREAKER not in rails(decide_round(Cleanup("lab"), few, before, FACTS, TIMES))


@pytest.mark.parametrize("change", [{"attempt": 2}, {"state_since": NOW - 30}])
def test_nodes_that_were_made_or_started_again_have_not_gone_dark(change):
    fleet = [node(number) for number in range(10)]
    dark = IdleVerdict(Level.UNKNOWN, "?")
    again = [node(number, verdict=dark, is_due=False) for number in range(10)]
    anew = [
        replace(
            waiting, subject=replace(waiting.subject, node=replace(waiting.subject.node, **change))
        )
        for waiting in again
    ]
    assert opens(again, fleet)
    assert not opens(anew, fleet)


def opens(nodes, earlier):
    return Rail.BREAKER in rails(round_of(nodes, earlier=earlier))


def test_nodes_whose_reports_show_a_device_that_is_held_have_not_gone_dark():
    held = IdleVerdict(Level.UNKNOWN, "a process holds the device", is_seen=True)
    fleet = [node(number, is_due=False) for number in range(9)]
    works = [node(number, is_due=False, verdict=held) for number in range(9)]
    assert not opens([*works, node(9)], [*fleet, node(9)])
    dark = replace(held, is_seen=False)
    lost = [node(number, is_due=False, verdict=dark) for number in range(9)]
    assert opens([*lost, node(9)], [*fleet, node(9)])


def test_nodes_that_were_made_together_do_not_come_to_rest_together():
    def made(number, level, ended, until=NOW - 60):
        verdict = IdleVerdict(level, "?", since=NOW - 120, until=until)
        one = node(number, is_due=False, verdict=verdict)
        made_at = replace(one.subject.node, up_since=NOW - 600, state_since=NOW - 600)
        track = SignalTrack(NOW - 60, 0.0, Level.QUIET, (), NOW - 600 + ended)
        signals = Signals(tracks={(0, Kind.TENSORCORE_IDLE): track})
        return replace(
            one,
            subject=replace(one.subject, node=made_at),
            watched=replace(one.watched, signals=signals),
        )

    before = [made(number, Level.ACTIVE, 60) for number in range(6)]
    booted = [made(number, Level.QUIET, 120) for number in range(6)]
    assert not opens(booted, before)
    fell = [made(number, Level.QUIET, 121) for number in range(6)]
    assert opens(fell, before)
    warming = [made(number, Level.QUIET, 121, until=NOW - 120) for number in range(6)]
    assert not opens(warming, before), "in the warm-up the newest points of work may be late"
