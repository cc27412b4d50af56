"""The end of a node as its owner reads it: asked for once, whatever fails, and why it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import CloudUnavailable
from service.domain.nodes.node import Node, NodeState, Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.queued_resource import QueueState
from tests.controllers.conftest import Lab
from tests.fakes import Killed

NODE = "deletion of the node in us-west4-a: requested by a caller"
QUEUE = "deletion of its queued resource in us-west4-a: requested by a caller"
SLICES = "deletion of its slices in us-west4-a: requested by a caller"


def lines(lab: Lab, node: Node, said: str) -> int:
    return lab.story(node).splitlines().count(said)


def gone(lab: Lab, node: Node) -> None:
    for _ in range(8):
        lab.cloud.settle()
        lab.cloud.clear()
        lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED


@pytest.mark.parametrize("last_seen", [5, 60])
def test_what_somebody_stopped_between_the_last_look_and_our_deletion_costs_until_the_stop(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, last_seen: int
) -> None:
    node = lab.up()
    delete, stopped = lab.cloud.delete, lab.clock() + last_seen

    def stopped_before(place: Place) -> Operation:
        lab.cloud.stop(place)
        lab.clock.pass_(1)
        lab.cloud.settle()
        lab.clock.pass_(3)
        return delete(place)

    monkeypatch.setattr(lab.cloud, "delete", stopped_before)
    lab.nodes.delete(node.id)
    lab.tick(last_seen)
    with lab.units.reading() as unit:
        (before,) = unit.usage.list_by_node(node.id)
    assert before.end == stopped + 4
    gone(lab, node)
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert (usage.end_lo, usage.end) == (stopped, stopped)
    assert lab.cost(node) == lab.posted(node)
    assert "4 s longer than recorded" in lab.story(node)


@pytest.mark.parametrize(
    ("model", "slept", "uncertain"),
    [
        (ProvisioningModel.SPOT, 700, 700),
        (ProvisioningModel.SPOT, 3, 0),
        (ProvisioningModel.ON_DEMAND, 700, 0),
    ],
)
def test_a_spot_node_may_have_been_preempted_while_we_slept_before_the_deletion(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    model: ProvisioningModel,
    slept: int,
    uncertain: int,
) -> None:
    node = lab.up(provisioning_model=model)
    delete, looked = lab.cloud.delete, lab.clock() + 60

    def sleep_before(place: Place) -> Operation:
        lab.clock.pass_(slept)
        return delete(place)

    monkeypatch.setattr(lab.cloud, "delete", sleep_before)
    lab.nodes.delete(node.id)
    lab.tick(60)
    monkeypatch.undo()
    gone(lab, node)
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert (usage.end, usage.uncertain_seconds) == (looked + slept, uncertain)


def test_what_ran_after_a_deletion_that_failed_unseen_is_charged(lab: Lab) -> None:
    node = lab.up()
    lab.nodes.delete(node.id)
    lab.tick(60)
    lab.clock.pass_(10)
    lab.cloud.spare()
    lab.clock.pass_(300)
    lab.cloud.delete_elsewhere()
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED
    with lab.units.reading() as unit:
        _, unseen = unit.usage.list_by_node(node.id)
    assert unseen.end is not None
    assert (unseen.end - unseen.start, unseen.uncertain_seconds) == (300, 300)
    assert lab.cost(node) == lab.posted(node)


def queued(lab: Lab, slices: int = 1) -> Node:
    """A node that came up through the queue."""
    node = lab.ask(queued=True, slices=slices)
    lab.tick()
    lab.cloud.wait()
    lab.cloud.grant()
    lab.tick(30)
    lab.cloud.activate()
    lab.tick(30)
    assert lab.node(node).state == NodeState.READY
    return node


@pytest.mark.parametrize("failures", [0, 1, 4])
def test_the_deletion_of_a_node_is_told_once_however_often_it_fails(
    lab: Lab, failures: int
) -> None:
    node = lab.up()
    for _ in range(failures):
        lab.cloud.fail("delete", CloudUnavailable("no answer"))
    lab.nodes.delete(node.id)
    for _ in range(failures + 1):
        lab.tick(300)
    assert lab.cloud.count("delete") == failures + 1
    gone(lab, node)
    assert lines(lab, node, NODE) == 1
    assert lines(lab, node, "DELETING in us-west4-a, was READY") == 1


@pytest.mark.parametrize("error", [CloudUnavailable("no answer"), Killed()])
def test_a_deletion_whose_answer_is_lost_is_told_of_all_the_same(
    lab: Lab, error: BaseException
) -> None:
    node = lab.up()
    lab.cloud.fail("delete", error, after=True)
    lab.nodes.delete(node.id)
    try:
        lab.tick()
    except Killed:
        lab.start_daemon("second")
    gone(lab, node)
    assert lines(lab, node, NODE) == 1
    assert lab.cloud.count("delete") == 1


def test_the_deletion_of_a_queued_resource_is_told_once_after_failures_too(lab: Lab) -> None:
    node = queued(lab)
    for _ in range(3):
        lab.cloud.fail("dequeue", CloudUnavailable("no answer"))
    lab.nodes.delete(node.id)
    for _ in range(5):
        lab.tick(300)
    gone(lab, node)
    assert lines(lab, node, QUEUE) == 1


@pytest.mark.parametrize("slices", [1, 2])
def test_an_accepted_deletion_of_a_queued_resource_is_not_failing(lab: Lab, slices: int) -> None:
    node = queued(lab, slices)
    lab.nodes.delete(node.id)
    lab.tick()
    with lab.units.reading() as unit:
        assert unit.fleet.list_failing_deletions() == []


def test_a_queued_resource_whose_deletion_is_refused_again_is_failing(lab: Lab) -> None:
    node = queued(lab)
    for _ in range(2):
        lab.cloud.fail("dequeue", CloudUnavailable("no answer"))
    lab.nodes.delete(node.id)
    lab.tick(60)
    lab.tick(60)
    with lab.units.reading() as unit:
        (failing,) = unit.fleet.list_failing_deletions()
    assert (failing.node_id, failing.tries, failing.error) == (node.id, 2, "no answer")


def test_a_queued_resource_that_stays_after_an_accepted_deletion_is_failing(lab: Lab) -> None:
    node = queued(lab)
    lab.nodes.delete(node.id)
    lab.tick(60)
    (path,) = lab.cloud.queues
    lab.cloud.queues[path] = replace(lab.cloud.queues[path], state=QueueState.ACTIVE)
    lab.tick(60)
    with lab.units.reading() as unit:
        (failing,) = unit.fleet.list_failing_deletions()
    assert failing.node_id == node.id


def test_the_deletion_of_slices_is_told_once_after_failures_too(lab: Lab) -> None:
    node = queued(lab, slices=2)
    path = lab.cloud.ticket
    lab.cloud.queues[path] = replace(lab.cloud.queues[path], state=QueueState.PROVISIONING)
    lab.cloud.fail("delete", CloudUnavailable("no answer"))
    lab.nodes.delete(node.id)
    lab.tick(300)
    lab.tick(300)
    assert lab.cloud.count("delete") > 1
    assert lines(lab, node, SLICES) == 1


def test_all_slices_are_deleted_in_one_look(lab: Lab) -> None:
    node = queued(lab, slices=3)
    path, slices = lab.cloud.ticket, set(lab.cloud.nodes)
    lab.cloud.queues[path] = replace(lab.cloud.queues[path], state=QueueState.PROVISIONING)
    lab.nodes.delete(node.id)
    lab.tick()
    assert {target for verb, target in lab.cloud.calls if verb == "delete"} == slices
    assert {shown.state for shown in lab.cloud.nodes.values()} == {NodeState.DELETING}


def test_a_second_attempt_is_deleted_with_a_line_of_its_own(lab: Lab) -> None:
    node = lab.up(recreate_on_preemption=True)
    for _ in range(2):
        lab.tick(3_600)
        lab.cloud.become(NodeState.PREEMPTED)
        lab.tick(15)
        lab.cloud.settle()
        for _ in range(12):
            lab.tick(60)
        lab.cloud.come_up()
        lab.tick(30)
    assert lines(lab, node, "deletion of the node in us-west4-a: to make another") == 2


def test_a_node_that_google_took_from_the_queue_says_so_and_not_that_it_was_suspended(
    lab: Lab,
) -> None:
    node = queued(lab)
    lab.cloud.suspend()
    lab.tick(15)
    gone(lab, node)
    why = "its queued resource in us-west4-a was suspended: Google reclaimed its nodes"
    assert lab.node(node).delete_reason == why
    assert f"DELETED: verified gone; {why}" in lab.story(node)


def test_one_slice_that_is_lost_is_named_as_the_reason_for_the_end_of_all(lab: Lab) -> None:
    node = queued(lab, slices=3)
    lab.cloud.become(NodeState.PREEMPTED, sorted(lab.cloud.nodes)[1])
    lab.tick(15)
    gone(lab, node)
    assert lab.node(node).delete_reason == "slice 1 of 3 was preempted in us-west4-a"


def persist_looks(lab: Lab) -> None:
    """What a renewal of the lease writes down, as the daemon does every few seconds."""
    looked_at = lab.inventory.looked_at[lab.lease.project]
    with lab.units() as unit:
        unit.leases.renew(lab.lease.project, lab.lease.holder, 3_600, looked_at)


def taken_unseen(lab: Lab, *, last_seen: int) -> Node:
    """A node that a list has just shown, and that is gone now without any record."""
    node = queued(lab)
    lab.tick(60)
    lab.clock.pass_(last_seen)
    lab.inventory.tick(lab.lease)
    persist_looks(lab)
    lab.cloud.lose()
    return node


def unknown(lab: Lab, node: Node) -> tuple[int, int]:
    """Between when and when its use ended."""
    gone(lab, node)
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert usage.end_lo is not None
    assert usage.end is not None
    return usage.end_lo, usage.end


def test_the_lists_say_until_when_a_node_was_there_that_our_deletion_finds_gone(lab: Lab) -> None:
    """A list that shows what is known is not written down; it counts all the same."""
    node, shown = taken_unseen(lab, last_seen=600), lab.clock()
    lab.nodes.delete(node.id)
    for _ in range(3):
        lab.clock.pass_(10)
        lab.lifecycle.tick(lab.lease)
        lab.cloud.clear()
    assert unknown(lab, node) == (shown, shown + 20)


def test_a_list_that_lacked_a_node_says_nothing_of_the_time_before(lab: Lab) -> None:
    node, shown = taken_unseen(lab, last_seen=600), lab.clock()
    lab.clock.pass_(40)
    lab.inventory.tick(lab.lease)
    persist_looks(lab)
    lab.nodes.delete(node.id)
    lab.clock.pass_(30)
    lab.lifecycle.tick(lab.lease)
    assert unknown(lab, node) == (shown, shown + 40)


def test_a_list_that_shows_a_namesake_is_no_look_at_the_node(lab: Lab) -> None:
    node = queued(lab)
    lab.tick(600)
    persist_looks(lab)
    shown, path = lab.clock(), lab.cloud.only
    lab.cloud.nodes[path] = replace(lab.cloud.nodes[path], uid="another", labels={})
    lab.clock.pass_(40)
    lab.inventory.tick(lab.lease)
    persist_looks(lab)
    lab.cloud.lose()
    lab.nodes.delete(node.id)
    lab.clock.pass_(30)
    lab.lifecycle.tick(lab.lease)
    assert unknown(lab, node) == (shown, shown + 130)
