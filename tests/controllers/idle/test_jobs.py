"""Nodes that jobs run on or wait for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from service.application.cleanup.daemon import DaemonActs
from service.domain.idle.proof import Blocker
from service.domain.jobs.job import Phase, Reason
from service.domain.nodes.node import IdlePolicy
from tests.controllers.idle.conftest import REST, TIMES
from tests.hands import NOON
from tests.store.test_jobs import a_job, an_attempt

ENOUGH = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 5 + 3
ENDS_HUNG = IdlePolicy(
    after_seconds=1_800, grace_seconds=300, action="delete", also=("no_progress",)
)


@pytest.fixture
def hung(lab):
    """A node whose policy ends jobs that hang, and the one that runs on it."""
    node = lab.add(REST, idle=ENDS_HUNG)
    job = a_job(node_id=node.id)
    with lab.units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.add_attempt(an_attempt(job, node, phase=Phase.RUNNING))
    return node


@pytest.mark.deep
def test_a_job_that_hangs_does_not_wait_for_its_own_node(lab, hung):
    lab.minute(ENOUGH)
    assert lab.ended() == [hung.name]


@pytest.mark.deep
def test_people_are_told_that_a_job_that_hangs_stays_where_the_policy_does_not_mean_it(lab, hung):
    idle = replace(ENDS_HUNG, also=())
    lab.change(hung, spec=replace(hung.spec, idle=idle), owner="ada@example.com")
    lab.minute(ENOUGH)
    assert lab.ended() == []
    assert lab.course(hung).due_at is None
    with lab.units.reading() as unit:
        told = [
            json.loads(notification.body)
            for notification in unit.notifications.list_due(lab.clock() + 86_400, 9)
        ]
        (said,) = unit.events.list_by_kind(hung.id, "idle", 0)
    why = "a node in no_progress is only notified; to have it deleted, set also: no_progress"
    assert [(countdown["acts_at"], countdown["limits"]) for countdown in told] == [(None, [why])]
    assert said.message.endswith(why)


def failed(job, node, number, at):
    """An attempt whose program failed at that instant, ten seconds after its start."""
    ended = {"phase": Phase.ENDED, "reason": Reason.PROGRAM_FAILED, "ended_at": at}
    return replace(an_attempt(job, node, number, **ended), claimed_at=at - 10, released_at=at)


@pytest.mark.parametrize("own_node", [False, True])
@pytest.mark.parametrize(("failures", "waste"), [(3, "crash_loop"), (2, "no_progress")])
def test_failures_of_the_last_hour_make_a_crash_loop_of_a_job(lab, failures, waste, own_node):
    node = lab.add(REST)
    job = a_job(node_id=node.id, failures=40, own_node=own_node)
    now = NOON + 3_600
    with lab.units() as unit:
        unit.jobs.add(job, None)
        for number in range(1, 5):
            at = now - 600 * number if number <= failures else now - 86_400
            unit.jobs.add_attempt(failed(job, node, number, at))
        running = an_attempt(job, node, 5, phase=Phase.RUNNING)
        unit.jobs.add_attempt(replace(running, claimed_at=now - 300))
    lab.minute(60)
    found = lab.course(node).verdict
    assert (found.level, found.waste) == ("QUIET", waste)


def crash(lab, node, *ended, own_node=True):
    """A job whose attempts on a node failed at these instants, and that waits for its next one."""
    job = a_job(id="m", node_id=node.id, failures=len(ended), own_node=own_node)
    with lab.units() as unit:
        unit.jobs.add(job, None)
        for number, at in enumerate(ended, 1):
            unit.jobs.add_attempt(failed(job, node, number, at))
    return job


@pytest.mark.parametrize("own_node", [False, True])
def test_the_grace_of_a_crash_loop_goes_on_between_its_attempts(lab, own_node):
    loops = replace(ENDS_HUNG, grace_seconds=900, also=("crash_loop",))
    node = lab.add(REST, idle=loops)
    lab.minute(30)
    job = crash(lab, node, *(lab.clock() - 60 * ago for ago in (20, 15, 10)), own_node=own_node)
    lab.minute(ENOUGH - 30)
    told = lab.course(node).course
    assert (told.state, lab.course(node).verdict.waste) == ("NOTIFIED", "crash_loop")
    with lab.units() as unit:
        running = an_attempt(job, node, 4, phase=Phase.RUNNING)
        unit.jobs.add_attempt(replace(running, claimed_at=lab.clock()))
    lab.minute(2)
    with lab.units() as unit:
        (attempt,) = unit.jobs.list_attempts(job.id)[-1:]
        last = failed(job, node, 4, lab.clock())
        unit.jobs.save_attempt(replace(last, version=attempt.version))
    lab.minute(2)
    assert lab.course(node).course.notified_at == told.notified_at
    lab.minute(15)
    assert lab.ended() == [node.name]


@pytest.mark.parametrize("other", ["a", "z"])
def test_a_job_that_waits_behind_a_crash_loop_keeps_its_node(lab, other):
    node = lab.add(REST, idle=replace(ENDS_HUNG, also=("crash_loop",)))
    lab.minute(30)
    crash(lab, node, *(lab.clock() - 60 * ago for ago in (20, 15, 10)))
    with lab.units() as unit:
        unit.jobs.add(a_job(id=other, node_id=node.id), None)
    lab.minute(ENOUGH - 30 + 20)
    assert lab.course(node).verdict.blockers == (Blocker.QUEUED_JOB,)
    assert lab.ended() == []


def test_a_job_between_two_attempts_without_a_crash_loop_keeps_its_node(lab):
    node = lab.add(REST, idle=replace(ENDS_HUNG, also=("crash_loop",)))
    lab.minute(30)
    crash(lab, node, *(lab.clock() - 60 * ago for ago in (20, 15)))
    lab.minute(ENOUGH - 30 + 20)
    assert lab.course(node).verdict.blockers == (Blocker.QUEUED_JOB,)
    assert lab.ended() == []


@pytest.mark.deep
def test_a_job_that_waits_behind_one_that_hangs_keeps_its_node(lab, hung):
    with lab.units() as unit:
        unit.jobs.add(a_job(id="a", node_id="elsewhere"), None)
        unit.jobs.add(a_job(id="z", node_id=hung.id), None)
    lab.minute(ENOUGH)
    assert lab.course(hung).verdict.blockers == (Blocker.QUEUED_JOB,)
    assert lab.ended() == []


@pytest.mark.deep
def test_a_job_that_is_submitted_within_a_look_stops_the_end(lab, monkeypatch):
    idle = lab.add(REST)
    end, tried = DaemonActs.request_end, []

    def end_after_a_job(acts, unit, assessed, cleanup, now):
        tried.append(now)
        unit.jobs.add(a_job(node_id=idle.id), None)
        end(acts, unit, assessed, cleanup, now)

    monkeypatch.setattr(DaemonActs, "request_end", end_after_a_job)
    lab.minute(ENOUGH)
    assert tried
    assert lab.ended() == []
