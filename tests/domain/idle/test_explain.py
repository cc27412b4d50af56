"""Tests of what each signal says by itself, case by case."""

from __future__ import annotations

import pytest

from service.domain.idle.assess import IdleSubject, IdleTimes
from service.domain.idle.explain import HELD, LOOPS, OLD, SCHEDULED, Claim, explain_signals
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import UNREAD, Host, JobActivity, MetricFamily, Signals
from service.domain.idle.signals.signal import (
    MONITORED,
    Kind,
    Level,
    Reading,
    describe_value,
    with_reading,
)
from tests import factories

NOW, AFTER = 1_000_000, 3_600
TIMES = IdleTimes(warmup=600, telemetry=240, start=900, period=60)
UNTIL = NOW - TIMES.telemetry
LONG_AGO = NOW - 4 * AFTER
PRESENT = dict.fromkeys(MONITORED, MetricFamily.PRESENT)
ABSENT = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
RULE = Rule(idle_after_seconds=AFTER, action=Action.DELETE)
APPLIED = AppliedRule(RULE, "node", 0, Action.DELETE, (), (), "")


def track(kind, *spans):
    """A track with a reading for each span: start, end and value."""
    found = None
    for start, end, value in spans:
        found = with_reading(found, Reading(0, kind, start, end, value), 0)
    return found


def explained(kind=None, spans=(), *, families=PRESENT, until=None, signals=None, **changes):
    """The states of a node of one worker by signal."""
    tracks = {} if kind is None else {(0, kind): track(kind, *spans)}
    given = {"hosts": {}, "asked_at": None, "unread_since": None, **(signals or {})}
    node = factories.node(attempt=1, state_since=LONG_AGO - 600, up_since=LONG_AGO - 600)
    subject = IdleSubject(node, APPLIED, signals=Signals(tracks, **given), **changes)
    found = explain_signals(subject, families, TIMES, NOW, until)
    return {evidence.signal: evidence for evidence in found}


def job(progress_at, *, is_preparing=False):
    return JobActivity("j", is_preparing, progress_at)


def test_a_signal_at_rest_says_since_when_with_value_and_coverage():
    one = explained(Kind.CPU, [(LONG_AGO, NOW - 90, 2.0)])[Kind.CPU]
    assert (one.worker, one.level, one.value, one.at) == (0, Level.QUIET, 2.0, NOW - 90)
    assert one.reason == "quiet since 1970-01-12T09:46:40Z"
    assert (one.coverage, one.last_active_at) == (100, None)


def test_a_signal_at_work_says_so_and_covers_nothing():
    one = explained(Kind.CPU, [(LONG_AGO, NOW - 90, 80.0)])[Kind.CPU]
    assert (one.level, one.reason, one.coverage) == (Level.ACTIVE, "active", 0)
    assert one.last_active_at == NOW - 90


