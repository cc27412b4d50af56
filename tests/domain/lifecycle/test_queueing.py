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
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import Asked, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource, QueueState, describe_state
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
    return next_step(node, NodeLook(shown, operation, queue), now)


WANTED = {
    QueueState.CREATING: NodeStep.QUEUE,
    QueueState.ACCEPTED: NodeStep.QUEUE,
    QueueState.WAITING_FOR_RESOURCES: NodeStep.QUEUE,
    QueueState.PROVISIONING: NodeStep.WAIT,
    QueueState.ACTIVE: NodeStep.WAIT,  # its node is not there yet
    QueueState.SUSPENDING: NodeStep.WAIT,
    QueueState.SUSPENDED: NodeStep.REPLACE,
    QueueState.FAILED: NodeStep.REPLACE,
    QueueState.DELETING: NodeStep.WAIT,
    "STATE_99": NodeStep.WAIT,
}
UNWANTED = {
    QueueState.CREATING: NodeStep.WAIT,
    QueueState.ACCEPTED: NodeStep.DEQUEUE,
    QueueState.WAITING_FOR_RESOURCES: NodeStep.DEQUEUE,
    QueueState.PROVISIONING: NodeStep.WAIT,
    QueueState.ACTIVE: NodeStep.DEQUEUE,
    QueueState.SUSPENDING: NodeStep.WAIT,
    QueueState.SUSPENDED: NodeStep.DEQUEUE,
    QueueState.FAILED: NodeStep.DEQUEUE,
    QueueState.DELETING: NodeStep.WAIT,
    "STATE_99": NodeStep.DEQUEUE,
}


STATES: Any = tpu_v2.QueuedResourceState.State


@pytest.mark.parametrize("state", [s.name for s in STATES if s])
def test_every_state_of_google_is_in_the_tables(state):
    known = QueueState(state)
    assert step(queued(), state) is WANTED[known]
    assert step(queued(asked=ABSENT, queue_since=NOON), state) is UNWANTED[known]
    assert describe_state(state), "whoever waits is told what it means"


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
    assert step(node, state, now=NOON + STUCK_SECONDS - 1) is NodeStep.WAIT
    assert step(node, state, now=NOON + STUCK_SECONDS) is NodeStep.DEQUEUE


def test_a_node_that_bills_while_its_ticket_cannot_be_deleted_is_deleted_itself():
    node = queued(asked=ABSENT, queue_since=NOON)
    assert step(node, QueueState.PROVISIONING, NodeState.READY) is NodeStep.DELETE
    assert step(node, QueueState.PROVISIONING, NodeState.CREATING) is NodeStep.WAIT


@pytest.mark.parametrize(
    ("sight", "expected"),
    [
        (NodeState.READY, NodeStep.SETTLE),
        (NodeState.CREATING, NodeStep.WAIT),
        (NodeState.REPAIRING, NodeStep.WAIT),
        (NodeState.DELETING, NodeStep.WAIT),
        (NodeState.UNKNOWN, NodeStep.WAIT),
        (NodeState.STOPPED, NodeStep.START),
        (NodeState.PREEMPTED, NodeStep.REPLACE),
        (NodeState.TERMINATED, NodeStep.REPLACE),
    ],
)
def test_once_active_the_node_decides(sight, expected):
    assert step(queued(**SEEN), QueueState.ACTIVE, sight) is expected


def test_an_active_ticket_without_its_node_is_given_some_time_and_then_replaced():
    node = queued(queue_state=QueueState.ACTIVE, queue_since=NOON)
    assert step(node, QueueState.ACTIVE, now=NOON + NODES_WITHIN_SECONDS - 1) is NodeStep.WAIT
    assert step(node, QueueState.ACTIVE, now=NOON + NODES_WITHIN_SECONDS) is NodeStep.REPLACE


def test_an_active_ticket_whose_node_was_up_and_is_gone_is_replaced_at_once():
    assert step(queued(**WAS_UP), QueueState.ACTIVE) is NodeStep.REPLACE


@pytest.mark.parametrize(
    ("stored", "operation", "now", "wanted", "unwanted"),
    [
        # no answer came: the same request is sent again, and nothing is concluded meanwhile
        ({"operation": "", "unanswered_at": NOON}, None, SOON, NodeStep.SEND, NodeStep.WAIT),
        ({"operation": "", "unanswered_at": NOON}, None, LATER, NodeStep.SEND, NodeStep.CLOSE),
        # every create so far was refused for certain: nothing is there, nothing is on its way
        ({"operation": ""}, None, NOON, NodeStep.SEND, NodeStep.CLOSE),
        # accepted, and not shown yet
        ({}, None, SOON, NodeStep.WAIT, NodeStep.WAIT),
        ({}, DONE, SOON, NodeStep.WAIT, NodeStep.WAIT),
        ({}, DONE, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        ({}, REFUSED, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        # accepted only now, after it had been sent in vain for long
        (LATE, DONE, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (LATE, None, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (LATE, DONE, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        # it was seen, so absence is the end of it
        (SEEN, None, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        (WAS_UP, None, SOON, NodeStep.VANISH, NodeStep.CLOSE),
        (WAS_UP | {"replacing": True}, None, SOON, NodeStep.NEXT, NodeStep.CLOSE),
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
        (NodeState.READY, NodeStep.SETTLE, NodeStep.DELETE),
        (NodeState.PREEMPTED, NodeStep.REPLACE, NodeStep.DELETE),
        (NodeState.DELETING, NodeStep.WAIT, NodeStep.WAIT),
        (NodeState.REPAIRING, NodeStep.WAIT, NodeStep.DELETE),
    ],
)
def test_a_node_that_outlives_its_ticket_lives_and_goes_by_itself(sight, wanted, unwanted):
    assert step(queued(**WAS_UP), None, sight) is wanted
    assert step(queued(**WAS_UP, asked=ABSENT), None, sight) is unwanted


def test_somebody_elses_ticket_under_our_name_is_left_alone():
    node = queued(operation="", unanswered_at=NOON)
    foreign = ticket(node, QueueState.ACTIVE, labels={LABEL_ID: "another"})
    assert next_step(node, NodeLook(None, None, foreign), SOON) is NodeStep.CONFLICT
    leaving = replace(node, asked=ABSENT, unanswered_at=None)
    assert next_step(leaving, NodeLook(None, None, foreign), LATER) is NodeStep.CLOSE


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
        ([NodeState.READY, NodeState.READY], NodeStep.SETTLE),
        ([NodeState.READY, NodeState.CREATING], NodeStep.WAIT),
        ([NodeState.READY, NodeState.PREEMPTED], NodeStep.REPLACE),
        ([NodeState.READY, NodeState.REPAIRING], NodeStep.WAIT),
        ([NodeState.READY, None], NodeStep.WAIT),
    ],
)
def test_a_group_is_as_good_as_its_worst_slice(states, expected):
    node, sights = pair(states)
    look = NodeLook(None, None, ticket(node, QueueState.ACTIVE), sights)
    assert next_step(node, look, SOON) is expected


def test_a_group_that_lost_a_slice_is_replaced_whole():
    node, sights = pair([NodeState.READY, None], up_since=NOON)
    look = NodeLook(None, None, ticket(node, QueueState.ACTIVE), sights)
    assert next_step(node, look, SOON) is NodeStep.REPLACE


@pytest.mark.parametrize("state", QueueState)
def test_nodes_are_looked_at_only_once_there_can_be_any(state):
    node = queued()
    assert needs_nodes(node, ticket(node, state)) is (state not in IN_LINE)
    assert needs_nodes(node, None)
