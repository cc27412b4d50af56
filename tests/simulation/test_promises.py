"""How long things take and how many calls they cost, in virtual time, while nothing goes wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine

from service.application.nodes.nodes import NodeService
from service.application.orphans import OrphanService
from service.cloud.ports import Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.database_clock import AgreedClock
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.request import RequestedNode
from service.emulator.api.calls.dispatch import answer_message
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.world.bill import Transition
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.databases import fresh_database
from tests.simulation.clock import Agenda, set_databases_clock
from tests.simulation.cloud_faults import METHODS
from tests.simulation.crash_points import CrashPoints
from tests.simulation.rates import drawn
from tests.simulation.replica import (
    INVENTORY_SECONDS,
    LIFECYCLE_SECONDS,
    PROJECT,
    Replica,
)

ZONE = "us-west4-a"
SLACK = 3
"""Seconds that the calls themselves take."""


@dataclass
class CountedSeams(CrashPoints):
    """Seams that keep count of the cloud calls that cross them."""

    calls: list[str] = field(default_factory=list)

    def call(self, verb: str, work: Callable[[], Any], order: Order | None = None) -> Any:
        self.calls.append(verb)
        return super().call(verb, work, order)


@dataclass
class House:
    """One daemon and the emulated cloud, on one clock, and nothing goes wrong."""

    engine: Engine
    agenda: Agenda
    births: list[float] = field(default_factory=list)
    """When a node came to be in the cloud."""

    def __post_init__(self) -> None:
        self.world = build_world(seed=1, clock=lambda: self.agenda.now)
        self.world.observers.append(self._observe)
        control.change_config(self.world, {"telemetry": {"log_entries": 0}})
        self.units = Units(self.engine)
        shared = self.units, PriceBookCache(), self.agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        self.orphans = OrphanService(*shared, [PROJECT])
        seams = CountedSeams(self.agenda, Random(1), drawn(Random(1)), calm=True)
        self.calls = seams.calls
        parts = self.agenda, self.world, self.engine, seams, lambda *_: None
        self.replica = Replica("only", *parts, Random(1))
        self.replica.begin()

    def ask(self, **changes: Any) -> Node:
        request = RequestedNode(
            project=PROJECT, accelerator_type="v5litepod-8", zone=ZONE, **changes
        )
        return self.nodes.request(request).node

    def wait_for(self, state: str, *nodes: Node, seconds: int = 3_600) -> None:
        """Let time go by until all are in that state."""
        for _ in range(0, seconds, 20):
            if all(self.nodes.get(node.id).state == state for node in nodes):
                return
            self.agenda.pass_(20)
        raise AssertionError(f"not all are {state} after {seconds} seconds")

    def _observe(self, transition: Transition) -> None:
        if not transition.before:
            self.births.append(transition.at)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    agenda = Agenda()
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        set_databases_clock(engine, agenda)
        yield House(engine, agenda)
        engine.dispose()


@pytest.mark.deep
@pytest.mark.long
def test_five_hundred_at_once_keep_to_the_rate_and_all_become_ready(house):
    control.change_config(house.world, {"create_rate_per_minute": 91})
    nodes = [house.ask(name=f"n{number}-{secrets.token_hex(3)}") for number in range(500)]
    house.wait_for(NodeState.READY, *nodes)
    assert len(house.births) == 500
    busiest = max(
        sum(start <= born < start + 60 for born in house.births) for start in house.births
    )
    assert busiest <= 70, "sixty a minute, and ten of them at once"
    attempts = {house.nodes.get(node.id).attempt for node in nodes}
    assert attempts == {1}, "no refusal cost anybody an attempt"


def test_what_we_do_not_know_of_is_listed_within_one_inventory_period(house):
    house.agenda.pass_(60)
    asked = METHODS["CreateNode"].request(
        parent=f"projects/{PROJECT}/locations/{ZONE}",
        node_id="stranger",
        node={"accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"},
    )
    assert answer_message(house.world, METHODS["CreateNode"], asked).error is None
    house.agenda.pass_(INVENTORY_SECONDS + SLACK)
    listed = house.orphans.list_all()
    assert [node.orphan.shown.path.rpartition("/")[2] for node in listed] == ["stranger"]


def test_a_preempted_node_is_asked_for_anew_as_soon_as_it_is_out_of_the_way(house):
    """One look, one step, the cloud's own time to delete what holds the quota, and one step."""
    node = house.ask(provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    house.wait_for(NodeState.READY, node)
    house.agenda.pass_(600)
    deleting = house.world.config.seconds_for("delete")
    (name,) = house.world.nodes
    control.preempt_node(house.world, {"name": name})
    lost = house.agenda.now
    house.agenda.pass_(INVENTORY_SECONDS + 2 * LIFECYCLE_SECONDS + deleting + SLACK)
    assert len(house.births) == 2
    spent = house.births[1] - lost
    assert spent <= INVENTORY_SECONDS + 2 * LIFECYCLE_SECONDS + deleting + SLACK


def _deleted_at_once(house: House) -> None:
    """Somebody deletes the only node, and it is gone before anybody looks."""
    control.change_config(house.world, {"durations": {"delete": 0}})
    method, (name,) = METHODS["DeleteNode"], house.world.nodes
    asked = method.request(name=name)
    if house.world.queue.records:
        method, (name,) = METHODS["DeleteQueuedResource"], house.world.queue.records
        asked = method.request(name=name, force=True)
    assert answer_message(house.world, method, asked).error is None


@pytest.mark.parametrize("ttl", [None, 80_000])
@pytest.mark.parametrize("skew", [0, 20, -20, HOUR, -HOUR])
def test_what_is_gone_is_noticed_in_a_minute_though_the_clock_was_set(house, skew, ttl):
    node = house.ask(ttl_seconds=ttl)
    house.wait_for(NodeState.READY, node)
    house.agenda.pass_(600)
    house.replica.skew = skew
    _deleted_at_once(house)
    house.agenda.pass_(60 + SLACK)
    assert house.nodes.get(node.id).state == NodeState.DELETED


@pytest.mark.deep
@pytest.mark.parametrize("queued", [False, True])
def test_the_end_of_what_is_gone_unseen_is_known_to_one_look(house, queued):
    """Each list that shows it is a sight of it, though nothing of it has changed for an hour."""
    node = house.ask(queued=queued)
    house.wait_for(NodeState.READY, node)
    house.agenda.pass_(HOUR)
    _deleted_at_once(house)
    house.world.operations.clear()  # nor does the cloud's record say when
    house.nodes.delete(node.id)
    house.agenda.pass_(300)
    assert house.nodes.get(node.id).state == NodeState.DELETED
    with house.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert usage.end - usage.end_lo <= INVENTORY_SECONDS + SLACK


@pytest.mark.deep
def test_timers_go_by_the_machines_clock_and_are_woken_when_it_is_set_back(house, monkeypatch):
    """What the test before is worth: without the wake nobody would look for an hour."""
    monkeypatch.setattr(AgreedClock, "has_jumped", False)
    node = house.ask()
    house.wait_for(NodeState.READY, node)
    house.replica.skew = -HOUR
    _deleted_at_once(house)
    house.agenda.pass_(HOUR / 2)
    assert house.nodes.get(node.id).state == NodeState.READY
    house.agenda.pass_(HOUR / 2 + 120)
    assert house.nodes.get(node.id).state == NodeState.DELETED


def test_a_daemon_that_was_told_to_stop_holds_nothing_and_goes_on_when_it_is_back(house):
    node = house.ask()
    house.wait_for(NodeState.READY, node)
    house.replica.end()
    with house.units.reading() as unit:
        assert list(unit.leases.list_free([PROJECT])) == [PROJECT]
    _deleted_at_once(house)
    calls = len(house.calls)
    house.agenda.pass_(0.9)  # it is away for a second at least
    assert len(house.calls) == calls
    house.agenda.pass_(120 + 60 + SLACK)
    assert house.nodes.get(node.id).state == NodeState.DELETED


@pytest.mark.deep
def test_a_fleet_at_rest_costs_the_cloud_its_lists_and_nothing_else(house):
    nodes = [house.ask(name=f"n{number}-{secrets.token_hex(3)}") for number in range(20)]
    queued = [house.ask(name=f"q{number}", queued=True) for number in range(5)]
    house.wait_for(NodeState.READY, *nodes, *queued)
    house.agenda.pass_(120)
    house.calls.clear()
    house.agenda.pass_(3_600)
    assert set(house.calls) == {"inventory", "queue"}
    assert len(house.calls) <= 2 * (3_600 // INVENTORY_SECONDS + 1)
