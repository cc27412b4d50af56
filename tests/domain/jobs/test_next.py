"""The table of the next steps, before the node of an attempt is READY."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.jobs.job import Job, JobSpec, Phase, Reason
from service.domain.jobs.next import Step, decide
from service.domain.jobs.outcome import Facts
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
    found = decide(job, attempt, replace(there, **node), Facts(placement=placement), NOON)
    return found.step, found.verdict and found.verdict.reason


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, (Step.WAIT, None)),
        ({"state": NodeState.READY}, (Step.BEGIN, None)),
        # Nothing was asked of the cloud, or the node is a caller's: the container cannot start.
        ({"cancelled": True, "attempt": 0}, (Step.END, Reason.CANCELLED)),
        ({"cancelled": True, "own": False}, (Step.END, Reason.CANCELLED)),
        # The create carries the task, and may be under way.
        ({"cancelled": True}, (Step.STOP, Reason.CANCELLED)),
        ({"stopping": Reason.CANCELLED, **ABSENT}, (Step.WAIT, None)),
        ({"stopping": Reason.CANCELLED, **GONE}, (Step.END, Reason.CANCELLED)),
        (ABSENT, (Step.STOP, Reason.NODE_DELETED)),
        ({**ABSENT, "own": False}, (Step.END, Reason.NODE_DELETED)),
        ({"asked": Asked.STOPPED}, (Step.STOP, Reason.NODE_DELETED)),
        (GONE, (Step.END, Reason.NODE_DELETED)),
        ({**GONE, "placement": Outcome.VANISHED}, (Step.END, Reason.NODE_GONE)),
        ({**GONE, "placement": Outcome.PREEMPTED}, (Step.END, Reason.NODE_GONE)),
        ({**ABSENT, "state": NodeState.PREEMPTED}, (Step.STOP, Reason.NODE_GONE)),
        ({**GONE, "state": NodeState.FAILED}, (Step.END, Reason.NODE_NOT_GRANTED)),
    ],
)
def test_the_step_before_the_node_is_ready(case, expected):
    assert step(**case) == expected
