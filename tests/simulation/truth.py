"""What must hold, checked against the emulated cloud's own truth at the moment it matters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from service.application.nodes import NodeService
from service.domain.lease import Lease
from service.domain.node import ENDED, Node
from service.emulator.bill import Transition
from service.emulator.world import World

LABEL = "steward-id"
DEAD = {"DELETING", "PREEMPTED", "TERMINATED"}


class Violation(AssertionError):
    """Something that must never happen did."""


@dataclass
class Truth:
    """An oracle: it watches the world and every commit, and knows not how the service works."""

    world: World
    strangers: set[str] = field(default_factory=set)
    owners: dict[int, str] = field(default_factory=dict)
    """By the uid of a cloud node: the id of ours that asked for it."""
    epoch: int = 0

    def __post_init__(self) -> None:
        self.world.observers.append(self.observe)

    def observe(self, transition: Transition) -> None:
        """At most one living cloud node for each wish, and no stranger is ever touched."""
        record = self.world.nodes.get(transition.name)
        if not transition.before and record is not None:
            owner = record.message.labels.get(LABEL, "")
            if not owner:
                self.strangers.add(transition.name)
                return
            self.owners[transition.uid] = owner
            self._only_one(owner)
        if transition.after == "DELETING" and transition.name in self.strangers:
            raise Violation(f"a stranger's node was deleted: {transition.name}")

    def committed(self, nodes: list[Node], lease: Lease | None) -> None:
        """No false end: what is called ended is not in the cloud. No write by an old lease."""
        if lease is not None:
            if lease.epoch < self.epoch:
                raise Violation(f"a write under epoch {lease.epoch}, after one under {self.epoch}")
            self.epoch = lease.epoch
        for node in nodes:
            if node.state in ENDED and node.cloud_id and node.place.path in self._ours():
                raise Violation(f"{node.cloud_id} is called {node.state} and is in the cloud")

    def at_rest(self, service: NodeService, nodes: list[Node]) -> None:
        """When all is asked to go and nothing goes wrong any more: nothing is left, and the books
        are right."""
        left = sorted(self._ours())
        if left:
            raise Violation(f"left in the cloud: {left}")
        for node in nodes:
            if service.get(node.id).state not in ENDED:
                raise Violation(f"{node.id} never came to its end")
        self.books(service, nodes)

    def books(self, service: NodeService, nodes: list[Node]) -> None:
        """What we charge is what the cloud's own bill says, or within what we call uncertain."""
        billed = self.chip_seconds()
        for node in nodes:
            cost = service.cost(node.id)
            off = abs(cost.chip_seconds - billed[node.id])
            if not off:
                continue
            nanos = cost.cost * off // cost.chip_seconds if cost.chip_seconds else None
            if nanos is None or nanos > cost.uncertainty + 1:
                raise Violation(
                    f"{node.id}: {cost.chip_seconds} chip-seconds charged, {billed[node.id]} on the"
                    f" bill, and only {cost.uncertainty} nano-dollars called uncertain"
                )

    def chip_seconds(self) -> dict[str, int]:
        """What the bill says of each of our nodes, over all its attempts."""
        found: dict[str, int] = defaultdict(int)
        for entry in self.world.bill.entries(self.world.settle()):
            if entry["uid"] in self.owners:
                found[self.owners[entry["uid"]]] += entry["seconds"] * entry["chips"]
        return found

    def _only_one(self, owner: str) -> None:
        living = [
            name
            for name, record in self.world.nodes.items()
            if record.message.labels.get(LABEL) == owner and record.state not in DEAD
        ]
        if len(living) > 1:
            raise Violation(f"two nodes for one wish: {sorted(living)}")

    def _ours(self) -> set[str]:
        return {
            name for name, record in self.world.nodes.items() if record.message.labels.get(LABEL)
        }
