"""A deletion that does not end is told to a human, with what it costs, whatever it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.errors import CapacityUnavailable, CloudUnavailable
from service.domain.lifecycle.lifecycle import LATE_SECONDS, OVERDUE_SECONDS
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.queued_resource import QueueState
from tests.controllers.conftest import Lab

SIDES = pytest.mark.parametrize(("seconds", "told"), [(1_799, False), (1_800, True)])
NO_ANSWER = CloudUnavailable("no answer")


def look_after(lab: Lab, verb: str, seconds: int) -> None:
    """The deletion fails once more, that long after it began."""
    lab.clock.pass_(seconds)
    lab.cloud.fail(verb, NO_ANSWER)
    lab.lifecycle.tick(lab.lease)


def alarms(lab: Lab, node: Node) -> list[str]:
    return [
        event.message for _, event in lab.nodes.list_events(node.id, 0, 1_000) if is_alarm(event)
    ]


def is_alarm(event: object) -> bool:
    return getattr(event, "kind", "") == "alarm"


def overdue(lab: Lab) -> int:
    with lab.units.reading() as unit:
        return unit.fleet.count_overdue()


def came_up_though_its_create_failed(lab: Lab) -> Node:
    """The operation of a create has failed, the deletion of what is there fails as well, and then
    that is READY: it is billed, and on its way out."""
    node = lab.ask()
    lab.tick()
    for name, operation in lab.cloud.done.items():
        failed = CapacityUnavailable("There is no more capacity in the zone")
        over = replace(operation, done=True, ended_at=lab.clock() - LATE_SECONDS, error=failed)
        lab.cloud.done[name] = over
    lab.cloud.fail("delete", NO_ANSWER)
    lab.tick()
    assert lab.node(node).replacing
    lab.cloud.become(NodeState.READY)
    return node


def lost_a_slice(lab: Lab) -> Node:
    """One slice of two is gone, and their queued resource cannot be deleted."""
    spot = ProvisioningModel.SPOT
    node = lab.ask(queued=True, slices=2, provisioning_model=spot, recreate_on_preemption=True)
    lab.tick()
    lab.grant()
    lab.cloud.become(NodeState.PREEMPTED, next(iter(lab.cloud.nodes)))
    lab.cloud.fail("dequeue", NO_ANSWER)
    lab.tick(15)
    return node


@SIDES
def test_a_node_that_is_still_there_half_an_hour_after_it_should_go(
    lab: Lab, seconds: int, told: bool
) -> None:
    node = lab.up()
    asked = to_rfc3339(lab.clock())
    lab.nodes.delete(node.id)
    look_after(lab, "delete", seconds)
    sentence = (
        f"deletion was requested at {asked}, and {lab.node(node).cloud_id} in us-west4-a is still"
        " there 30 minutes later (READY); it is billed $9.60 an hour. The deletion is retried"
        " indefinitely"
    )
    assert alarms(lab, node) == [sentence] * told
    assert overdue(lab) == told


@SIDES
def test_a_node_that_is_still_there_half_an_hour_after_it_should_make_room(
    lab: Lab, seconds: int, told: bool
) -> None:
    node = came_up_though_its_create_failed(lab)
    began = lab.node(node).replacing_since
    assert began == lab.clock()
    lab.clock.pass_(60)
    lab.cloud.fail("delete", NO_ANSWER)
    lab.inventory.tick(lab.lease)
    look_after(lab, "delete", seconds - 60)
    sentence = (
        f"deletion before the next attempt was requested at {to_rfc3339(began)}, and"
        f" {lab.node(node).cloud_id} in us-west4-a is still there 30 minutes later (READY);"
        " it is billed $9.60 an hour. The deletion is retried indefinitely"
    )
    assert alarms(lab, node) == [sentence] * told
    assert overdue(lab) == told


@SIDES
def test_slices_that_are_billed_on_while_the_group_should_make_room(
    lab: Lab, seconds: int, told: bool
) -> None:
    node = lost_a_slice(lab)
    asked = to_rfc3339(lab.clock())
    look_after(lab, "dequeue", seconds)
    with lab.units.reading() as unit:
        assert len(unit.usage.list_open_of(node.id)) == 1, "one slice is billed"
    sentence = (
        f"deletion before the next attempt was requested at {asked}, and"
        f" {lab.node(node).cloud_id} in us-west4-a is still there 30 minutes later (PREEMPTED, its"
        " queued resource ACTIVE); it is billed $4.6232 an hour. The deletion is retried"
        " indefinitely"
    )
    assert alarms(lab, node) == [sentence] * told
    assert overdue(lab) == told


@SIDES
def test_a_suspended_queued_resource_that_keeps_its_name_and_its_quota(
    lab: Lab, seconds: int, told: bool
) -> None:
    node = lab.ask(queued=True, recreate_on_preemption=True)
    lab.tick()
    lab.cloud.wait(QueueState.SUSPENDED)
    lab.cloud.fail("dequeue", NO_ANSWER)
    lab.tick(15)
    asked = to_rfc3339(lab.clock())
    look_after(lab, "dequeue", seconds)
    sentence = (
        f"deletion before the next attempt was requested at {asked}, and"
        f" {lab.node(node).cloud_id} in us-west4-a is still there 30 minutes later"
        f" ({lab.node(node).state}, its queued resource SUSPENDED); it is not billed."
        " The deletion is retried indefinitely"
    )
    assert alarms(lab, node) == [sentence] * told
    assert overdue(lab) == told


def test_it_is_told_once_and_is_over_once_there_is_room(lab: Lab) -> None:
    node = lost_a_slice(lab)
    for _ in range(3):
        look_after(lab, "dequeue", OVERDUE_SECONDS)
    assert (len(alarms(lab, node)), overdue(lab)) == (1, 1)
    lab.tick(600)
    lab.cloud.clear()
    lab.tick(60)
    lab.tick(60)
    placed = lab.node(node)
    assert placed.attempt == 2
    assert (placed.replacing, placed.replacing_since, placed.alarmed_at) == (False, None, None)
    assert overdue(lab) == 0


def test_what_waits_for_a_place_has_nothing_that_could_be_overdue(lab: Lab) -> None:
    node = came_up_though_its_create_failed(lab)
    look_after(lab, "delete", OVERDUE_SECONDS)
    assert overdue(lab) == 1
    lab.tick(300)
    lab.ask()
    lab.cloud.fail("create", CapacityUnavailable("There is no more capacity in the zone"))
    lab.tick()
    lab.cloud.settle()
    lab.tick(30)
    waiting = lab.node(node)
    assert waiting.sent_at is None
    assert (waiting.attempt, waiting.replacing, waiting.replacing_since) == (1, False, None)
    assert overdue(lab) == 0


def test_what_an_older_program_left_waiting_for_a_place_makes_no_room_once_it_has_one(
    lab: Lab,
) -> None:
    node = lab.ask()
    with lab.units() as unit:
        unit.nodes.save(replace(node, replacing=True))
    lab.tick()
    lab.cloud.come_up()
    lab.tick()
    assert lab.node(node).state == NodeState.READY
    assert lab.cloud.count("delete") == 0


def test_a_deletion_that_is_asked_for_meanwhile_has_its_own_half_hour(lab: Lab) -> None:
    node = came_up_though_its_create_failed(lab)
    look_after(lab, "delete", OVERDUE_SECONDS)
    asked = to_rfc3339(lab.clock())
    lab.nodes.delete(node.id)
    look_after(lab, "delete", OVERDUE_SECONDS - 1)
    assert len(alarms(lab, node)) == 1
    look_after(lab, "delete", 1_800)
    first, second = alarms(lab, node)
    assert first.startswith("deletion before the next attempt was requested at ")
    assert "is still there 30 minutes later" in first
    assert second.startswith(f"deletion was requested at {asked}, and ")
    assert "is still there 59 minutes later" in second
    lab.tick(600)
    lab.cloud.settle()
    lab.tick(60)
    ended = lab.node(node)
    assert ended.state == NodeState.DELETED
    assert (ended.replacing, ended.replacing_since, overdue(lab)) == (False, None, 0)
