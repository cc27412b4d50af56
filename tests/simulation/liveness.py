"""What is asked for comes about, and what runs as it should is left running."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.nodes.node import Asked, Node, NodeState, Place
from service.domain.nodes.slices import place_of, slice_numbers
from service.emulator.world.bill import Transition
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.invariants import LABEL, Invariants

ENDS = {"delete", "dequeue", "stop"}
"""The commands after which a node is not READY any more."""
UNSEEN_SECONDS = 60
"""So long a node may be READY and a daemon not know it: it had looked just before."""
WAITING = {"ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING"}


@dataclass
class Liveness:
    """Watches the world, and each command to end something in it."""

    agenda: Agenda
    units: Units
    truth: Invariants
    others_end: bool
    """Whether budgets or jobs end nodes too, which others judge."""
    told: set[str] = field(default_factory=set)
    """The ids of the nodes that somebody wanted gone."""
    _first_ready: dict[str, float] = field(default_factory=dict)
    """By the id of ours: when it first came up."""
    _seen: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By uid of a cloud node: the states that it was in once it had come up."""
    _ready_at: dict[int, float] = field(default_factory=dict)
    """By the same: when it came up."""
    _never_came: dict[str, int] = field(default_factory=dict)
    """By the full name of a cloud node: the uid of one that was gone before it came up."""

    def begin(self) -> None:
        """Watch from now on."""
        self.truth.world.observers.append(self._observe)

    def unmet(self, nodes: Iterable[Node], *, named_a_quota: bool) -> list[str]:
        """What was asked for and is not so, though it could be: neither the cloud's own queue nor a
        limit that the cloud has named is in the way."""
        with self.units.reading() as unit:
            known = unit.nodes.find_many([node.id for node in nodes]).values()
        return sorted(
            f"{node.id} is to be {node.asked} and is {node.state} ({node.last_error})"
            for node in known
            if not node.has_ended and not _is_met(node) and self._can_be(node, named_a_quota)
        )

    def _can_be(self, node: Node, named_a_quota: bool) -> bool:
        ticket = self.truth.world.queue.records.get(node.place.queue_path)
        if ticket is not None and ticket.state in WAITING:
            return False
        bought = node.spec.provisioning_model == ProvisioningModel.RESERVED
        return not bought and not (named_a_quota and node.state == NodeState.REQUESTED)

    def commanded(self, verb: str, place: Place) -> None:
        """Somebody of ours is about to end what is at that place."""
        if verb not in ENDS:
            return
        for name, record in self.truth.world.nodes.items():
            meant = record.queued_resource if verb == "dequeue" else name
            path = place.queue_path if verb == "dequeue" else place.path
            if meant == path and record.state == "READY":
                self._judge(verb, name, record.message.labels.get(LABEL, ""), record.message.id)

    def _judge(self, verb: str, name: str, owner: str, uid: int) -> None:
        with self.units.reading() as unit:
            node = unit.nodes.find_many([owner]).get(owner)
        if node is None or name not in {
            place_of(node, number).path for number in slice_numbers(node)
        }:
            return  # what is not in the books, or is of an earlier attempt
        if not self._has_reason(verb, node, uid) and not self._is_news(name, node, uid):
            self.truth.wrong(
                f"{verb} was sent for {name}, which is READY and {node.asked}"
                f" ({node.delete_reason or node.last_error})"
            )

    def _is_news(self, name: str, node: Node, uid: int) -> bool:
        """Whether it came up only now, and nobody can know; or it is what a create brought that
        was done twice, after the first node of that name had failed and was to make room."""
        if node.replacing and self._never_came.get(name, uid) != uid:
            return True
        is_seen = node.state == NodeState.READY
        return not is_seen and self.agenda.now - self._ready_at.get(uid, 0.0) < UNSEEN_SECONDS

    def _has_reason(self, verb: str, node: Node, uid: int) -> bool:
        if node.id in self.told or self._seen[uid] - {"READY"}:
            return True
        if node.asked is Asked.STOPPED:
            return verb == "stop"
        if node.asked is Asked.PRESENT:
            return False
        return self.others_end or self._is_over(node)

    def _is_over(self, node: Node) -> bool:
        ready, ttl = self._first_ready.get(node.id), node.spec.ttl_seconds
        return ready is not None and ttl is not None and int(ready) + ttl <= self.agenda.now

    def _observe(self, transition: Transition) -> None:
        owner = self.truth.owners.get(transition.uid)
        if owner is None:
            return
        if transition.before == "CREATING" and not transition.after:
            self._never_came[transition.name] = transition.uid
        if transition.after == "READY":
            self._ready_at[transition.uid] = transition.at
            self._first_ready.setdefault(owner, transition.at)
        if transition.after == "READY" or transition.uid in self._seen:
            self._seen[transition.uid].add(transition.after)


def _is_met(node: Node) -> bool:
    wanted = {Asked.PRESENT: NodeState.READY, Asked.STOPPED: NodeState.STOPPED}
    return node.asked in wanted and node.state == wanted[node.asked]