@pytest.mark.parametrize(
    ("start", "end", "until", "coverage"),
    [
        (UNTIL - AFTER, UNTIL, None, 100),
        (UNTIL - AFTER // 2, NOW, None, 50),
        (UNTIL, NOW, None, 0),
        (UNTIL - AFTER, UNTIL - AFTER // 4, None, 75),
        (UNTIL - AFTER, UNTIL - 100, UNTIL - 100, 97),
        (UNTIL - AFTER - 100, UNTIL - 100, UNTIL - 100, 100),
    ],
)
def test_coverage_is_of_the_idle_time_up_to_the_newest_seconds(start, end, until, coverage):
    found = explained(Kind.CPU, [(start, end, 0.0)], until=until)
    assert found[Kind.CPU].coverage == coverage


@pytest.mark.parametrize(
    ("family", "end", "level", "reason"),
    [
        (MetricFamily.PRESENT, UNTIL - 300, Level.QUIET, "quiet since"),
        (MetricFamily.PRESENT, UNTIL - 301, Level.UNKNOWN, "has stopped"),
        (MetricFamily.FAILED, NOW, Level.UNKNOWN, "cannot be read"),
    ],
)
def test_a_metric_that_stopped_or_cannot_be_read_is_unknown(family, end, level, reason):
    families = {**PRESENT, Kind.CPU: family}
    one = explained(Kind.CPU, [(LONG_AGO, end, 0.0)], families=families)[Kind.CPU]
    assert one.level is level
    assert one.reason.startswith(reason)
    assert (one.value, one.at) == (0.0, end)


def test_a_metric_that_cannot_be_read_and_never_was_is_shown_without_a_value():
    found = explained(families={**PRESENT, Kind.CPU: MetricFamily.FAILED})
    assert set(found) == {Kind.CPU}
    one = found[Kind.CPU]
    assert (one.level, one.reason) == (Level.UNKNOWN, "cannot be read")
    assert (one.value, one.at, one.coverage) == (None, None, 0)


def test_a_metric_that_the_project_does_not_have_is_left_to_the_coverage():
    assert explained(Kind.CPU, [(LONG_AGO, NOW, 0.0)], families=ABSENT) == {}


def test_scheduled_chips_are_shown_and_say_nothing_of_work():
    one = explained(Kind.SCHEDULED_CHIPS, [(LONG_AGO, NOW, 4.0)])[Kind.SCHEDULED_CHIPS]
    assert (one.level, one.reason, one.value) == (Level.UNKNOWN, SCHEDULED, 4.0)
    assert one.last_active_at is None


HELD_NOW = [(LONG_AGO, NOW - 60, 0.0), (NOW - 60, NOW, 1.0)]
AT_REST = [(LONG_AGO, NOW, 0.0)]


@pytest.mark.parametrize(
    ("spans", "signals", "level", "reason"),
    [
        (AT_REST, {}, Level.QUIET, "quiet since 1970-01-12T09:46:40Z"),
        (HELD_NOW, {"hosts": {0: Host(NOW, "process 7 holds it")}}, Level.UNKNOWN, "process 7"),
        (
            HELD_NOW,
            {"hosts": {0: Host(NOW, "process 7 holds it", held_since=LONG_AGO)}},
            Level.UNKNOWN,
            "process 7 holds it, since at least 1970-01-12T09:46:40Z",
        ),
        (AT_REST, {"hosts": {0: Host(NOW, "process 7 holds it", restarts=3)}}, Level.QUIET, LOOPS),
        (AT_REST, {"hosts": {0: Host(NOW, restarts=3)}}, Level.QUIET, "quiet since"),
        (HELD_NOW, {}, Level.UNKNOWN, HELD),
        ([(LONG_AGO, NOW - 361, 0.0)], {"asked_at": NOW}, Level.UNKNOWN, "has stopped"),
        ([(LONG_AGO, NOW - 360, 0.0)], {"asked_at": NOW}, Level.QUIET, "quiet since"),
        (AT_REST, {"unread_since": NOW - 300}, Level.UNKNOWN, UNREAD),
        (AT_REST, {"unread_since": NOW - 299}, Level.QUIET, "quiet since"),
        ([(LONG_AGO, NOW - 781, 0.0)], {}, Level.UNKNOWN, OLD),
        ([(LONG_AGO, NOW - 780, 0.0)], {}, Level.QUIET, "quiet since"),
    ],
)
def test_what_a_worker_reports_is_known_while_its_reports_come(spans, signals, level, reason):
    found = explained(Kind.DEVICE, spans, families=ABSENT, signals=signals)[Kind.DEVICE]
    assert found.level is level
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("work", "level", "reason", "coverage"),
    [
        (job(LONG_AGO, is_preparing=True), Level.ACTIVE, "job j prepares to run", 0),
        (job(UNTIL + 1), Level.ACTIVE, "job j makes progress", 0),
        (job(UNTIL), Level.QUIET, "job j has made no progress since", 0),
        (job(UNTIL - 1_800), Level.QUIET, "job j has made no progress", 50),
    ],
)
def test_a_job_is_a_signal_by_its_progress(work, level, reason, coverage):
    one = explained(job=work)[Claim.JOB]
    assert (one.worker, one.value, one.level, one.coverage) == (None, None, level, coverage)
    assert one.reason.startswith(reason)


def test_a_crash_loop_is_shown_as_held_and_not_as_free():
    hosts = {"hosts": {0: Host(NOW, "process 7 holds it", restarts=3)}}
    one = explained(Kind.DEVICE, AT_REST, families=ABSENT, signals=hosts)[Kind.DEVICE]
    assert describe_value(one.signal, one.value) == "held"
    assert "restarts repeatedly" in one.reason


@pytest.mark.parametrize(
    ("progress_at", "reason"),
    [
        (NOW - 100, "job j makes steps, and no process holds the device of any worker"),
        (UNTIL, "job j has made no progress since 1970-01-12T13:42:40Z"),
    ],
)
def test_steps_without_a_device_are_explained(progress_at, reason):
    work = JobActivity("j", is_preparing=False, progress_at=progress_at, started_at=LONG_AGO)
    one = explained(Kind.DEVICE, AT_REST, families=ABSENT, job=work)[Claim.JOB]
    assert (one.level, one.reason, one.last_active_at) == (Level.QUIET, reason, LONG_AGO)


def test_the_failed_attempts_of_a_crash_loop_are_explained():
    work = JobActivity("j", is_preparing=False, progress_at=LONG_AGO, failures=3)
    one = explained(job=work)[Claim.JOB]
    assert one.reason.endswith("; 3 of its attempts failed within the last hour")


@pytest.mark.parametrize(
    ("until", "level", "reason", "at"),
    [
        (NOW + 900, Level.ACTIVE, "a heartbeat says", NOW),
        (UNTIL + 1, Level.ACTIVE, "a heartbeat says", UNTIL + 1),
        (UNTIL, Level.QUIET, "the newest heartbeat expired at 1970-01-12T13:42:40Z", UNTIL),
    ],
)
def test_a_heartbeat_is_a_signal_until_it_expires(until, level, reason, at):
    one = explained(heartbeat_until=until)[Claim.HEARTBEAT]
    assert (one.level, one.at) == (level, at)
    assert one.reason.startswith(reason)
    assert Claim.HEARTBEAT not in explained()
