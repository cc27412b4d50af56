"""What must hold, checked against the emulated cloud's own truth at the moment it matters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.lease import Lease
from service.domain.metering.meter import Usage
from service.domain.nodes.node import ENDED, Node
from service.emulator.world.bill import Transition
from service.emulator.world.queue import QueuedTransition
from service.emulator.world.world import World
from service.store.unit import Units

LABEL = "steward-id"
BLINKS = {"RESTARTING", "REIMAGING"}
"""What is over within half a minute: it may come and go between two looks, a reimage when the call
for it takes effect long after it was given up."""
FAILED_DOWNS = {"DELETING", "STOPPING"}
SHORT_SECONDS = 60
"""A deletion or a stop of which nobody has heard that it was taken, and which came to nothing
within that time, is such a blink too."""
DEAD = {"DELETING", "PREEMPTED", "TERMINATED"}


class Violation(BaseException):
    """Something that must never happen did. No controller may catch it."""


@dataclass
class Invariants:
    """An oracle: it watches the world and every commit, and knows not how the service works."""

    world: World
    strangers: set[str] = field(default_factory=set)
    owners: dict[int, str] = field(default_factory=dict)
    """By the uid of a cloud node: the id of ours that asked for it."""
    ended: set[str] = field(default_factory=set)
    """The ids of ours that were called ended."""
    since: dict[int, int] = field(default_factory=dict)
    """By the uid of a cloud node that was adopted: from when on it is ours to pay for."""
    epochs: dict[str, int] = field(default_factory=dict)
    """By project: the latest under which something was written."""
    blinks: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Chip-seconds of them, by the id of ours: down for half a minute, and READY again."""
    returned: set[str] = field(default_factory=set)
    """The full names of queued resources that came back after their end, and not by the service."""
    violations: list[str] = field(default_factory=list)
    """What was seen within a call, where an exception would only become the cloud's answer."""
    _down_since: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.observers.append(self.observe)
        self.world.queue.observers.append(self.observe_queue)

    def observe_queue(self, transition: QueuedTransition) -> None:
        """No stranger's place in the queue is ever touched, and none of ours is taken too late."""
        record = self.world.queue.records.get(transition.name)
        is_new = not transition.before and transition.name not in self.returned
        if is_new and record is not None:
            self._not_too_late(transition.name, record.slices[0].asked.labels.get(LABEL, ""))
        stranger = transition.name.rpartition("/")[2].startswith("stranger")
        if stranger and transition.after in {"DELETING", "SUSPENDING"}:
            self.violations.append(f"a stranger's queued resource was deleted: {transition.name}")

    def observe(self, transition: Transition) -> None:
        """At most one living attempt for each request, and no stranger is ever touched."""
        record = self.world.nodes.get(transition.name)
        if not transition.before and record is not None:
            owner = record.message.labels.get(LABEL, "")
            if not owner:
                self.strangers.add(transition.name)
                return
            self.owners[transition.uid] = owner
            self._only_one(owner)
            self._not_too_late(transition.name, owner)
        self._note_blink(transition)
        if transition.after == "DELETING" and transition.name in self.strangers:
            self.violations.append(f"a stranger's node was deleted: {transition.name}")

    def _note_blink(self, transition: Transition) -> None:
        since = self._down_since.pop(transition.uid, 0.0)
        if transition.after in BLINKS | FAILED_DOWNS:
            self._down_since[transition.uid] = transition.at
        if transition.uid not in self.owners:
            return
        seconds = math.ceil(transition.at - since) + 1
        failed = transition.before in FAILED_DOWNS and transition.after == "READY"
        if transition.before in BLINKS or (failed and seconds <= SHORT_SECONDS):
            self.blinks[self.owners[transition.uid]] += seconds * transition.chips

    def committed(self, nodes: list[Node], lease: Lease | None) -> None:
        """No false end: what is called ended is not in the cloud. No write by an old lease, nor by
        that of another project."""
        if lease is not None:
            latest = self.epochs.get(lease.project, 0)
            if lease.epoch < latest:
                raise self.wrong(f"a write under epoch {lease.epoch}, after one under {latest}")
            self.epochs[lease.project] = lease.epoch
            if others := {node.spec.project for node in nodes} - {lease.project}:
                raise self.wrong(f"a write to {others} under the lease of {lease.project}")
        for node in nodes:
            if node.state in ENDED and (left := self._ours(node.id) - self.returned):
                raise self.wrong(f"{node.name} is called {node.state}, and there is {sorted(left)}")
            if node.state in ENDED:
                self.ended.add(node.id)

    def wrong(self, what: str) -> Violation:
        """Note it as well: whoever calls may take an exception for an affair of its own."""
        self.violations.append(what)
        return Violation(what)

    def adopted(self, uid: int, owner: str, at: int) -> None:
        """A node that was there is charged to that one of ours from now on."""
        self.owners[uid], self.since[uid] = owner, at

    def at_rest(self, units: Units, nodes: list[Node], *, lied: int) -> None:
        """When all is asked to go and nothing goes wrong any more: nothing is left, and the books
        are right, but for the seconds for which answers lied."""
        if self.violations:
            raise Violation(self.violations[0])
        left = self.left()
        if left:
            raise Violation(f"left in the cloud: {left}")
        billed = self.chip_seconds()
        with units.reading() as unit:
            for node in map(unit.nodes.get, [node.id for node in nodes]):
                if node.state not in ENDED:
                    raise Violation(f"{node.id} never came to its end")
                _check_books(
                    node,
                    unit.usage.list_by_node(node.id),
                    billed[node.id],
                    self.blinks[node.id],
                    lied=lied,
                )

    def left(self) -> list[str]:
        """Nodes and queued resources of ours that are in the cloud."""
        return sorted(self._ours())

    def chip_seconds(self) -> dict[str, int]:
        """What the bill says of each of our nodes, over all its attempts."""
        found: dict[str, int] = defaultdict(int)
        for entry in self.world.bill.list_entries(self.world.run_due_events()):
            if entry["uid"] in self.owners:
                start = max(entry["start"], self.since.get(entry["uid"], 0))
                seconds = max(0, entry["end"] - start) if entry["seconds"] else 0
                found[self.owners[entry["uid"]]] += seconds * entry["chips"]
        return found

    def _only_one(self, owner: str) -> None:
        living = {
            record.queued_resource or name
            for name, record in self.world.nodes.items()
            if record.message.labels.get(LABEL) == owner and record.state not in DEAD
        }
        if len(living) > 1:
            self.violations.append(f"two nodes for one request: {sorted(living)}")

    def _not_too_late(self, name: str, owner: str) -> None:
        if owner in self.ended:
            self.violations.append(f"{name} came to be after its end was told")

    def _ours(self, owner: str = "") -> set[str]:
        """Nodes and queued resources of ours, of one request or of all."""

        def is_ours(labels: Mapping[str, str]) -> bool:
            return labels.get(LABEL) == owner if owner else LABEL in labels

        return {
            name for name, record in self.world.nodes.items() if is_ours(record.message.labels)
        } | {
            name
            for name, record in self.world.queue.records.items()
            if is_ours(record.slices[0].asked.labels)
        }


def _check_books(
    node: Node, usage: Sequence[Usage], billed: int, blinks: int, *, lied: int
) -> None:
    """What is charged are outer bounds: never less than the cloud's own bill, and more by no more
    than what is called uncertain. A blink between two looks leaves no trace to see it by; and
    where answers lied, when a node was last seen is a lie as well: for so many seconds at most."""
    charged = sum(each.chips * (_end(each) - each.start) for each in usage if not each.free)
    unsure = sum(each.chips * each.uncertain_seconds for each in usage)
    if any(each.start < node.created_at for each in usage):
        raise Violation(f"{node.id} is charged for what was before it was asked for")
    if any(_end(each) > (node.ended_at or 0) for each in usage):
        raise Violation(f"{node.id} is charged for what was after it was told gone")
    slack = lied * sum({each.slice: each.chips for each in usage}.values())
    if not charged - unsure - blinks - slack <= billed <= charged + slack:
        raise Violation(
            f"{node.id}: {charged} chip-seconds charged, {billed} on the bill,"
            f" {unsure} called uncertain, {blinks} in blinks, {slack} in lies"
        )


def _end(usage: Usage) -> int:
    if usage.end is None:
        raise Violation(f"usage {usage.id} of an ended node has no end")
    return usage.end
