"""Nodes that are asked for through the queue: from the ticket to the verified end of both."""

from __future__ import annotations

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import (
    CapacityUnavailable,
    CloudUnavailable,
    InvalidRequest,
    NotAllowed,
)
from service.domain.money import format_usd
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.queued_resource import QueueState
from service.store.node_list import ANY
from tests.controllers.conftest import Lab
from tests.fakes import Killed


def ask(lab: Lab, **changes: object) -> Node:
    """A node that is in the queue."""
    node = lab.ask(queued=True, **changes)
    lab.tick()
    return node


def up(lab: Lab, **changes: object) -> Node:
    node = ask(lab, **changes)
    lab.grant()
    assert lab.node(node).state == NodeState.READY
    return node


def test_a_ticket_is_followed_through_all_its_states(lab: Lab) -> None:
    node = ask(lab)
    assert lab.node(node).state == NodeState.QUEUED
    lab.cloud.wait()
    lab.tick(15)
    assert lab.node(node).queue_state == QueueState.WAITING_FOR_RESOURCES
    lab.cloud.grant()
    lab.tick(15)
    assert lab.node(node).state == NodeState.CREATING
    lab.cloud.activate()
    lab.tick(15)
    assert (lab.node(node).state, lab.node(node).queue_state) == ("READY", "ACTIVE")
    assert "PROVISIONING, was WAITING_FOR_RESOURCES" in lab.story(node)


def test_what_waits_for_days_costs_the_cloud_no_call_but_the_lists(lab: Lab) -> None:
    node = ask(lab)
    lab.cloud.wait()
    lab.tick(15)
    lab.tick(15)
    lab.cloud.calls.clear()
    for _ in range(20):
        lab.tick(15)
    assert {verb for verb, _ in lab.cloud.calls} == {"inventory", "queue"}
    lab.cloud.grant()
    lab.tick(15)
    assert lab.node(node).state == NodeState.CREATING, "the list told of it at once"


def test_a_request_whose_answer_was_lost_is_sent_again_and_is_the_same(lab: Lab) -> None:
    lab.cloud.fail("create", CloudUnavailable("no answer"), after=True)
    node = ask(lab)
    for _ in range(4):
        lab.tick(30)
    assert len(lab.cloud.queues) == 1
    assert lab.node(node).state == NodeState.QUEUED


@pytest.mark.parametrize(
    "state",
    [QueueState.ACCEPTED, QueueState.WAITING_FOR_RESOURCES, QueueState.FAILED],
)
def test_a_ticket_that_has_no_nodes_is_deleted_when_nobody_wants_it(lab: Lab, state: str) -> None:
    node = ask(lab)
    lab.cloud.wait(state)
    lab.nodes.delete(node.id)
    lab.tick(15)
    assert lab.cloud.queues[lab.cloud.ticket].state == QueueState.DELETING
    assert not lab.node(node).has_ended, "a ticket that is going still holds quota"
    lab.cloud.clear()
    lab.tick(15)
    assert lab.node(node).state == NodeState.DELETED


@pytest.mark.parametrize(
    "state", [QueueState.CREATING, QueueState.PROVISIONING, QueueState.SUSPENDING]
)
def test_a_ticket_that_cannot_be_deleted_now_is_waited_for(lab: Lab, state: str) -> None:
    node = ask(lab)
    lab.cloud.wait(state)
    lab.nodes.delete(node.id)
    for _ in range(4):
        lab.tick(30)
    assert lab.cloud.count("dequeue") == 0
    lab.cloud.wait(QueueState.SUSPENDED)
    lab.tick(30)
    lab.cloud.clear()
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_a_ticket_that_is_stuck_is_asked_to_go_again_and_again(lab: Lab) -> None:
    node = ask(lab)
    lab.cloud.wait(QueueState.PROVISIONING)
    lab.nodes.delete(node.id)
    for _ in range(60):
        lab.tick(60)
    assert lab.cloud.count("dequeue") > 2
    assert not lab.node(node).has_ended
    lab.cloud.wait(QueueState.SUSPENDED)
    lab.tick(300)
    lab.cloud.clear()
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_a_node_that_came_after_it_was_cancelled_is_deleted_before_its_ticket_can_be(
    lab: Lab,
) -> None:
    node = ask(lab)
    lab.cloud.wait()
    lab.tick(15)
    lab.cloud.grant()
    lab.nodes.delete(node.id)
    lab.cloud.come_up(lab.cloud.only)  # it is READY, and its ticket still PROVISIONING
    lab.tick(15)
    lab.tick(5)
    assert lab.cloud.nodes[lab.cloud.only].state == NodeState.DELETING
    assert lab.cost(node) >= 0


