"""What to do next with a node in Google's queue: every state of the queue, asked and unasked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.cloud import tpu_v2

from service.domain.errors import CapacityUnavailable
from service.domain.lifecycle.in_flight import IN_FLIGHT_SECONDS
from service.domain.lifecycle.lifecycle import next_step
from service.domain.lifecycle.queueing import NODES_WITHIN_SECONDS, STUCK_SECONDS, needs_nodes
from service.domain.lifecycle.step import Look, Step
from service.domain.nodes.node import Asked, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource, QueueState, meaning
from tests import factories
from tests.hands import NOON

LATE = {"sent_at": NOON - 400, "state_since": NOON, "state": NodeState.QUEUED}
SOON = NOON + IN_FLIGHT_SECONDS - 1
LATER = NOON + IN_FLIGHT_SECONDS
PRESENT, ABSENT = Asked.PRESENT, Asked.ABSENT
DONE = factories.operation("create", done=True, ended_at=NOON + 3)
REFUSED = factories.operation("create", done=True, error=CapacityUnavailable("full"))
SEEN = {"queue_state": QueueState.ACTIVE, "queue_since": NOON, "cloud_uid": "7001"}
WAS_UP = SEEN | {"up_since": NOON, "ready_at": NOON}


def queued(**changes):
    return factories.sent(**({"queued": True, "state": NodeState.QUEUED} | changes))


def ticket(node, state, **changes):
    base = QueuedResource(node.place, state, labels={LABEL_ID: node.id}, nodes=(node.cloud_id,))
    return replace(base, **changes)


def step(node, state=None, sight=None, operation=None, now=SOON):
    queue = None if state is None else ticket(node, state)
    shown = None if sight is None else factories.sight(node, state=sight)
    return next_step(node, Look(shown, operation, queue), now)


WANTED = {
    QueueState.CREATING: Step.QUEUE,
    QueueState.ACCEPTED: Step.QUEUE,
    QueueState.WAITING_FOR_RESOURCES: Step.QUEUE,
    QueueState.PROVISIONING: Step.WAIT,
    QueueState.ACTIVE: Step.WAIT,  # its node is not there yet
    QueueState.SUSPENDING: Step.WAIT,
    QueueState.SUSPENDED: Step.REPLACE,
    QueueState.FAILED: Step.REPLACE,
    QueueState.DELETING: Step.WAIT,
    "STATE_99": Step.WAIT,
}
UNWANTED = {
    QueueState.CREATING: Step.WAIT,
    QueueState.ACCEPTED: Step.DEQUEUE,
    QueueState.WAITING_FOR_RESOURCES: Step.DEQUEUE,
    QueueState.PROVISIONING: Step.WAIT,
    QueueState.ACTIVE: Step.DEQUEUE,
    QueueState.SUSPENDING: Step.WAIT,
    QueueState.SUSPENDED: Step.DEQUEUE,
    QueueState.FAILED: Step.DEQUEUE,
    QueueState.DELETING: Step.WAIT,
    "STATE_99": Step.DEQUEUE,
}


STATES: Any = tpu_v2.QueuedResourceState.State


@pytest.mark.parametrize("state", [s.name for s in STATES if s])
def test_every_state_of_google_is_in_the_tables(state):
    known = QueueState(state)
    assert step(queued(), state) is WANTED[known]
    assert step(queued(asked=ABSENT, queue_since=NOON), state) is UNWANTED[known]
    assert meaning(state), "whoever waits is told what it means"


@pytest.mark.parametrize("state", WANTED)
def test_while_it_is_wanted_each_state_has_its_step(state):
    assert step(queued(), state) is WANTED[state]


@pytest.mark.parametrize("state", UNWANTED)
@pytest.mark.parametrize("why", [{"asked": ABSENT}, {"replacing": True}])
def test_whoever_leaves_gets_out_of_every_state(state, why):
    assert step(queued(queue_since=NOON, **why), state) is UNWANTED[state]


@pytest.mark.parametrize(
    "state",
    [QueueState.CREATING, QueueState.PROVISIONING, QueueState.SUSPENDING, QueueState.DELETING],
)
def test_what_is_stuck_is_asked_for_again(state):
    node = queued(asked=ABSENT, queue_state=state, queue_since=NOON)
    assert step(node, state, now=NOON + STUCK_SECONDS - 1) is Step.WAIT
    assert step(node, state, now=NOON + STUCK_SECONDS) is Step.DEQUEUE


def test_a_node_that_bills_while_its_ticket_cannot_be_deleted_is_deleted_itself():
    node = queued(asked=ABSENT, queue_since=NOON)
    assert step(node, QueueState.PROVISIONING, NodeState.READY) is Step.DELETE
    assert step(node, QueueState.PROVISIONING, NodeState.CREATING) is Step.WAIT


@pytest.mark.parametrize(
    ("sight", "expected"),
    [
        (NodeState.READY, Step.SETTLE),
        (NodeState.CREATING, Step.WAIT),
        (NodeState.REPAIRING, Step.WAIT),
        (NodeState.DELETING, Step.WAIT),
        (NodeState.UNKNOWN, Step.WAIT),
        (NodeState.STOPPED, Step.START),
        (NodeState.PREEMPTED, Step.REPLACE),
        (NodeState.TERMINATED, Step.REPLACE),
    ],
)
def test_once_active_the_node_decides(sight, expected):
    assert step(queued(**SEEN), QueueState.ACTIVE, sight) is expected


def test_an_active_ticket_without_its_node_is_given_some_time_and_then_replaced():
    node = queued(queue_state=QueueState.ACTIVE, queue_since=NOON)
    assert step(node, QueueState.ACTIVE, now=NOON + NODES_WITHIN_SECONDS - 1) is Step.WAIT
    assert step(node, QueueState.ACTIVE, now=NOON + NODES_WITHIN_SECONDS) is Step.REPLACE


def test_an_active_ticket_whose_node_was_up_and_is_gone_is_replaced_at_once():
    assert step(queued(**WAS_UP), QueueState.ACTIVE) is Step.REPLACE


@pytest.mark.parametrize(
    ("stored", "operation", "now", "wanted", "unwanted"),
    [
        # no answer came: the same request is sent again, and nothing is concluded meanwhile
        ({"operation": "", "unanswered_at": NOON}, None, SOON, Step.SEND, Step.WAIT),
        ({"operation": "", "unanswered_at": NOON}, None, LATER, Step.SEND, Step.CLOSE),
        # every create so far was refused for certain: nothing is there, nothing is on its way
        ({"operation": ""}, None, NOON, Step.SEND, Step.CLOSE),
        # accepted, and not shown yet
        ({}, None, SOON, Step.WAIT, Step.WAIT),
        ({}, DONE, SOON, Step.WAIT, Step.WAIT),
        ({}, DONE, LATER, Step.NEXT, Step.CLOSE),
        ({}, REFUSED, LATER, Step.NEXT, Step.CLOSE),
        # accepted only now, after it had been sent in vain for long
        (LATE, DONE, SOON, Step.WAIT, Step.WAIT),
        (LATE, None, SOON, Step.WAIT, Step.WAIT),
        (LATE, DONE, LATER, Step.NEXT, Step.CLOSE),
        # it was seen, so absence is the end of it
        (SEEN, None, SOON, Step.NEXT, Step.CLOSE),
        (WAS_UP, None, SOON, Step.VANISH, Step.CLOSE),
        (WAS_UP | {"replacing": True}, None, SOON, Step.NEXT, Step.CLOSE),
    ],
)
def test_when_neither_ticket_nor_node_is_there_the_record_decides(
    stored, operation, now, wanted, unwanted
):
    assert step(queued(**stored), None, None, operation, now) is wanted
    assert step(queued(asked=ABSENT, **stored), None, None, operation, now) is unwanted


@pytest.mark.parametrize(
    ("sight", "wanted", "unwanted"),
    [
        (NodeState.READY, Step.SETTLE, Step.DELETE),
        (NodeState.PREEMPTED, Step.REPLACE, Step.DELETE),
        (NodeState.DELETING, Step.WAIT, Step.WAIT),
        (NodeState.REPAIRING, Step.WAIT, Step.DELETE),
    ],
)
def test_a_node_that_outlives_its_ticket_lives_and_goes_by_itself(sight, wanted, unwanted):
    assert step(queued(**WAS_UP), None, sight) is wanted
    assert step(queued(**WAS_UP, asked=ABSENT), None, sight) is unwanted


def test_somebody_elses_ticket_under_our_name_is_left_alone():
    node = queued(operation="", unanswered_at=NOON)
    foreign = ticket(node, QueueState.ACTIVE, labels={LABEL_ID: "another"})
    assert next_step(node, Look(None, None, foreign), SOON) is Step.CONFLICT
    leaving = replace(node, asked=ABSENT, unanswered_at=None)
    assert next_step(leaving, Look(None, None, foreign), LATER) is Step.CLOSE


def pair(states, **changes):
    node = queued(slices=2, chips=16, hosts=2, **changes)
    sights = tuple(
        None
        if state is None
        else factories.sight(
            node, state=state, uid=str(n), place=Place("lab", factories.ZONE, f"n-1-{n}")
        )
        for n, state in enumerate(states)
    )
    return node, sights


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([NodeState.READY, NodeState.READY], Step.SETTLE),
        ([NodeState.READY, NodeState.CREATING], Step.WAIT),
        ([NodeState.READY, NodeState.PREEMPTED], Step.REPLACE),
        ([NodeState.READY, NodeState.REPAIRING], Step.WAIT),
        ([NodeState.READY, None], Step.WAIT),
    ],
)
def test_a_group_is_as_good_as_its_worst_slice(states, expected):
    node, sights = pair(states)
    look = Look(None, None, ticket(node, QueueState.ACTIVE), sights)
    assert next_step(node, look, SOON) is expected


def test_a_group_that_lost_a_slice_is_replaced_whole():
    node, sights = pair([NodeState.READY, None], up_since=NOON)
    look = Look(None, None, ticket(node, QueueState.ACTIVE), sights)
    assert next_step(node, look, SOON) is Step.REPLACE


@pytest.mark.parametrize("state", QueueState)
def test_nodes_are_looked_at_only_once_there_can_be_any(state):
    node = queued()
    assert needs_nodes(node, ticket(node, state)) is (state not in IN_LINE)
    assert needs_nodes(node, None)
