"""A node's life through the real controllers, with the cloud in the test's hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from service.controllers.lifecycle.lifecycle import TURN_SECONDS
from service.domain.errors import (
    CapacityUnavailable,
    CloudUnavailable,
    InvalidRequest,
    LeaseLost,
    QuotaExceeded,
    RateLimited,
)
from service.domain.nodes.node import Asked, CloudNode, NodeState, Place
from service.domain.nodes.placement import Outcome
from tests import factories
from tests.controllers.conftest import Lab

STOCK_OUT = CapacityUnavailable("There is no more capacity in the zone")


def test_a_node_is_asked_for_comes_up_and_is_verified_gone(lab: Lab) -> None:
    node = lab.ask()
    assert node.state == NodeState.REQUESTED
    lab.tick()
    assert lab.node(node).state == NodeState.CREATING
    lab.cloud.come_up()
    lab.tick()
    assert lab.node(node).state == NodeState.READY

    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETING
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETING, "accepted is not gone"
    lab.cloud.settle()
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED


def test_a_settled_node_is_left_alone(lab: Lab) -> None:
    lab.up()
    lab.tick()
    lab.cloud.calls.clear()
    for _ in range(10):
        lab.tick(60)
    assert {verb for verb, _ in lab.cloud.calls} == {"inventory", "queue"}


def test_what_is_sent_carries_our_labels_and_a_name_made_from_our_id(lab: Lab) -> None:
    node = lab.ask(name="train", labels={"exp": "7"})
    lab.tick()
    (seen,) = lab.cloud.nodes.values()
    assert seen.place.cloud_id == f"train-{node.id[-8:]}"
    assert seen.labels == {"exp": "7", "steward-id": node.id, "steward-install": "test"}


def test_a_stock_out_inside_the_operation_moves_on_to_the_next_zone(lab: Lab) -> None:
    node = lab.ask(zone=None, zones=("us-west4-a", "us-central1-a"))
    lab.tick()
    lab.cloud.stock_out(STOCK_OUT)
    lab.tick()
    lab.tick()
    (seen,) = lab.cloud.nodes.values()
    assert seen.place.zone == "us-central1-a"
    lab.cloud.come_up()
    lab.tick()
    with lab.units.reading() as unit:
        outcomes = [(p.zone, p.outcome) for p in unit.placements.list_by_node(node.id)]
    assert outcomes == [
        ("us-west4-a", Outcome.STOCK_OUT),
        ("us-central1-a", Outcome.READY),
    ]
    assert lab.story(node).count("stock_out (There is no more capacity") == 1


def test_one_zone_out_of_stock_is_tried_again_after_a_while_under_a_new_name(lab: Lab) -> None:
    node = lab.ask(name="train")
    lab.tick()
    lab.cloud.stock_out(STOCK_OUT)
    lab.tick()
    waiting = lab.node(node)
    assert waiting.state == NodeState.REQUESTED
    assert "stock_out" in waiting.last_error
    lab.tick(30)
    assert lab.cloud.count("create") == 1
    lab.tick(30)
    assert lab.cloud.count("create") == 2
    assert lab.node(node).cloud_id == f"train-{node.id[-8:]}-2"


@pytest.mark.parametrize("error", [QuotaExceeded("Quota limit exceeded"), STOCK_OUT])
def test_a_refusal_for_want_of_room_tries_the_next_zone_at_once(
    lab: Lab, error: CapacityUnavailable
) -> None:
    lab.ask(zone=None, zones=("us-west4-a", "us-central1-a"))
    lab.cloud.fail("create", error)
    lab.tick()
    lab.tick()
    assert [p.split("/")[3] for v, p in lab.cloud.calls if v == "create"] == [
        "us-west4-a",
        "us-central1-a",
    ]


@pytest.mark.parametrize("error", [RateLimited("too fast"), CloudUnavailable("503")])
def test_a_passing_refusal_is_written_down_and_tried_again(lab: Lab, error: Exception) -> None:
    node = lab.ask()
    lab.cloud.fail("create", error)
    lab.tick()
    assert lab.node(node).last_error == str(error)
    lab.tick(300)
    assert lab.node(node).state == NodeState.CREATING
    assert lab.node(node).last_error == ""


def test_a_request_that_the_cloud_will_never_grant_fails_with_its_reason(lab: Lab) -> None:
    node = lab.ask()
    lab.cloud.fail("create", InvalidRequest("the field is wrong"))
    lab.tick()
    failed = lab.node(node)
    assert (failed.state, failed.last_error) == (NodeState.FAILED, "the field is wrong")
    assert failed.next_try_at is None


def test_a_stranger_under_our_name_is_left_alone_and_reported(lab: Lab) -> None:
    node = lab.ask()
    lab.cloud.fail("create", CloudUnavailable("lost"), after=True)
    lab.tick()
    path = lab.cloud.only
    lab.cloud.nodes[path] = replace(lab.cloud.nodes[path], uid="1", labels={})
    lab.tick(300)
    assert lab.node(node).state == NodeState.FAILED
    assert lab.node(node).last_error == (
        f"{lab.node(node).cloud_id} in us-west4-a exists and is unmanaged; it is not touched."
        " Create the node again: it then gets another name in the cloud"
    )
    assert path in lab.cloud.nodes
    assert lab.cloud.count("delete") == 0


def test_a_lost_answer_is_found_again_and_never_made_twice(lab: Lab) -> None:
    node = lab.ask()
    lab.cloud.fail("create", CloudUnavailable("connection lost"), after=True)
    lab.tick()
    lab.tick(300)
    assert len(lab.cloud.nodes) == 1
    lab.cloud.come_up()
    lab.tick(30)
    assert lab.node(node).state == NodeState.READY


def test_a_deletion_while_the_answer_to_the_create_is_lost_waits_out_the_horizon(lab: Lab) -> None:
    """The call may still take effect: absence proves nothing until it no longer can."""
    node = lab.ask()
    lab.cloud.fail("create", CloudUnavailable("connection lost"))
    lab.tick()
    lab.nodes.delete(node.id)
    lab.tick()
    lab.tick(60)
    assert lab.node(node).state != NodeState.DELETED
    lab.tick(180)
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED


def test_a_node_deleted_before_anything_was_sent_never_reaches_the_cloud(lab: Lab) -> None:
    node = lab.ask()
    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETED
    assert lab.cloud.count("create") == 0


def test_a_delete_that_fails_is_tried_for_ever(lab: Lab) -> None:
    node = lab.up()
    for _ in range(20):
        lab.cloud.fail("delete", CloudUnavailable("503"))
    lab.nodes.delete(node.id)
    for _ in range(25):
        lab.tick(300)
    assert lab.node(node).state == NodeState.DELETING
    lab.cloud.settle()
    lab.tick(300)
    assert lab.node(node).state == NodeState.DELETED


def test_time_to_live_is_counted_from_ready(lab: Lab) -> None:
    node = lab.up(ttl_seconds=600)
    ready_at = lab.node(node).ready_at
    assert ready_at is not None
    assert lab.node(node).deletes_at == ready_at + 600
    lab.tick(560)
    assert lab.node(node).asked is Asked.PRESENT
    lab.tick(40)
    assert lab.node(node).asked is Asked.ABSENT
    assert lab.node(node).delete_reason == "its time to live has expired"
    assert lab.node(node).state == NodeState.DELETING


def test_a_node_that_is_not_ready_in_time_is_given_up_and_leaves_nothing(lab: Lab) -> None:
    node = lab.ask(max_wait_seconds=100)
    lab.tick()
    lab.tick(100)
    lab.tick(60)
    lab.cloud.settle()
    lab.tick(60)
    assert lab.node(node).state == NodeState.FAILED
    assert "not READY within 100 seconds" in lab.node(node).last_error
    assert lab.cloud.nodes == {}


@pytest.mark.parametrize("queued", [False, True])
def test_what_came_up_in_time_and_was_not_seen_is_kept(lab: Lab, queued: bool) -> None:
    node = lab.ask(max_wait_seconds=100, queued=queued)
    lab.tick()
    lab.grant() if queued else lab.cloud.become(NodeState.READY)
    lab.clock.pass_(3_600)  # no daemon runs meanwhile
    lab.lifecycle.tick(lab.lease)
    assert (lab.node(node).asked, lab.node(node).state) == (Asked.PRESENT, NodeState.READY)
    assert lab.node(node).delete_reason == ""


def test_what_cannot_be_looked_at_is_not_given_up_and_a_human_is_told(lab: Lab) -> None:
    node = lab.ask(max_wait_seconds=100)
    lab.tick()
    lab.cloud.become(NodeState.READY)
    for seconds in (100, 1_799, 1, 600):
        lab.clock.pass_(seconds)
        lab.cloud.fail("get", CloudUnavailable("no answer"))
        lab.lifecycle.tick(lab.lease)
    told = [
        event.message
        for _, event in lab.nodes.list_events(node.id, 0, 100)
        if event.kind == "alarm"
    ]
    assert lab.node(node).asked is Asked.PRESENT
    assert len(told) == 1
    assert "should have been given up: it was not READY within 100 seconds" in told[0]
    assert "(no answer)" in told[0]


def test_stop_and_start_again(lab: Lab) -> None:
    node = lab.up()
    lab.nodes.stop(node.id)
    lab.tick()
    lab.cloud.settle()
    lab.tick(15)
    assert lab.node(node).state == NodeState.STOPPED
    stopped_cost = lab.cost(node)
    lab.tick(3_600)
    assert lab.cost(node) == stopped_cost, "stopped costs nothing"
    lab.nodes.start(node.id)
    lab.tick()
    lab.cloud.come_up()
    lab.tick(30)
    assert lab.node(node).state == NodeState.READY


def test_a_node_that_is_started_while_it_is_looked_at_is_not_stopped(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, get = lab.up(), lab.cloud.get
    lab.nodes.stop(node.id)

    def meanwhile(place: Place) -> CloudNode:
        lab.nodes.start(node.id)
        return get(place)

    monkeypatch.setattr(lab.cloud, "get", meanwhile)
    lab.lifecycle.tick(lab.lease)
    lab.tick()
    assert lab.cloud.count("stop") == 0
    assert (lab.node(node).asked, lab.node(node).state) == (Asked.PRESENT, NodeState.READY)


def test_one_poisoned_node_keeps_no_other_from_its_turn(lab: Lab) -> None:
    poisoned, healthy = lab.ask(name="poisoned"), lab.ask(name="healthy")
    lab.cloud.fail("create", ZeroDivisionError("a bug"))
    lab.tick()
    assert lab.node(poisoned).last_error == "internal error: ZeroDivisionError"
    assert lab.node(healthy).state == NodeState.CREATING


def test_a_daemon_that_lost_its_lease_changes_nothing(lab: Lab) -> None:
    nodes = [lab.ask(name=f"n-{number}") for number in range(3)]
    old, old_lease = lab.lifecycle, lab.lease
    lab.start_daemon("second")
    with pytest.raises(LeaseLost):
        old.tick(old_lease)
    assert lab.cloud.calls == []
    assert {lab.node(node).state for node in nodes} == {NodeState.REQUESTED}


def test_what_has_to_go_is_taken_up_before_what_waits_for_longer(lab: Lab) -> None:
    going, living = lab.up(name="going"), lab.up(name="living", ttl_seconds=600)
    waiting = [lab.ask(name=f"waiting-{number}") for number in range(3)]
    lab.clock.pass_(700)
    lab.nodes.delete(going.id)
    with lab.units.reading() as unit:
        due = unit.nodes.list_due(factories.PROJECT, lab.clock(), 100)
    assert set(due[:2]) == {going.id, living.id}
    assert set(due[2:]) == {node.id for node in waiting}


def test_a_turn_that_took_long_begins_no_other_node(lab: Lab) -> None:
    """What was asked to go meanwhile is the first of the next turn."""
    nodes = [lab.ask(name=f"n-{number}") for number in range(3)]
    lab.lifecycle.monotonic = count(0, TURN_SECONDS / 2).__next__
    lab.lifecycle.tick(lab.lease)
    states = [lab.node(node).state for node in nodes]
    assert states.count(NodeState.CREATING) == 1
