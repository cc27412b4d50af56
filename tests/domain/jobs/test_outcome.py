"""Why an attempt ended is decided from evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.jobs.job import Attempt, Phase
from service.domain.jobs.outcome import (
    CLASSIFY_SECONDS,
    PROOF_SECONDS,
    NodeFacts,
    find_success,
    find_verdict,
)
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.nodes.node import Asked, NodeState
from service.domain.nodes.placement import Outcome
from tests import factories
from tests.hands import NOON

ATTEMPT = Attempt(
    id="j-1",
    job_id="j",
    number=1,
    project="lab",
    node_id="n",
    claimed_at=NOON - 900,
    phase=Phase.CLASSIFYING,
    phase_since=NOON,
    placement=1,
)


def node(**changes):
    return factories.node(**{"state": NodeState.READY, "attempt": 1, **changes})


def exited(code=1, **changes):
    base = SupervisorReport(
        seq=1, attempt="j-1", state=WorkerState.EXITED, reason="COMPLETED", exit_code=code
    )
    return replace(base, **{"ended_at": NOON, "sent_at": NOON, "seen_at": NOON, **changes})


NOTHING = NodeFacts()


def found(reports, seconds=20, facts=NOTHING, **changes):
    one = find_verdict(ATTEMPT, node(**changes), facts, dict(enumerate(reports)), NOON + seconds)
    return None if one is None else one.reason.value


@pytest.mark.parametrize("code", [1, 134, 139, 143])
@pytest.mark.parametrize(
    ("facts", "changes", "reason"),
    [
        (NodeFacts(), {"state": NodeState.PREEMPTED}, "PREEMPTED"),
        (NodeFacts(), {"state": NodeState.TERMINATED}, "PREEMPTED"),
        (NodeFacts(placement=Outcome.PREEMPTED), {"state": NodeState.DELETED}, "PREEMPTED"),
        (NodeFacts(states=frozenset({"PREEMPTED"})), {}, "PREEMPTED"),
        (NodeFacts(terminated=True), {}, "PREEMPTED"),
        (NodeFacts(), {"queue_state": "SUSPENDED"}, "PREEMPTED"),
        (NodeFacts(states=frozenset({"RESTARTING"})), {}, "HOST_LOST"),
        (NodeFacts(), {"state": NodeState.REPAIRING}, "HOST_LOST"),
        (
            NodeFacts(placement=Outcome.VANISHED),
            {"ended_at": NOON, "state": NodeState.DELETED},
            "NODE_GONE",
        ),
        (NodeFacts(), {"asked": Asked.ABSENT}, "NODE_DELETED"),
        (NodeFacts(), {"asked": Asked.STOPPED}, "NODE_DELETED"),
        (NodeFacts(), {}, None),
    ],
)
def test_evidence_decides_whatever_the_exit_code_is(code, facts, changes, reason):
    assert found([exited(code), exited(0)], facts=facts, **changes) == reason


def test_the_notice_of_one_worker_is_evidence():
    assert found([exited(1), exited(1, preempted_at=NOON - 3)]) == "PREEMPTED"


def test_a_worker_that_started_again_is_lost_hardware():
    assert found([exited(None, reason="REBOOTED"), exited(1)]) == "HOST_LOST"


def test_the_program_failed_only_once_every_machine_has_lived_on():
    later = NOON + PROOF_SECONDS
    alive, seen = exited(1, sent_at=later), NodeFacts(looked_at=later)
    assert found([alive, alive], 70, seen) == "PROGRAM_FAILED"
    assert found([alive, exited(1)], 70, seen) is None
    assert found([alive, None], 70, seen) is None
    assert found([alive, alive], 70, NodeFacts(looked_at=later - 1)) is None


def test_classifying_lasts_five_minutes_at_most():
    assert found([exited(1), None], CLASSIFY_SECONDS - 1) is None
    assert found([exited(1), None], CLASSIFY_SECONDS) == "PROGRAM_FAILED"
    assert found([None, None], CLASSIFY_SECONDS) == "SUPERVISOR_SILENT"


@pytest.mark.parametrize(
    "reason", ["PULL_FAILED", "PULL_DENIED", "IMAGE_NOT_FOUND", "DEVICE_BUSY", "STORAGE_DENIED"]
)
def test_what_the_supervisor_names_needs_no_more_evidence(reason):
    assert found([exited(None, reason=reason), None]) == reason


def complete(*reports):
    one = find_success(reports)
    return None if one is None else one.reason.value


@pytest.mark.parametrize("told", ["STOPPED", "TIMED_OUT", "PREEMPTION_NOTICE"])
def test_a_program_that_was_told_to_end_has_not_completed_though_its_exit_code_is_0(told):
    assert complete(exited(0), exited(0)) == "COMPLETED"
    assert complete(exited(0), exited(0, reason=told)) is None
    assert complete(exited(0, reason=told), exited(0, reason=told)) is None


@pytest.mark.parametrize("told", ["STOPPED", "TIMED_OUT", "PREEMPTION_NOTICE"])
def test_a_program_that_was_told_to_end_after_it_said_it_was_done_has_completed(told):
    done = exited(0, done_at=NOON - 5)
    assert complete(done, exited(0, reason=told)) == "COMPLETED"
    assert complete(done, exited(143, reason=told)) == "COMPLETED_THEN_ABORTED"
    assert complete(done, exited(0, reason=told, ended_at=NOON - 9)) is None
    assert complete(done, exited(None, reason="REBOOTED")) is None


def test_a_program_that_ends_with_0_at_the_notice_was_preempted():
    noticed = exited(0, reason="PREEMPTION_NOTICE", preempted_at=NOON - 9)
    assert found([noticed, noticed]) == "PREEMPTED"
    assert found([exited(0, reason="TIMED_OUT")]) == "TIMED_OUT"


def test_an_abort_after_done_is_a_success_and_one_before_it_is_none():
    done = exited(0, done_at=NOON - 5)
    assert found([done, exited(134)]) == "COMPLETED_THEN_ABORTED"
    assert found([done, exited(134, ended_at=NOON - 9)]) is None
