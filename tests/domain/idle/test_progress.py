"""Tests of the activity of a job: its progress, and the failures that are a crash loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.clock import HOUR
from service.domain.idle.progress import FAILURE_SECONDS, STEADY_SECONDS, activity_of
from service.domain.jobs.job import Attempt, Job, JobSpec, Phase, Reason
from service.domain.jobs.report import SupervisorReport

NOW = 100_000
JOB = Job("j", "lab", JobSpec("a/b:c"), NOW - 9 * HOUR, failures=9)


def attempt(number, claimed_at, *, ended_at=None, **changes):
    made = Attempt(f"j-{number}", "j", number, "lab", "node", claimed_at, phase=Phase.PULLING)
    if ended_at is not None:
        made = replace(made.in_phase(Phase.ENDED, ended_at), reason=Reason.PROGRAM_FAILED)
        made = replace(made, ended_at=ended_at, released_at=ended_at)
    return replace(made, **changes)


def running(number, claimed_at, **reported):
    report = SupervisorReport(1, attempt=f"j-{number}", **reported)
    return attempt(number, claimed_at, phase=Phase.RUNNING, reports={"0": report})


CRASHES = [attempt(number, NOW - 4_000 + 900 * number, ended_at=NOW - 3_200 + 900 * number)
           for number in range(1, 4)]  # fmt: skip
FIRST = CRASHES[0].claimed_at


def test_a_job_shows_its_newest_progress_and_its_start():
    steps = running(1, NOW - 900, started_at=NOW - 800, step_at=NOW - 60, checkpoint_at=NOW - 70)
    found = activity_of(JOB, steps, NOW)
    assert (found.progress_at, found.started_at) == (NOW - 60, NOW - 800)
    assert not found.is_preparing
    ahead = running(1, NOW - 900, started_at=NOW + 5, step_at=NOW + 9)
    found = activity_of(JOB, ahead, NOW)
    assert (found.progress_at, found.started_at) == (NOW, NOW)
    waits = activity_of(JOB, attempt(1, NOW - 900), NOW)
    assert (waits.is_preparing, waits.progress_at, waits.started_at) == (True, NOW - 900, NOW - 900)


@pytest.mark.parametrize(
    ("changes", "failures"),
    [
        ({}, 3),
        ({"ended_at": NOW - FAILURE_SECONDS + 1}, 3),
        ({"ended_at": NOW - FAILURE_SECONDS}, 2),
        ({"ended_at": NOW - 7 * 24 * HOUR}, 2),
        ({"reason": Reason.PREEMPTED}, 2),
        ({"reason": Reason.CANCELLED}, 2),
        ({"node_id": "another"}, 2),
    ],
    ids=str,
)
def test_failures_of_the_last_hour_on_this_node_count(changes, failures):
    earlier = [*CRASHES[1:], replace(CRASHES[0], **changes)]
    found = activity_of(JOB, attempt(4, NOW - 60), NOW, earlier)
    assert found.failures == failures


def test_preparations_of_a_crash_loop_are_no_activity():
    found = activity_of(JOB, attempt(4, NOW - 60), NOW, CRASHES)
    assert (found.is_preparing, found.progress_at) == (False, FIRST)
    two = activity_of(JOB, attempt(4, NOW - 60), NOW, CRASHES[1:])
    assert (two.is_preparing, two.progress_at) == (True, NOW - 60)


def test_steps_of_every_attempt_of_a_crash_loop_are_progress():
    report = SupervisorReport(1, attempt="j-2", step_at=NOW - 1_500)
    stepped = [CRASHES[0], replace(CRASHES[1], reports={"0": report}), CRASHES[2]]
    assert activity_of(JOB, attempt(4, NOW - 60), NOW, stepped).progress_at == NOW - 1_500
    steps = running(4, NOW - 60, started_at=NOW - 50, step_at=NOW - 5)
    assert activity_of(JOB, steps, NOW, CRASHES).progress_at == NOW - 5


@pytest.mark.parametrize(
    ("seconds", "progress_at", "failures"),
    [(STEADY_SECONDS - 1, FIRST, 3), (STEADY_SECONDS, NOW - 600, 0)],
)
def test_an_attempt_that_goes_on_is_no_crash(seconds, progress_at, failures):
    runs = running(4, NOW - 700, started_at=NOW - seconds)
    found = activity_of(JOB, runs, NOW, CRASHES)
    assert (found.progress_at, found.failures) == (progress_at, failures)


def test_a_crash_loop_between_two_attempts_is_judged_like_one_that_starts():
    found = activity_of(JOB, CRASHES[-1], NOW, CRASHES)
    assert not found.is_preparing
    assert (found.progress_at, found.failures) == (FIRST, 3)
