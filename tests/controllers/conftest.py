"""A laboratory: real controllers and services on a real database, the cloud in hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Engine

from service.application.costs.costs import CostService
from service.application.nodes.nodes import NodeService
from service.application.pricing.prices import PriceService
from service.controllers.inventory.audit_log import EvidenceController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.domain.lease import Lease
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.placement import Placement
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.controllers.budgeting import BudgetedLab, Post
from tests.fakes import LEASE_CHECKS, FakeCloud, FakeHistory, OutsideTransactions
from tests.hands import HandClock


@dataclass
class Lab:
    """Everything a test needs to live through a node's life."""

    units: Units
    engine: Engine
    clock: HandClock
    cloud: FakeCloud
    lease: Lease = field(init=False)

    def __post_init__(self) -> None:
        self.start_daemon("first")

    def start_daemon(self, holder: str) -> None:
        """A daemon begins, with nothing in its memory; an earlier one's lease is over."""
        outside: Any = OutsideTransactions(self.cloud, self.engine)
        prices = PriceBookCache()
        shared = self.units, outside, prices, self.clock
        with self.units() as unit:
            for project in (factories.PROJECT,):
                held = unit.leases.take(project, holder, 3_600)
                if held is None:
                    unit.leases.release(self.lease)
                    held = unit.leases.take(project, holder, 3_600)
                assert held is not None
                self.lease = held
        self.inventory = InventoryController(*shared)
        self.lifecycle = LifecycleController(
            *shared, Steps(StepContext(*shared, Installation(install="test", period=5)))
        )
        self.lifecycle.workers = 1
        self.metering = MeteringController(self.units, prices, self.clock)
        projects = [factories.PROJECT]
        self.nodes = NodeService(self.units, prices, self.clock, projects)
        self.costs = CostService(self.units, prices, self.clock)
        self.prices = PriceService(self.units, prices, self.clock)

    def ask(self, **changes: Any) -> Node:
        """Someone asks for a node."""
        return self.nodes.request(factories.request(**changes)).node

    def tick(self, seconds: int = 5) -> None:
        """Time passes, and every controller has its turn."""
        self.clock.pass_(seconds)
        self.inventory.tick(self.lease)
        self.lifecycle.tick(self.lease)
        self.metering.tick(self.lease)

    def up(self, **changes: Any) -> Node:
        """A node that was asked for and is READY, as of now."""
        node = self.ask(**changes)
        self.tick()
        self.clock.pass_(20)
        self.cloud.come_up(self.nodes.get(node.id).place.path)
        self.tick()
        node = self.nodes.get(node.id)
        assert node.state == NodeState.READY
        return node

    def node(self, node: Node) -> Node:
        """The node as it is stored now."""
        return self.nodes.get(node.id)

    def cost(self, node: Node) -> int:
        """What it cost so far, in nano-dollars."""
        return self.nodes.get_cost(node.id).cost

    def posted(self, node: Node) -> int:
        """What the ledger says of it, in nano-dollars."""
        return sum(line.amount_nanos for line in self.nodes.list_ledger_lines(node.id, 0, 10_000))

    def listener(self, log: FakeHistory) -> EvidenceController:
        """The one who asks the cloud's log, of a daemon that has just begun."""
        cloud: Any = OutsideTransactions(self.cloud, self.engine)
        history: Any = OutsideTransactions(log, self.engine)  # type: ignore[arg-type]
        return EvidenceController(self.units, cloud, history, PriceBookCache(), self.clock)

    def grant(self) -> None:
        """What is in the queue waits, is granted, and comes up, a look at each."""
        for step in (self.cloud.wait, self.cloud.grant, self.cloud.activate):
            step()
            self.tick(15)

    def placements(self, node: Node) -> tuple[Placement, ...]:
        """Its attempts, first to last."""
        with self.units.reading() as unit:
            return unit.placements.list_by_node(node.id)

    def story(self, node: Node) -> str:
        """Its events, a line each."""
        return "\n".join(event.message for _, event in self.nodes.list_events(node.id, 0, 1_000))


@pytest.fixture(autouse=True)
def lease_checks() -> Iterator[None]:
    """Every command of every controller is given after a look at the lease."""
    with LEASE_CHECKS.watch():
        yield


@pytest.fixture
def log() -> FakeHistory:
    """The cloud's log, in hand."""
    return FakeHistory()


@pytest.fixture
def evidence(lab: Lab, log: FakeHistory) -> EvidenceController:
    """The one who asks it."""
    return lab.listener(log)


@pytest.fixture
def lab(units: Units, engine: Engine, clock: HandClock) -> Lab:
    """A laboratory on an empty database."""
    return Lab(units, engine, clock, FakeCloud(clock))


@pytest.fixture
def budgeted(units: Units, clock: HandClock) -> BudgetedLab:
    """Nodes and budgets, and who looks after them."""
    return BudgetedLab(units, clock)


@pytest.fixture
def post() -> Post:
    """Where messages of budgets go, in hand."""
    return Post()
