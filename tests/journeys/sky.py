"""One daemon and the emulated cloud in this process, on one clock in hand: hours in a moment.

Google's own client talks to the emulator's world; only what was sent may be held up on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.application.nodes.nodes import NodeService
from service.application.orphans import OrphanService
from service.cloud.ports import Order
from service.domain.errors import CloudUnavailable
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints
from tests.simulation.rates import drawn
from tests.simulation.replica import PROJECT, Replica

ZONE = "us-west4-a"


@dataclass
class Wire(CrashPoints):
    """Keeps count of the calls that cross it, and holds up those of the verbs in `slow`."""

    calls: list[str] = field(default_factory=list)
    slow: set[str] = field(default_factory=set)
    on_its_way: list[Callable[[], Any]] = field(default_factory=list)

    def call(self, verb: str, work: Callable[[], Any], order: Order | None = None) -> Any:
        if verb in self.slow:
            self.on_its_way.append(work)
            raise CloudUnavailable("the deadline passed while the call was under way")
        self.calls.append(verb)
        return super().call(verb, work, order)


class Sky:
    """The service and its cloud, both of which nothing befalls but what a test says."""

    def __init__(self, engine: Engine, agenda: Agenda) -> None:
        self.agenda = agenda
        self.world = build_world(seed=1, clock=lambda: agenda.now)
        control.change_config(self.world, {"telemetry": {"log_entries": 0}})
        units = Units(engine)
        shared = units, PriceBookCache(), agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        self.orphans = OrphanService(*shared, [PROJECT])
        self.wire = Wire(agenda, Random(1), drawn(Random(1)), calm=True)
        parts = agenda, self.world, engine, self.wire, lambda *_: None
        Replica("only", *parts, Random(1)).begin()

    def ask(self, **changes: Any) -> Node:
        """Ask for eight v5e chips."""
        request = {"project": PROJECT, "accelerator_type": "v5litepod-8", "zone": ZONE} | changes
        return self.nodes.request(RequestedNode(**request)).node

    def until(self, condition: Callable[[], object], what: str, seconds: int = 3_600) -> int:
        """Let time go by until that is so; answers for how many seconds."""
        for passed in range(0, seconds, 5):
            if condition():
                return passed
            self.agenda.pass_(5)
        raise AssertionError(f"waited {seconds} s for {what} in vain")

    def until_state(self, node: Node, state: str) -> Node:
        """The node, once it is in that state."""
        self.until(lambda: self.nodes.get(node.id).state == state, f"{node.name} to be {state}")
        return self.nodes.get(node.id)

    def land(self) -> None:
        """The first call that was held up takes effect after all."""
        self.wire.slow.clear()
        self.wire.on_its_way[0]()

    def story(self, node: Node) -> str:
        """What is told of the node, a line each."""
        return "\n".join(event.message for _, event in self.nodes.list_events(node.id, 0, 1_000))
