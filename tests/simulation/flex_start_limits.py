"""Flex-start nodes: the cloud ends each at its limit, and nobody has to be told to notice."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.emulator.world.bill import Transition
from service.emulator.world.world import World
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Invariants, Violation

SEVEN_DAYS = 7 * 86_400
ACTIVATION_SECONDS = 60
"""Between the last READY and the beginning of the run, at most."""
SEEN_SECONDS = 900
"""Within which daemons that nothing happens to have seen what is over, and cleared it away."""


@dataclass
class FlexStartLimits:
    """Watches the world: how long each node was there for, of those that may be for so long."""

    agenda: Agenda
    world: World
    truth: Invariants
    limits: dict[str, int] = field(default_factory=dict)
    """By the id of ours: the seconds that were asked for."""
    _ready: dict[int, float] = field(default_factory=dict)
    """By uid of a cloud node: its first READY."""

    def begin(self) -> None:
        """Watch from now on."""
        self.world.observers.append(self._observe)

    def mind(self, node: Node, request: RequestedNode) -> None:
        """A node was asked for; where it is flex-start, its time is limited."""
        if request.provisioning_model == "flex_start":
            self.limits[node.id] = request.ttl_seconds or SEVEN_DAYS

    def overdue(self, units: Units) -> list[str]:
        """Nodes that the cloud has long ended, and of which nobody says so."""
        now = self.agenda.now
        over = {
            self.truth.owners[uid]
            for uid, ready in self._ready.items()
            if now > ready + self._limit(uid) + SEEN_SECONDS
        }
        with units.reading() as unit:
            nodes = unit.nodes.find_many(over).values()
        return sorted(
            node.id for node in nodes if not node.has_ended and not node.spec.recreate_on_preemption
        )

    def check_noticed(self, units: Units) -> None:
        """With daemons that nothing happened to, there is none."""
        left = self.overdue(units)
        if left:
            raise Violation(f"{left} ran for as long as it may, and nobody noticed its end")

    def _observe(self, transition: Transition) -> None:
        uid = transition.uid
        if self.truth.owners.get(uid) not in self.limits:
            return
        if transition.after == "READY":
            self._ready.setdefault(uid, transition.at)
        elif transition.before == "READY":
            ran, limit = transition.at - self._ready[uid], self._limit(uid)
            if ran > limit + ACTIVATION_SECONDS:
                self.truth.wrong(f"{transition.name} ran for {ran:.0f} seconds, not {limit}")

    def _limit(self, uid: int) -> int:
        return self.limits[self.truth.owners[uid]]
