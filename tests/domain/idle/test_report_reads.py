"""Whose reports are read, and what the answers change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.domain.idle.assess import REPORT_PAUSE, IdleSubject, IdleTimes, has_fresh_reports
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import Blocker, Host, IdleVerdict, JobActivity, Signals
from service.domain.idle.report_reads import (
    MOST_READS,
    MOST_SOON,
    ReportRead,
    choose_reads,
    is_candidate,
    pause_of,
    with_answers,
)
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.idle.worker_report import WorkerActivity, WorkerReport
from service.domain.nodes.keep import Keep
from service.domain.nodes.node import NodeState
from tests import factories
from tests.hands import NOON

TIMES = IdleTimes(warmup=600, telemetry=240, start=900, period=60)
SEEN = {
    (0, kind): SignalTrack(NOON - 60, 0.0, Level.QUIET)
    for kind in (Kind.DUTY_CYCLE, Kind.CPU, Kind.NETWORK)
}
COVERED = Signals(tracks=SEEN, instances={0: "1"})
QUIET = IdleVerdict(Level.QUIET, "quiet", since=NOON - 3_000, proved_since=NOON - 3_000)
UNKNOWN = IdleVerdict(Level.UNKNOWN, "no")


APPLIED = AppliedRule(Rule(1_800, 300, Action.DELETE), "node", 0, Action.DELETE, (), (), "")


def make_subject(node_id="n-1", signals=COVERED, hosts=1, **changes):
    node = factories.node(
        id=node_id, attempt=1, supervisor=True, state=NodeState.READY, up_since=NOON - 9_000
    )
    node = replace(node, spec=replace(node.spec, hosts=hosts, **changes.pop("spec", {})))
    return IdleSubject(node, APPLIED, signals=signals, **changes)


def make_watched(state=State.QUIET, verdict=QUIET, due_at=None, node_id="n-1", **course):
    made = IdleCourse(node_id, course.pop("incarnation", 1), state, NOON - 60, **course)
    return WatchedNode(made, "lab", verdict=verdict, judged_at=NOON - 60, due_at=due_at)


def chosen(*subjects, tried=None):
    return [node.id for node in choose_reads(subjects, tried or {}, NOON, TIMES)]


@pytest.mark.parametrize(
    ("subject", "pause"),
    [
        (make_subject(), None),
        (make_subject(signals=Signals(tracks=SEEN)), 1_800),
        (make_subject(signals=replace(COVERED, hosts={0: Host(NOON - 360)}, asked_at=NOON)), None),
        (make_subject(signals=replace(COVERED, hosts={0: Host(NOON - 361)}, asked_at=NOON)), 300),
        (make_subject(signals=Signals()), 300),
        (make_subject(signals=Signals(), spec={"supervisor": False}), None),
        (make_subject(hosts=2), 300),
        (make_subject(watched=make_watched(State.NOTIFIED, notified_at=NOON - 60)), 300),
        (make_subject(watched=make_watched(State.CANDIDATE)), 300),
        (make_subject(watched=make_watched(State.UNKNOWN, UNKNOWN, notified_at=NOON - 9)), 300),
        (make_subject(watched=make_watched(State.UNKNOWN, UNKNOWN)), None),
        (make_subject(watched=make_watched()), 300),
        (make_subject(watched=make_watched(verdict=replace(QUIET, since=NOON - 900))), None),
        (make_subject(watched=make_watched(State.NOTIFIED, notified_at=1, incarnation=7)), None),
    ],
)
def test_reports_are_read_of_candidates_and_of_what_monitoring_does_not_cover(subject, pause):
    assert pause_of(subject, NOON, TIMES) == pause


def test_a_node_is_read_every_five_minutes_whatever_came_of_it():
    subject = make_subject(signals=Signals(asked_at=NOON - 299))
    assert chosen(subject) == []
    assert chosen(replace(subject, signals=Signals(asked_at=NOON - 300))) == ["n-1"]
    assert chosen(make_subject(signals=Signals()), tried={"n-1": NOON - 299}) == []
    assert chosen(make_subject(signals=Signals()), tried={"n-1": NOON - 300}) == ["n-1"]


@pytest.mark.parametrize(
    ("subject", "is_read"),
    [
        (make_subject(watched=make_watched(State.NOTIFIED, due_at=NOON + 120)), True),
        (make_subject(watched=make_watched(State.NOTIFIED, due_at=NOON + 121)), False),
        (make_subject(watched=make_watched(State.UNKNOWN, UNKNOWN, due_at=NOON)), False),
        (
            make_subject(
                watched=make_watched(State.NOTIFIED, due_at=NOON), keep=Keep(NOON + 900, "a demo")
            ),
            False,
        ),
        (make_subject(watched=make_watched(verdict=replace(QUIET, since=NOON - 9))), True),
        (
            make_subject(watched=make_watched(verdict=replace(QUIET, blockers=(Blocker.SESSION,)))),
            False,
        ),
        (make_subject(watched=make_watched(verdict=replace(QUIET, proved_since=NOON - 9))), False),
    ],
)
def test_a_node_that_is_about_to_be_ended_is_read_twice_a_minute(subject, is_read):
    lately = replace(subject, signals=replace(COVERED, asked_at=NOON - 30))
    assert (chosen(lately) == ["n-1"]) is is_read
    assert chosen(replace(subject, signals=replace(COVERED, asked_at=NOON - 29))) == []


def test_what_ends_soon_comes_first_and_what_was_not_read_for_longest_next():
    soon = make_subject(
        "a", watched=make_watched(State.NOTIFIED, due_at=NOON), signals=replace(COVERED, asked_at=0)
    )
    subjects = [
        make_subject("b", signals=Signals(asked_at=NOON - 400)),
        make_subject("c", signals=Signals(asked_at=NOON - 900)),
        soon,
        make_subject("d", signals=Signals()),
    ]
    assert chosen(*subjects) == ["a", "d", "c", "b"]


def test_the_reads_of_a_tick_are_bounded_by_slices():
    subjects = [make_subject(f"n-{number:05}", signals=Signals()) for number in range(MOST_READS)]
    assert len(chosen(*subjects, make_subject("z", signals=Signals()))) == MOST_READS
    slices = [
        replace(subject, node=replace(subject.node, spec=replace(subject.node.spec, slices=4)))
              for subject in subjects]  # fmt: skip
    assert len(chosen(*slices)) == MOST_READS // 4


def test_of_many_that_end_soon_the_dearest_are_read_twice_a_minute():
    subjects = [
        make_subject(
            f"n-{number:05}",
            watched=make_watched(State.NOTIFIED, due_at=NOON, node_id=f"n-{number:05}"),
            signals=replace(COVERED, asked_at=NOON - 60),
            hourly=number,
        )
        for number in range(MOST_SOON + 50)
    ]
    assert set(chosen(*subjects)) == {subject.node.id for subject in subjects[50:]}


REST = WorkerActivity(NOON - 3_600, NOON - 30, "", NOON - 3_600, NOON - 3_600, NOON - 3_600)


def make_answer(activity=REST, instance="7", **changes):
    workers = {0: WorkerReport(instance, activity)}
    usual: dict[str, Any] = {
        "node_id": "n-1",
        "incarnation": 1,
        "asked_at": NOON,
        "workers": workers,
    }
    return ReportRead(**usual | changes)


def after(subject, *answers):
    return with_answers([subject], answers, NOON, TIMES).subjects[0].signals


def test_an_answer_becomes_tracks_a_host_an_id_and_the_time_of_the_question():
    found = with_answers([make_subject(signals=Signals())], [make_answer()], NOON, TIMES)
    signals = found.subjects[0].signals
    assert signals.tracks[0, Kind.DEVICE].at_rest == ((NOON - 3_600, NOON - 30),)
    assert signals.hosts == {0: Host(NOON - 30)}
    assert signals.instances == {0: "7"}
    assert signals.asked_at == NOON
    assert len(found.readings["n-1"]) == 3


def test_an_answer_of_another_incarnation_changes_nothing():
    subject = make_subject(signals=Signals())
    found = with_answers([subject], [make_answer(incarnation=2)], NOON, TIMES)
    assert (found.subjects, found.readings) == ([subject], {})


def test_an_answer_that_is_not_complete_does_not_count_as_one():
    assert after(make_subject(signals=Signals()), make_answer(is_complete=False)).asked_at is None


def test_reads_that_fail_are_counted_from_the_first_one_and_tried_again_soon():
    first = after(make_subject(signals=COVERED), make_answer(is_complete=False))
    assert first.unread_since == NOON
    second = after(make_subject(signals=first), make_answer(is_complete=False, asked_at=NOON + 60))
    assert second.unread_since == NOON
    assert pause_of(make_subject(signals=second), NOON, TIMES) == REPORT_PAUSE
    assert after(make_subject(signals=second), make_answer(asked_at=NOON + 90)).unread_since is None


def holds(pid, at, boot="b", **changes):
    holder = f"process {pid} (python) holds /dev/vfio/0" if pid else ""
    free_since = None if pid else at - 30
    given = {"boot": boot, "holder": holder, "device_free_since": free_since, **changes}
    return make_answer(replace(REST, at=at, **given), asked_at=at)


def follow(*answers, signals=None):
    """The signals after answers, each of its own read."""
    signals = signals or Signals()
    for answer in answers:
        signals = after(make_subject(signals=signals), answer)
    return signals


@pytest.mark.parametrize(
    ("answers", "held_since"),
    [
        ([holds(7, NOON - 900)], NOON - 900),
        ([holds(7, NOON - 900), holds(7, NOON - 900)], NOON - 900),
        ([holds(7, NOON - 900), holds(7, NOON - 600), holds(7, NOON - 300)], NOON - 900),
        ([holds(7, NOON - 900), holds(8, NOON - 600), holds(8, NOON - 300)], NOON - 600),
        ([holds(7, NOON - 900), holds(0, NOON - 600), holds(7, NOON - 300)], NOON - 300),
        ([holds(7, NOON - 900), holds(7, NOON - 600, "c"), holds(7, NOON, "c")], NOON - 600),
        ([holds(7, NOON - 900), holds(0, NOON - 600)], None),
    ],
)
def test_a_device_is_held_since_the_first_consecutive_report_of_its_holder(answers, held_since):
    assert follow(*answers).hosts[0].held_since == held_since


def test_a_holder_of_an_old_row_is_known_since_its_report():
    known = follow(holds(7, NOON - 900))
    old = replace(known, hosts={0: replace(known.hosts[0], held_since=None)})
    assert follow(holds(7, NOON - 300), signals=old).hosts[0].held_since == NOON - 900


LOOPS = {"restarts": 3, "containers": 1}


def test_a_crash_loop_that_only_reports_show_comes_to_rest():
    reports = [
        holds(pid, at, **LOOPS)
        for pid, at in enumerate(range(NOON - 3_000, NOON + 1, 300))
        if pid != 4  # a report may be free of a holder too
    ]
    device = follow(*reports, *reports[-1:]).tracks[0, Kind.DEVICE]
    assert device.at_rest == ((NOON - 3_600, NOON),), "a report that is read again adds nothing"
    assert device.broken_at is None


def test_a_training_beside_a_crash_loop_holds_its_device():
    reports = [holds(7, at, **LOOPS) for at in range(NOON - 3_000, NOON + 1, 300)]
    device = follow(*reports).tracks[0, Kind.DEVICE]
    assert (device.at_rest, device.level) == ((), Level.UNKNOWN)


def test_a_crash_loop_takes_nothing_from_the_work_before_it():
    device = follow(holds(7, NOON - 100), holds(8, NOON, **LOOPS)).tracks[0, Kind.DEVICE]
    assert device.at_rest == ((NOON - 100, NOON),)


RUNS = JobActivity("j", is_preparing=False, progress_at=NOON)
WORKS = {
    **SEEN,
    (0, Kind.DUTY_CYCLE): SignalTrack(NOON - 60, 90.0, Level.ACTIVE, broken_at=NOON - 60),
}


@pytest.mark.parametrize(
    ("job", "tracks", "pause"),
    [
        (RUNS, SEEN, 300),
        (RUNS, WORKS, None),
        (replace(RUNS, is_preparing=True), SEEN, None),
        (None, SEEN, None),
    ],
)
def test_reports_are_read_where_a_job_runs_and_monitoring_shows_no_work(job, tracks, pause):
    subject = make_subject(signals=replace(COVERED, tracks=tracks), job=job)
    assert pause_of(subject, NOON, TIMES) == pause


def test_a_report_from_before_the_one_that_is_known_changes_nothing():
    known = after(make_subject(signals=Signals()), make_answer(replace(REST, sessions=2)))
    older = replace(REST, at=NOON - 90, boot="before")
    again = after(make_subject(signals=known), make_answer(older, asked_at=NOON + 60))
    assert (again.hosts, again.tracks) == (known.hosts, known.tracks)
    assert again.asked_at == NOON + 60


def test_a_worker_that_the_node_does_not_have_is_left_out():
    workers = {0: WorkerReport("7", REST), 1: WorkerReport("8", REST)}
    signals = after(make_subject(signals=Signals()), make_answer(workers=workers))
    assert set(signals.hosts) == {0}
    assert signals.instances == {0: "7"}


def test_nobody_takes_the_instance_of_another_worker():
    """Else a forged report could have the metrics of a node that works counted for its own."""
    victim = make_subject("victim", signals=Signals(instances={0: "7"}))
    forger = make_subject("forger", signals=Signals())
    answers = [make_answer(node_id="forger"), make_answer(node_id="victim")]
    found = with_answers([forger, victim], answers, NOON, TIMES).subjects
    assert [report.signals.instances for report in found] == [{}, {0: "7"}]
    both = [make_subject("victim", signals=Signals()), forger]
    found = with_answers(both, answers, NOON, TIMES).subjects
    assert [report.signals.instances for report in found] == [{}, {}]


@pytest.mark.parametrize(
    ("signals", "is_fresh"),
    [
        (Signals(), False),
        (Signals(asked_at=NOON - 60), True),
        (Signals(asked_at=NOON - 61), False),
        (Signals(hosts={0: Host(NOON - 300)}, asked_at=NOON - 60), True),
        (Signals(hosts={0: Host(NOON - 300)}, asked_at=NOON - 61), False),
        (Signals(hosts={0: Host(NOON - 300)}), False),
        (Signals(hosts={0: Host(NOON - 500)}, asked_at=NOON), False),
        (Signals(hosts={0: Host(NOON), 1: Host(NOON - 500)}, asked_at=NOON), False),
    ],
)
def test_a_node_with_a_supervisor_ends_with_a_fresh_report_only(signals, is_fresh):
    assert has_fresh_reports(make_subject(signals=signals), NOON, 60) is is_fresh
    without = make_subject(signals=signals, spec={"supervisor": False})
    assert has_fresh_reports(without, NOON, 60)


def test_a_node_with_a_blocker_stays_a_candidate_whose_reports_are_read():
    """Else nobody would learn that a session is over."""
    watched = make_watched(verdict=replace(QUIET, blockers=(Blocker.SESSION,)))
    assert is_candidate(make_subject(watched=watched), TIMES)