def test_both_must_be_gone_before_it_counts_as_gone(lab: Lab) -> None:
    node = up(lab)
    lab.nodes.delete(node.id)
    lab.tick(15)
    ticket, path = lab.cloud.ticket, lab.cloud.only
    del lab.cloud.queues[ticket]  # the ticket goes first
    lab.tick(15)
    assert not lab.node(node).has_ended
    del lab.cloud.nodes[path]
    for _ in range(4):
        lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_a_ticket_that_failed_makes_room_for_another_attempt(lab: Lab) -> None:
    node = ask(lab)
    first = lab.cloud.ticket
    lab.cloud.refuse(CapacityUnavailable("no capacity"))
    lab.tick(15)
    assert lab.cloud.queues[first].state == QueueState.DELETING
    lab.cloud.clear()
    for _ in range(10):
        lab.tick(60)
    assert lab.cloud.ticket != first, "names are never used again"
    placements = [placement.outcome for placement in lab.placements(node)]
    assert placements[0] == "stock_out"


def test_a_request_that_can_never_be_granted_fails_with_the_clouds_reason(lab: Lab) -> None:
    node = ask(lab)
    lab.cloud.refuse(InvalidRequest("FLEX_START is not supported for v5litepod-8"))
    lab.tick(15)
    lab.cloud.clear()
    for _ in range(3):
        lab.tick(30)
    assert lab.node(node).state == NodeState.FAILED
    assert "FLEX_START is not supported" in lab.node(node).last_error
    assert not lab.cloud.queues


@pytest.mark.parametrize("leftovers", [True, False])
def test_a_preempted_node_and_its_ticket_are_cleared_away(lab: Lab, leftovers: bool) -> None:
    node = up(lab, provisioning_model=ProvisioningModel.SPOT)
    lab.tick(3_600)
    lab.cloud.suspend(leftovers=leftovers)
    lab.tick(15)
    cost = lab.cost(node)
    assert cost > 0
    lab.cloud.clear()
    for _ in range(3):
        lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED
    assert not lab.cloud.queues
    assert not lab.cloud.nodes
    assert lab.cost(node) == cost == lab.posted(node), "it cost nothing after it was taken back"


def test_what_was_granted_and_taken_back_while_nobody_looked_is_charged_as_uncertain(
    lab: Lab,
) -> None:
    node = ask(lab, provisioning_model=ProvisioningModel.SPOT)
    lab.cloud.wait()
    lab.tick(15)
    looked = lab.clock()
    lab.clock.pass_(600)
    lab.cloud.grant()
    lab.cloud.activate()
    lab.cloud.suspend()
    lab.tick(15)
    lab.cloud.clear()
    for _ in range(3):
        lab.tick(15)
    with lab.units.reading() as unit:
        (used,) = unit.usage.list_by_node(node.id)
    assert used.start == looked
    assert used.end is not None
    assert used.end >= looked + 600
    assert used.uncertain_seconds == used.end - used.start


