"""The table of the next steps, before the node of an attempt is READY."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.jobs.job import Job, JobSpec, Phase, Reason
from service.domain.jobs.outcome import NodeFacts
from service.domain.jobs.step import AttemptStep, decide_step
from service.domain.jobs.transition import new_attempt
from service.domain.nodes.node import Asked, NodeState
from service.domain.nodes.placement import Outcome
from tests import factories
from tests.hands import NOON

ABSENT = {"asked": Asked.ABSENT, "delete_reason": "by somebody"}
GONE = {**ABSENT, "state": NodeState.DELETED, "ended_at": NOON}


def step(*, own=True, cancelled=False, stopping=Reason.UNDECIDED, placement=Outcome.OPEN, **node):
    job = Job("job-1", "lab", JobSpec("image"), NOON, own_node=own, attempt=1)
    if cancelled:
        job = replace(job, cancel_requested_at=NOON)
    there = factories.node(attempt=1, state=NodeState.CREATING)
    attempt = new_attempt(job, there, generation=1, now=NOON)
    if stopping:
        attempt = replace(attempt, phase=Phase.STOPPING, stop_reason=stopping)
    found = decide_step(job, attempt, replace(there, **node), NodeFacts(placement=placement), NOON)
    return found.step, found.verdict and found.verdict.reason


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, (AttemptStep.WAIT, None)),
        ({"state": NodeState.READY}, (AttemptStep.BEGIN, None)),
        # Nothing was asked of the cloud, or the node is a caller's: the container cannot start.
        ({"cancelled": True, "attempt": 0}, (AttemptStep.END, Reason.CANCELLED)),
        ({"cancelled": True, "own": False}, (AttemptStep.END, Reason.CANCELLED)),
        # The create carries the task, and may be under way.
        ({"cancelled": True}, (AttemptStep.STOP, Reason.CANCELLED)),
        ({"stopping": Reason.CANCELLED, **ABSENT}, (AttemptStep.WAIT, None)),
        ({"stopping": Reason.CANCELLED, **GONE}, (AttemptStep.END, Reason.CANCELLED)),
        (ABSENT, (AttemptStep.STOP, Reason.NODE_DELETED)),
        ({**ABSENT, "own": False}, (AttemptStep.END, Reason.NODE_DELETED)),
        ({"asked": Asked.STOPPED}, (AttemptStep.STOP, Reason.NODE_DELETED)),
        (GONE, (AttemptStep.END, Reason.NODE_DELETED)),
        ({**GONE, "placement": Outcome.VANISHED}, (AttemptStep.END, Reason.NODE_GONE)),
        ({**GONE, "placement": Outcome.PREEMPTED}, (AttemptStep.END, Reason.NODE_GONE)),
        ({**ABSENT, "state": NodeState.PREEMPTED}, (AttemptStep.STOP, Reason.NODE_GONE)),
        ({**GONE, "state": NodeState.FAILED}, (AttemptStep.END, Reason.NODE_NOT_GRANTED)),
    ],
)
def test_the_step_before_the_node_is_ready(case, expected):
    assert step(**case) == expected
