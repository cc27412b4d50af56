"""The daemon is killed at every point of a node's life; the next one finds everything again."""

from __future__ import annotations

import pytest

from service.cloud.ports import Operation, Order
from service.domain.errors import CapacityUnavailable, CloudUnavailable
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome
from tests.controllers.conftest import Lab
from tests.fakes import FakeCloud, Killed


def kill(lab: Lab, verb: str, *, after: bool) -> None:
    """The daemon dies in its next call of that verb, and another one takes its place."""
    lab.cloud.fail(verb, Killed(), after=after)
    with pytest.raises(Killed):
        live_on(lab)
    lab.start_daemon(f"after-{verb}-{after}")


def live_on(lab: Lab) -> None:
    """A while goes by."""
    for _ in range(10):
        lab.tick(5)


@pytest.mark.parametrize("after", [False, True])
def test_killed_around_the_create_there_is_one_node_and_it_is_adopted(
    lab: Lab, *, after: bool
) -> None:
    node = lab.ask()
    kill(lab, "create", after=after)
    lab.tick(15)
    lab.tick(15)
    assert len(lab.cloud.nodes) == 1
    ready = lab.cloud.come_up()
    lab.tick(15)
    found = lab.node(node)
    assert found.state == NodeState.READY
    assert found.ready_at == ready, "the operation is found in the cloud's own list"
    assert found.state_since == ready, "when it was, not when it was seen"
    assert lab.nodes.get_cost(node.id).uncertainty == 0


@pytest.mark.parametrize("after", [False, True])
def test_killed_around_the_delete_it_is_deleted_all_the_same(lab: Lab, *, after: bool) -> None:
    node = lab.up()
    lab.tick(600)
    lab.nodes.delete(node.id)
    kill(lab, "delete", after=after)
    lab.tick(15)
    lab.cloud.settle()
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED
    assert lab.cost(node) == lab.posted(node)
    assert lab.nodes.get_cost(node.id).uncertainty == 0


@pytest.mark.parametrize("verb", ["inventory", "get", "operations"])
def test_killed_while_looking_nothing_is_lost(lab: Lab, verb: str) -> None:
    node = lab.ask()
    lab.tick()
    ready = lab.cloud.come_up()
    kill(lab, verb, after=True)
    lab.tick(15)
    assert lab.node(node).state == NodeState.READY
    assert lab.node(node).ready_at == ready


def test_killed_and_down_for_hours_the_cost_is_exact_to_the_second(lab: Lab) -> None:
    node = lab.ask()
    lab.tick()
    lab.clock.pass_(20)
    ready = lab.cloud.come_up()
    lab.clock.pass_(5 * 3_600 + 1)
    lab.start_daemon("after the weekend")
    lab.tick(15)
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    seconds = lab.clock() - ready
    assert lab.nodes.get_cost(node.id).chip_seconds == 8 * seconds
    assert lab.nodes.get_cost(node.id).uncertainty == 0


def test_what_was_ready_and_gone_before_its_create_was_sent_again_is_charged(lab):
    """The answer to the create was lost, nobody looked, and somebody deleted what came of it."""
    lab.cloud.fail("create", CloudUnavailable("the line went dead"), after=True)
    node = lab.ask()
    lab.tick()
    lab.clock.pass_(20)
    ready = lab.cloud.come_up()
    lab.clock.pass_(700)
    lab.cloud.lose()
    gone = lab.clock()
    lab.clock.pass_(60)
    lab.lifecycle.tick(lab.lease)
    with lab.units.reading() as unit:
        (used,) = unit.usage.list_by_node(node.id)
    assert used.start == ready
    assert used.end_lo <= gone <= used.end, "of its end there is no record"
    lab.clock.pass_(30)
    lab.cloud.come_up(lab.node(node).place.path)
    lab.tick()
    with lab.units.reading() as unit:
        first, second = unit.usage.list_by_node(node.id)
    assert first == used
    assert second.start >= used.end


def test_a_stock_out_is_told_as_that_though_the_answer_to_the_create_was_lost(lab: Lab) -> None:
    node = lab.ask(zone=None, zones=("us-west4-a", "us-central1-a"))
    kill(lab, "create", after=True)
    lab.tick()
    assert lab.node(node).state == NodeState.CREATING
    lab.cloud.stock_out(CapacityUnavailable("There is no more capacity in the zone"))
    lab.tick()
    lab.tick()
    assert [placement.outcome for placement in lab.placements(node)] == [
        Outcome.STOCK_OUT,
        Outcome.OPEN,
    ]


def test_an_answer_to_the_create_that_the_inventory_overtook_is_found_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inventory sees the node, and writes it, while the daemon still waits for the answer."""
    create = FakeCloud.create

    def slow(cloud: FakeCloud, order: Order) -> Operation:
        operation = create(cloud, order)
        lab.inventory.tick(lab.lease)
        return operation

    monkeypatch.setattr(FakeCloud, "create", slow)
    node = lab.ask()
    lab.tick()
    lab.tick()
    found = lab.node(node)
    assert found.operation
    assert found.unanswered_at is None
    listed = lab.cloud.count("operations")
    lab.tick()
    assert lab.cloud.count("operations") == listed, "it is looked for once"
    lab.cloud.stock_out(CapacityUnavailable("There is no more capacity in the zone"))
    lab.tick()
    assert lab.placements(node)[0].outcome == Outcome.STOCK_OUT