def test_what_somebody_deleted_in_the_console_does_not_come_back(lab: Lab) -> None:
    node = up(lab, provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    lab.cloud.suspend(initiator="USER")
    lab.tick(15)
    lab.cloud.clear()
    for _ in range(5):
        lab.tick(60)
    gone = lab.node(node)
    assert (gone.state, gone.attempt) == (NodeState.DELETED, 1)
    assert "it was deleted or reset outside this service" in gone.delete_reason
    assert [placement.outcome for placement in lab.placements(node)] == ["vanished"]
    assert "PREEMPTED" not in lab.story(node)
    assert not lab.cloud.queues


def test_a_preempted_node_that_is_to_come_back_gets_a_new_ticket(lab: Lab) -> None:
    node = up(lab, provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    first = lab.cloud.ticket
    lab.cloud.suspend()
    lab.tick(15)
    lab.cloud.clear()
    for _ in range(10):
        lab.tick(60)
    assert lab.cloud.ticket != first
    assert lab.node(node).attempt == 2


def test_several_slices_are_one_node_and_each_is_billed_for_its_own_seconds(lab: Lab) -> None:
    node = ask(lab, slices=3)
    lab.cloud.wait()
    lab.tick(15)
    lab.cloud.grant()
    lab.tick(15)
    slow, *others = list(lab.cloud.nodes)
    for path in others:
        lab.cloud.become(NodeState.READY, path)
    lab.tick(15)
    assert lab.node(node).state == NodeState.CREATING, "one slice is missing"
    with lab.units.reading() as unit:
        assert len(unit.usage.list_open_of(node.id)) == 2, "but two are billed"
    lab.cloud.become(NodeState.READY, slow)
    lab.cloud.activate()
    lab.tick(15)
    assert lab.node(node).state == NodeState.READY
    assert lab.node(node).spec.chips == 24
    lab.tick(3_600)
    document = lab.nodes.list_page(ANY, 10, "").to_dicts()[0]
    assert document["cost"] == format_usd(lab.cost(node)), "the list and the sum agree"
    lab.nodes.delete(node.id)
    lab.tick(15)
    lab.cloud.clear()
    lab.tick(15)
    assert lab.node(node).state == NodeState.DELETED
    assert lab.cost(node) == lab.posted(node)


def test_slices_without_a_queued_resource_are_all_asked_to_go_in_one_look(lab: Lab) -> None:
    """Each look that leaves one of them costs its chips for so long."""
    node = up(lab, slices=3)
    lab.cloud.queues.clear()
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    assert [node.state for node in lab.cloud.nodes.values()] == [NodeState.DELETING] * 3
    assert lab.cloud.count("delete") == 3


def test_no_slice_is_charged_for_what_was_before_it_was_asked_for(lab: Lab) -> None:
    """They come up without a trace, and the last look at the whole project was minutes earlier."""
    lab.tick()
    lab.clock.pass_(300)
    node = lab.ask(queued=True, slices=2)
    lab.lifecycle.tick(lab.lease)
    lab.cloud.grant()
    for path in lab.cloud.nodes:
        lab.cloud.become(NodeState.READY, path)
    lab.tick(40)
    with lab.units.reading() as unit:
        starts = [(usage.start, usage.start_hi) for usage in unit.usage.list_by_node(node.id)]
    assert starts == [(lab.clock() - 40, lab.clock())] * 2


def test_one_lost_slice_ends_the_group_and_its_bill(lab: Lab) -> None:
    node = up(lab, slices=2, provisioning_model=ProvisioningModel.SPOT)
    lab.cloud.become(NodeState.PREEMPTED, next(iter(lab.cloud.nodes)))
    lab.tick(15)
    lab.tick(5)
    assert lab.cloud.queues[lab.cloud.ticket].state == QueueState.DELETING
    lab.cloud.clear()
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED
    with lab.units.reading() as unit:
        assert not unit.usage.list_open_of(node.id)


@pytest.mark.parametrize("after", [True, False])
def test_a_crash_while_leaving_the_queue_loses_nothing(lab: Lab, after: bool) -> None:
    node = up(lab)
    lab.nodes.delete(node.id)
    lab.cloud.fail("dequeue", Killed(), after=after)
    with pytest.raises(Killed):
        lab.tick(15)
    lab.start_daemon("second")
    for _ in range(4):
        lab.tick(30)
    assert lab.cloud.queues[lab.cloud.ticket].state == QueueState.DELETING
    lab.cloud.clear()
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_a_deletion_that_does_not_end_is_told_to_a_human_with_what_it_costs(lab: Lab) -> None:
    node = up(lab)
    lab.nodes.delete(node.id)
    lab.cloud.wait(QueueState.PROVISIONING)
    lab.cloud.fail("delete", CloudUnavailable("no answer"))
    for _ in range(40):
        lab.cloud.fail("delete", CloudUnavailable("no answer"))
        lab.tick(60)
    told = [line for line in lab.story(node).splitlines() if "is still there" in line]
    assert len(told) == 1, "once, not each tick"
    assert "it is billed $" in told[0]
    assert "retried indefinitely" in told[0]


def test_who_may_not_list_the_queue_can_still_have_nodes(lab: Lab) -> None:
    node = lab.ask()
    for _ in range(3):
        lab.cloud.fail("queue", NotAllowed("no permission"))
    lab.tick()
    lab.cloud.come_up()
    lab.tick(15)
    assert lab.node(node).state == NodeState.READY
