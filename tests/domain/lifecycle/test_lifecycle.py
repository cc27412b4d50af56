"""What to do next with a node: the whole table of what is asked and what is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import CapacityUnavailable, CloudError
from service.domain.lifecycle.expiry import out_of_time
from service.domain.lifecycle.in_flight import IN_FLIGHT_SECONDS
from service.domain.lifecycle.lifecycle import (
    LATE_SECONDS,
    OVERDUE_SECONDS,
    needs_a_human,
    next_step,
    retry_delay,
    wait_delay,
)
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.deletion import overdue_since, wanted_since, with_replacing, with_room
from service.domain.nodes.node import Asked, NodeState
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL, is_ours, labels_for
from tests import factories
from tests.hands import NOON

PRESENT, STOPPED, ABSENT = Asked.PRESENT, Asked.STOPPED, Asked.ABSENT
ALL_ASKED = list(Asked)
WANTED = [PRESENT, STOPPED]

STOCK_OUT = CapacityUnavailable("no capacity in us-west4-a")
RUNNING = factories.operation("create")
DONE = factories.operation("create", done=True, ended_at=NOON + 60)
FAILED = factories.operation("create", done=True, ended_at=NOON + 60, error=STOCK_OUT)
STOPPING = factories.operation("stop")
START_FAILED = factories.operation("start", done=True, error=STOCK_OUT)
DELETING = factories.operation("delete")

SOON = NOON + IN_FLIGHT_SECONDS - 1
LATER = NOON + IN_FLIGHT_SECONDS

NOT_SENT = {"sent_at": None, "attempt": 0, "operation": "", "state": NodeState.REQUESTED}
NO_ANSWER = {"operation": "", "unanswered_at": NOON}
REFUSED = {"operation": ""}
ACCEPTED = {"operation": "operation-create"}
SEEN = {"cloud_uid": "7001"}
UP = {"cloud_uid": "7001", "ready_at": NOON, "up_since": NOON, "operation": ""}


def step(asked, stored, sight, operation=None, now=SOON):
    node = factories.sent(asked=asked, **stored)
    shown = None if sight is None else factories.sight(node, state=sight)
    return next_step(node, NodeLook(shown, operation), now)


@pytest.mark.parametrize(("sent_again_at", "ours"), [(None, False), (0, False), (7, True)])
def test_another_incarnation_is_ours_only_where_the_create_was_sent_twice(sent_again_at, ours):
    again = None if sent_again_at is None else NOON + sent_again_at
    node = factories.sent(cloud_uid="7001", sent_at=NOON, unanswered_at=again)
    sight = factories.sight(node, uid="7002", labels={LABEL_ID: node.id})
    assert is_ours(node, sight) is ours


@pytest.mark.parametrize("stored", [NO_ANSWER, ACCEPTED, UP])
@pytest.mark.parametrize("operation", [None, FAILED, DONE, DELETING])
def test_nothing_is_concluded_while_an_unanswered_create_may_yet_land(stored, operation):
    """It was sent twice: the end of one create says nothing of the other."""
    unsure = {**stored, "unanswered_at": NOON}
    assert step(ABSENT, unsure, None, operation, now=SOON) is NodeStep.WAIT
    assert step(ABSENT, unsure, None, operation, now=LATER) is NodeStep.CLOSE


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(PRESENT, NodeStep.PLACE), (STOPPED, NodeStep.PLACE), (ABSENT, NodeStep.CLOSE)],
)
@pytest.mark.parametrize("now", [NOON, SOON, LATER])
def test_a_request_of_which_nothing_was_sent_is_placed_or_closed(asked, expected, now):
    assert step(asked, NOT_SENT, None, now=now) is expected


@pytest.mark.parametrize(
    ("stored", "operation", "now", "wanted", "unwanted"),
    [
        # the answer to the create was lost: ask again under the same name, conclude nothing yet
        (NO_ANSWER, None, SOON, NodeStep.SEND, NodeStep.WAIT),
        (NO_ANSWER, None, LATER, NodeStep.SEND, NodeStep.CLOSE),
        # every create so far was refused for certain: nothing is there, nothing is on its way
        (REFUSED, None, NOON, NodeStep.SEND, NodeStep.CLOSE),
        (REFUSED, None, LATER, NodeStep.SEND, NodeStep.CLOSE),
        # accepted: its operation decides, however long it takes
        (ACCEPTED, RUNNING, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (ACCEPTED, RUNNING, LATER + 10**6, NodeStep.WAIT, NodeStep.WAIT),
        (ACCEPTED, FAILED, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        (ACCEPTED, FAILED, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        (ACCEPTED, DONE, SOON, NodeStep.VANISH, NodeStep.CLOSE),
        (ACCEPTED, DONE, LATER, NodeStep.VANISH, NodeStep.CLOSE),
        # accepted, but the cloud no longer knows the operation: wait out what is in flight
        (ACCEPTED, None, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (ACCEPTED, None, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        (ACCEPTED | {"sent_at": NOON - 400}, None, SOON, NodeStep.WAIT, NodeStep.WAIT),
        # it was seen but never up: its create decides, and where that is forgotten it had failed
        (SEEN, RUNNING, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (SEEN, FAILED, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        (SEEN, DONE, SOON, NodeStep.VANISH, NodeStep.CLOSE),
        (SEEN | {"operation": ""}, None, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        # it was up, so absence is the end of it
        (UP, RUNNING, SOON, NodeStep.VANISH, NodeStep.CLOSE),
        (UP, None, SOON, NodeStep.VANISH, NodeStep.CLOSE),
        (UP, None, LATER, NodeStep.VANISH, NodeStep.CLOSE),
        (UP | {"operation": "operation-stop"}, STOPPING, LATER, NodeStep.VANISH, NodeStep.CLOSE),
        # we made room for another one
        (UP | {"replacing": True}, DELETING, LATER, NodeStep.NEXT, NodeStep.CLOSE),
        (SEEN | {"replacing": True}, None, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        (ACCEPTED | {"replacing": True}, DELETING, SOON, NodeStep.WAIT, NodeStep.WAIT),
        (ACCEPTED | {"replacing": True}, DELETING, LATER, NodeStep.NEXT, NodeStep.CLOSE),
    ],
)
def test_absence_means_what_the_record_of_the_create_says(stored, operation, now, wanted, unwanted):
    steps = [step(asked, stored, None, operation, now) for asked in ALL_ASKED]
    assert steps == [wanted, wanted, unwanted]


AT_WORK = (NodeStep.WAIT, NodeStep.WAIT, NodeStep.DELETE)
LOST = (NodeStep.REPLACE, NodeStep.REPLACE, NodeStep.DELETE)
BY_STATE = {
    NodeState.REQUESTED: AT_WORK,
    NodeState.QUEUED: AT_WORK,
    NodeState.CREATING: AT_WORK,
    NodeState.READY: (NodeStep.SETTLE, NodeStep.STOP, NodeStep.DELETE),
    NodeState.RESTARTING: AT_WORK,
    NodeState.REIMAGING: AT_WORK,
    NodeState.DELETING: (NodeStep.WAIT, NodeStep.WAIT, NodeStep.WAIT),
    NodeState.REPAIRING: AT_WORK,
    NodeState.STOPPED: (NodeStep.START, NodeStep.SETTLE, NodeStep.DELETE),
    NodeState.STOPPING: AT_WORK,
    NodeState.STARTING: AT_WORK,
    NodeState.PREEMPTED: LOST,
    NodeState.TERMINATED: LOST,
    NodeState.HIDING: AT_WORK,
    NodeState.HIDDEN: AT_WORK,
    NodeState.UNHIDING: AT_WORK,
    NodeState.UNKNOWN: AT_WORK,
    NodeState.FAILED: AT_WORK,
    NodeState.DELETED: AT_WORK,
    "STATE_99": AT_WORK,
    "": AT_WORK,
}


def test_the_table_of_states_leaves_none_out():
    assert set(NodeState) <= set(BY_STATE)


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [
        (NodeState.CREATING, 0, NodeStep.WAIT),
        (NodeState.CREATING, LATE_SECONDS - 1, NodeStep.WAIT),
        (NodeState.CREATING, LATE_SECONDS, NodeStep.REPLACE),
        (NodeState.READY, 0, NodeStep.SETTLE),
        (NodeState.READY, LATE_SECONDS, NodeStep.SETTLE),
    ],
)
def test_what_is_shown_after_its_create_has_failed_may_come_up_in_that_moment(
    state, seconds, expected
):
    assert FAILED.ended_at is not None
    assert step(PRESENT, SEEN, state, FAILED, FAILED.ended_at + seconds) is expected


@pytest.mark.parametrize(("state", "steps"), BY_STATE.items(), ids=str)
@pytest.mark.parametrize("stored", [UP, SEEN, ACCEPTED, NO_ANSWER])
@pytest.mark.parametrize("operation", [None, RUNNING, DONE, STOPPING, START_FAILED])
def test_presence_is_answered_by_the_state_alone(state, steps, stored, operation):
    assert tuple(step(asked, stored, state, operation) for asked in ALL_ASKED) == steps


@pytest.mark.parametrize("state", BY_STATE, ids=str)
@pytest.mark.parametrize("asked", WANTED)
@pytest.mark.parametrize(
    ("stored", "operation"),
    [(ACCEPTED, FAILED), (SEEN, FAILED), (UP | {"replacing": True}, None)],
)
def test_what_failed_or_makes_room_is_replaced_in_whatever_state(state, asked, stored, operation):
    expected = NodeStep.WAIT if state == NodeState.DELETING else NodeStep.REPLACE
    if state == NodeState.READY and operation is FAILED:
        expected = NodeStep.STOP if asked is Asked.STOPPED else NodeStep.SETTLE  # it may be active
    assert step(asked, stored, state, operation) is expected


@pytest.mark.parametrize("state", BY_STATE, ids=str)
@pytest.mark.parametrize(
    ("stored", "operation", "now", "wanted", "unwanted"),
    [
        (UP, None, LATER, NodeStep.VANISH, NodeStep.CLOSE),
        (NO_ANSWER, None, LATER, NodeStep.CONFLICT, NodeStep.CLOSE),
        (NO_ANSWER, None, SOON, NodeStep.CONFLICT, NodeStep.WAIT),
        (ACCEPTED, FAILED, SOON, NodeStep.NEXT, NodeStep.CLOSE),
        (ACCEPTED, RUNNING, SOON, NodeStep.WAIT, NodeStep.WAIT),
    ],
)
def test_a_stranger_that_bears_the_name_is_never_touched(
    state, stored, operation, now, wanted, unwanted
):
    steps = []
    for asked in ALL_ASKED:
        node = factories.sent(asked=asked, **stored)
        stranger = factories.sight(node, state=state, uid="9999", labels={LABEL_ID: "another"})
        steps.append(next_step(node, NodeLook(stranger, operation), now))
    assert steps == [wanted, wanted, unwanted]
    assert not {NodeStep.DELETE, NodeStep.REPLACE, NodeStep.START, NodeStep.STOP} & set(steps)


@pytest.mark.parametrize(
    ("cloud_uid", "uid", "label", "ours"),
    [
        ("", "7001", "mine", True),
        ("", "7001", "another", False),
        ("", "7001", None, False),
        ("7001", "7001", "mine", True),
        ("7001", "7001", None, True),
        ("7001", "7002", "mine", False),
        ("7001", "", "mine", False),
    ],
)
def test_it_is_ours_by_the_incarnation_we_know_or_else_by_our_label(cloud_uid, uid, label, ours):
    node = factories.sent(id="mine", cloud_uid=cloud_uid)
    labels = {} if label is None else {LABEL_ID: label}
    assert is_ours(node, factories.sight(node, uid=uid, labels=labels)) is ours


def test_the_labels_of_a_node_cannot_be_overridden_by_its_caller():
    node = factories.node(id="mine", labels={"team": "vision", LABEL_ID: "x", LABEL_INSTALL: "y"})
    assert labels_for(node, "lab-1") == {
        "team": "vision",
        LABEL_ID: "mine",
        LABEL_INSTALL: "lab-1",
    }


def test_a_late_or_doubled_tick_comes_to_the_same_answer():
    node = factories.sent(**UP)
    look = NodeLook(factories.sight(node))
    assert {next_step(node, look, now) for now in (NOON, NOON, LATER, LATER + 10**6)} == {
        NodeStep.SETTLE
    }


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({}, NOON + 10**9, ""),
        ({"ttl_seconds": 3_600}, NOON + 10**9, ""),
        ({"ttl_seconds": 3_600, "ready_at": NOON}, NOON + 3_599, ""),
        ({"ttl_seconds": 3_600, "ready_at": NOON}, NOON + 3_600, "its time to live has expired"),
        ({"max_wait_seconds": 60}, NOON + 59, ""),
        ({"max_wait_seconds": 60}, NOON + 60, "it was not READY within 60 seconds"),
        ({"max_wait_seconds": 60, "ready_at": NOON}, NOON + 10**9, ""),
        ({"ttl_seconds": 1, "ready_at": NOON, "asked": ABSENT}, NOON + 10**9, ""),
        ({"max_wait_seconds": 1, "asked": ABSENT}, NOON + 10**9, ""),
    ],
)
def test_its_owners_clock_says_when_a_node_must_go(changes, now, reason):
    assert out_of_time(factories.node(**changes), now) == reason


def test_a_time_to_live_is_counted_from_the_first_ready_of_all():
    node = factories.node(ttl_seconds=3_600, ready_at=NOON, up_since=NOON + 3_000)
    assert node.deletes_at == NOON + 3_600
    assert factories.node(ttl_seconds=3_600).deletes_at is None


@pytest.mark.parametrize(
    ("waited", "delay"), [(-10, 5), (0, 5), (19, 5), (40, 10), (119, 29), (120, 30), (10**6, 30)]
)
def test_what_is_waited_for_is_looked_at_ever_less_often(waited, delay):
    assert wait_delay(waited, period=5) == delay


def test_a_call_that_failed_is_tried_again_after_twice_the_time_up_to_five_minutes():
    assert [retry_delay(tries) for tries in range(8)] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert retry_delay(10**6) == 300


def test_an_operation_succeeded_once_it_is_done_without_an_error():
    assert [operation.has_succeeded for operation in (RUNNING, DONE, FAILED)] == [
        False,
        True,
        False,
    ]
    assert not replace(DONE, error=CloudError("no")).has_succeeded


@pytest.mark.parametrize("state", [*NodeState, "STATE_99"])
def test_a_node_has_ended_when_it_failed_or_was_verified_gone(state):
    assert factories.node(state=state).has_ended is (state in {"FAILED", "DELETED"})


def test_the_state_is_as_old_as_its_last_change():
    node = (
        factories.node()
        .with_state(NodeState.READY, NOON + 10)
        .with_state(NodeState.READY, NOON + 20)
    )
    assert (node.state_since, node.seen_at) == (NOON + 10, NOON + 20)


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({}, None),
        ({"delete_requested_at": NOON}, None),
        ({"delete_requested_at": NOON, "alarmed_at": SOON}, SOON),
        ({"delete_requested_at": NOON, "alarmed_at": SOON, "ended_at": LATER}, None),
        ({"state": NodeState.UNKNOWN, "alarmed_at": SOON}, None),
        ({"replacing": True, "replacing_since": NOON}, None),
        ({"replacing": True, "replacing_since": NOON, "alarmed_at": SOON}, SOON),
        ({"replacing_since": NOON, "alarmed_at": SOON}, None),
    ],
)
def test_a_deletion_is_overdue_from_the_alarm_to_its_end(changes, since):
    assert overdue_since(factories.node(**changes)) == since


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({}, None),
        ({"delete_requested_at": SOON}, SOON),
        ({"replacing": True, "replacing_since": NOON}, NOON),
        ({"replacing": True, "replacing_since": NOON, "delete_requested_at": SOON}, SOON),
        ({"replacing_since": NOON}, None),
    ],
)
def test_a_deletion_is_wanted_from_when_it_is_asked_for_or_makes_room(changes, since):
    assert wanted_since(factories.node(**changes)) == since


@pytest.mark.parametrize(
    "why", [{"delete_requested_at": NOON}, {"replacing": True, "replacing_since": NOON}]
)
@pytest.mark.parametrize(
    ("stored", "after", "alarming"),
    [
        ({}, OVERDUE_SECONDS - 1, False),
        ({}, OVERDUE_SECONDS, True),
        ({"alarmed_at": NOON + OVERDUE_SECONDS}, OVERDUE_SECONDS + 1, False),
        ({"sent_at": None}, OVERDUE_SECONDS, False),
    ],
)
def test_a_human_is_told_once_of_a_deletion_that_takes_half_an_hour(why, stored, after, alarming):
    assert needs_a_human(factories.sent(**why, **stored), NOON + after) is alarming


@pytest.mark.parametrize(
    ("stored", "after", "alarming"),
    [
        ({}, 100 + OVERDUE_SECONDS - 1, False),
        ({}, 100 + OVERDUE_SECONDS, True),
        ({"tries": 0}, 100 + OVERDUE_SECONDS, False),
        ({"ready_at": NOON}, 100 + OVERDUE_SECONDS, False),
        ({"sent_at": None}, 100 + OVERDUE_SECONDS, False),
        ({"alarmed_at": NOON}, 100 + OVERDUE_SECONDS, False),
    ],
)
def test_a_human_is_told_of_what_should_have_been_given_up(stored, after, alarming):
    """Unless it was never looked for in vain."""
    node = replace(factories.sent(max_wait_seconds=100, tries=1), **stored)
    assert needs_a_human(node, node.created_at + after) is alarming


def test_what_makes_room_is_told_of_anew_and_what_has_room_is_not():
    told = factories.sent(state=NodeState.UNKNOWN, alarmed_at=NOON)
    replacing = with_replacing(told, SOON)
    assert (replacing.alarmed_at, wanted_since(replacing)) == (None, SOON)
    placed = with_room(replace(replacing, alarmed_at=LATER))
    assert (placed.alarmed_at, wanted_since(placed), placed.replacing_since) == (None, None, None)
