"""What the cloud takes away, or someone else does, or what a look does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Thread

import pytest

from service.cloud.ports import Inventory, Operation, Queue
from service.controllers.inventory.inventory import InventoryController, compare
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import StaleVersion
from service.domain.nodes.node import Node, NodeState
from service.store.nodes import KnownNode, Nodes
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.controllers.conftest import Lab
from tests.databases import wait_for_a_waiter
from tests.hands import NOON


def test_a_preempted_node_is_noticed_closed_deleted_and_verified_gone(lab: Lab) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT)
    lab.tick(3_600)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    cost = lab.cost(node)
    assert lab.cloud.nodes[lab.cloud.only].state == NodeState.DELETING, "it holds quota"
    assert lab.node(node).state == NodeState.DELETING
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETING
    lab.cloud.settle()
    lab.tick(60)
    assert lab.node(node).state == NodeState.DELETED
    assert lab.node(node).delete_reason == "it was preempted in us-west4-a"
    assert lab.cost(node) == cost == lab.posted(node)


def test_a_preempted_node_comes_back_when_its_owner_wants_that(lab: Lab) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    first = lab.cloud.only
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    lab.cloud.settle()
    lab.tick(30)
    lab.tick(30)
    assert lab.cloud.only != first, "names are never reused"
    lab.cloud.come_up()
    lab.tick(15)
    assert lab.node(node).state == NodeState.READY
    assert lab.node(node).attempt == 2
    assert "to make another" in lab.story(node)
    assert "as asked" not in lab.story(node)


@pytest.mark.parametrize("ttl", [None, 90_000])
def test_a_node_deleted_in_the_console_is_gone_only_after_get_says_so(
    lab: Lab, ttl: int | None
) -> None:
    node = lab.up(ttl_seconds=ttl)
    lab.tick(3_600)
    lab.cloud.delete_elsewhere()
    lab.tick(15)
    assert lab.node(node).state == NodeState.DELETED
    assert "deleted outside this service" in lab.story(node)
    assert ("get", lab.node(node).place.path) in lab.cloud.calls


@pytest.mark.parametrize(
    ("due", "tries", "is_woken"),
    [(None, 0, True), (60, 0, False), (61, 0, True), (61, 1, False), (86_400, 0, True)],
)
def test_what_is_missing_is_looked_at_unless_somebody_is_about_to(
    due: int | None, tries: int, is_woken: bool
) -> None:
    nothing = Inventory(factories.PROJECT, b"", dict, frozenset(), 0)
    tickets = Queue(factories.PROJECT, b"", dict, frozenset(), 0)
    known = KnownNode("n", factories.ZONE, "n-1", b"", due and NOON + due, tries=tries)
    found = compare([known], nothing, tickets, NOON)
    assert found.asleep == (("n",) if is_woken else ())


def test_a_list_that_lacks_a_node_is_not_believed(lab: Lab) -> None:
    node = lab.up()
    path = lab.cloud.only
    whole = lab.cloud.nodes.copy()
    lab.cloud.nodes.clear()
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    lab.cloud.nodes.update(whole)
    lab.lifecycle.tick(lab.lease)
    assert lab.node(node).state == NodeState.READY
    assert path in lab.cloud.nodes


def test_a_zone_that_was_not_reachable_says_nothing_about_its_nodes(lab: Lab) -> None:
    node = lab.up()
    lab.tick()
    lab.cloud.calls.clear()
    lab.cloud.unreachable = frozenset({"us-west4-a"})
    for _ in range(5):
        lab.tick(15)
    assert lab.node(node).state == NodeState.READY
    assert {verb for verb, _ in lab.cloud.calls} == {"inventory", "queue"}


def test_a_look_without_one_of_the_zones_does_not_count_as_a_whole_one(lab: Lab) -> None:
    lab.up()
    whole, project = lab.clock(), lab.lease.project
    lab.cloud.unreachable = frozenset({"us-central1-a"})
    lab.tick(15)
    assert lab.inventory.looked_at[project] == whole
    lab.cloud.unreachable = frozenset()
    lab.tick(15)
    assert lab.inventory.looked_at[project] == whole + 30


def test_a_look_of_which_not_all_could_be_written_does_not_count_as_a_whole_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.up()
    whole, project = lab.clock(), lab.lease.project
    assert lab.inventory.looked_at[project] == whole
    operations = lab.cloud.operations

    def overtaken(project: str, zone: str) -> Sequence[Operation]:
        with lab.units() as unit:
            unit.nodes.save(replace(unit.nodes.get(node.id), last_error="somebody was faster"))
        return operations(project, zone)

    monkeypatch.setattr(lab.cloud, "operations", overtaken)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    assert lab.node(node).state == NodeState.READY
    assert lab.inventory.looked_at[project] == whole
    monkeypatch.undo()
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    assert lab.node(node).state == NodeState.PREEMPTED
    assert lab.inventory.looked_at[project] == lab.clock()


def test_a_node_that_is_changed_meanwhile_holds_back_no_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [lab.up(name=f"n-{number}") for number in range(5)]
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    whole = lab.inventory.looked_at[lab.lease.project]
    for node in nodes:
        lab.cloud.become(NodeState.PREEMPTED, lab.node(node).place.path)
    save, overtaken = Nodes.save, nodes[3]

    def save_unless_overtaken(self: Nodes, node: Node) -> Node:
        if node.id == overtaken.id:
            raise StaleVersion(f"node {node.id} was changed by someone else just now")
        return save(self, node)

    monkeypatch.setattr(Nodes, "save", save_unless_overtaken)
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    states = [lab.node(node).state for node in nodes]
    assert states == ["PREEMPTED", "PREEMPTED", "PREEMPTED", "READY", "PREEMPTED"]
    assert lab.inventory.looked_at[lab.lease.project] == whole, "one node was not written"
    monkeypatch.undo()
    lab.clock.pass_(15)
    lab.inventory.tick(lab.lease)
    assert lab.node(overtaken).state == NodeState.PREEMPTED
    assert lab.inventory.looked_at[lab.lease.project] == lab.clock()


@pytest.mark.concurrent
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_missing_nodes_are_written_in_the_order_of_their_ids(lab: Lab) -> None:
    """Who waits for one of several nodes holds none of those that come after it, or two writers
    would wait for each other."""
    low, high = sorted((lab.up(name="a"), lab.up(name="b")), key=lambda node: node.id)
    with lab.units() as unit:
        now = unit.nodes.get(low.id)
        unit.nodes.save(replace(now, next_try_at=lab.clock() + 20))  # the other sleeps: it is woken
    for path in list(lab.cloud.nodes):
        lab.cloud.lose(path)
    look = InventoryController(lab.units, lab.cloud, PriceBookCache(), lab.clock)
    lab.clock.pass_(15)
    looking = Thread(target=look.tick, args=[lab.lease], daemon=True)
    with lab.units() as unit:
        unit.nodes.lock(low.id)
        looking.start()
        wait_for_a_waiter(lab.engine)
        with lab.units() as other:
            other.nodes.lock(high.id)  # raises StoreUnavailable after some seconds if it is held
    looking.join(10)
    assert not looking.is_alive()
    with lab.units.reading() as unit:
        assert {node.id: node.misses for node in unit.nodes.list_open("lab")} == {
            low.id: 1,
            high.id: 1,
        }


def test_a_namesake_made_after_ours_was_lost_is_not_ours(lab: Lab) -> None:
    node = lab.up()
    path = lab.cloud.only
    lab.cloud.nodes[path] = replace(lab.cloud.nodes[path], uid="1")
    lab.nodes.delete(node.id)
    lab.tick(15)
    assert lab.node(node).state == NodeState.DELETED
    assert lab.cloud.count("delete") == 0, "another incarnation is never deleted"


def test_a_state_nobody_knows_is_kept_as_it_is_and_costs_nothing(lab: Lab) -> None:
    node = lab.up()
    lab.cloud.become("STATE_99")
    lab.tick(15)
    assert lab.node(node).state == "STATE_99"
    cost = lab.cost(node)
    lab.tick(600)
    assert lab.cost(node) == cost


@pytest.mark.parametrize("state", [NodeState.REPAIRING, NodeState.RESTARTING])
def test_a_node_under_repair_is_waited_for(lab: Lab, state: NodeState) -> None:
    node = lab.up()
    lab.cloud.become(state)
    lab.tick(15)
    lab.cloud.become(NodeState.READY)
    lab.tick(600)
    assert lab.node(node).state == NodeState.READY
    assert lab.cloud.count("delete") == 0


@pytest.mark.parametrize("state", [NodeState.REPAIRING, NodeState.RESTARTING])
def test_what_breaks_after_a_stop_that_failed_is_charged_until_it_was_seen_broken(
    lab: Lab, state: NodeState
) -> None:
    node = lab.up()
    lab.nodes.stop(node.id)
    lab.clock.pass_(5)
    lab.lifecycle.tick(lab.lease)
    lab.clock.pass_(10)
    lab.cloud.spare()
    up_again = lab.clock()
    lab.clock.pass_(40)
    lab.cloud.become(state)
    lab.tick(5)
    with lab.units.reading() as unit:
        *_, last = sorted(unit.usage.list_by_node(node.id), key=lambda one: one.start)
    assert (last.start, last.end, last.uncertain_seconds) == (up_again, lab.clock(), 45)


def test_a_preemption_within_the_first_minute_costs_nothing(lab: Lab) -> None:
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT)
    lab.tick()
    lab.cloud.come_up()
    lab.tick(15)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    assert lab.cost(node) == 0 == lab.posted(node)
    assert lab.nodes.get_cost(node.id).unpriced_seconds == 0


def lives_twice_in_its_first_minute(lab: Lab, after: int, down: int = 15) -> Node:
    """A spot node that is READY, in maintenance, READY again, and then soon preempted."""
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT)
    lab.tick()
    lab.cloud.come_up()
    lab.tick(10)
    lab.cloud.become(NodeState.RESTARTING)
    lab.tick(down)
    lab.cloud.become(NodeState.READY)
    lab.tick(5)
    lab.clock.pass_(after)
    lab.cloud.become(NodeState.PREEMPTED)
    return node


def test_a_preemption_within_the_first_minute_waives_every_interval_of_the_node(lab: Lab) -> None:
    node = lives_twice_in_its_first_minute(lab, 5)
    assert lab.cost(node) > 0
    lab.tick(5)
    with lab.units.reading() as unit:
        intervals = unit.usage.list_by_node(node.id)
    assert len(intervals) == 2
    assert {interval.free for interval in intervals} == {"preempted in its first minute"}
    assert lab.cost(node) == 0 == lab.posted(node)


def test_a_preemption_seen_too_late_to_tell_makes_every_interval_uncertain(lab: Lab) -> None:
    node = lives_twice_in_its_first_minute(lab, 5)
    lab.tick(60)
    cost = lab.nodes.get_cost(node.id)
    assert cost.uncertainty == cost.cost > 0


def test_a_preemption_after_the_first_minute_waives_nothing(lab: Lab) -> None:
    node = lives_twice_in_its_first_minute(lab, 50)
    lab.tick()
    with lab.units.reading() as unit:
        intervals = unit.usage.list_by_node(node.id)
    assert {interval.free for interval in intervals} == {""}
    assert lab.cost(node) == lab.posted(node) > 0


@pytest.mark.parametrize(("after", "free"), [(10, True), (50, False)])
def test_a_node_preempted_in_maintenance_in_its_first_minute_costs_nothing(
    lab: Lab, after: int, free: bool
) -> None:
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT)
    lab.tick()
    lab.cloud.come_up()
    lab.tick(10)
    lab.cloud.become(NodeState.RESTARTING)
    lab.tick(5)
    lab.clock.pass_(after)
    lab.tick()
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(5)
    cost = lab.nodes.get_cost(node.id)
    assert (cost.cost == 0) is free
    assert lab.posted(node) == cost.cost


def test_the_placement_before_is_not_waived_with_the_next(lab: Lab) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    lab.tick(3_600)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    lab.cloud.settle()
    lab.tick(30)
    lab.tick(30)
    charged = lab.cost(node)
    lab.cloud.come_up()
    lab.tick(15)
    assert lab.cost(node) > charged > 0
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(5)
    assert lab.cost(node) == charged == lab.posted(node)


@pytest.mark.deep
def test_what_google_no_longer_knows_the_state_of_is_told_to_a_human_and_left_alone(
    lab: Lab,
) -> None:
    node = lab.up()
    lab.cloud.become(NodeState.UNKNOWN)
    for _ in range(80):
        lab.tick(30)
    told = [line for line in lab.story(node).splitlines() if "has been UNKNOWN since" in line]
    assert len(told) == 1, "once"
    assert "it is not billed" in told[0]
    assert lab.cloud.count("delete") == 0, "It may be in use"
    lab.cloud.become(NodeState.READY)
    lab.tick(30)
    lab.tick(30)
    assert lab.node(node).alarmed_at is None


def test_a_node_that_shows_the_very_same_after_a_stop_is_news_all_the_same(lab: Lab) -> None:
    node = lab.up()
    lab.tick(15)
    lab.nodes.stop(node.id)
    lab.clock.pass_(5)
    lab.lifecycle.tick(lab.lease)
    lab.cloud.settle()
    lab.nodes.start(node.id)
    for _ in range(2):
        lab.clock.pass_(5)
        lab.lifecycle.tick(lab.lease)
    lab.cloud.come_up()  # no inventory has seen it but READY
    lab.clock.pass_(1)
    lab.inventory.tick(lab.lease)
    assert lab.node(node).state == NodeState.READY
