"""Looks at a whole project at once and writes down what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Protocol

import structlog

from service.cloud.ports import EVERYWHERE, Inventory, Queue, Sighting, TpuCloud
from service.controllers.inventory.interruptions import InterruptionSearch
from service.controllers.recording.operation_log import OperationLog
from service.controllers.recording.recording import (
    Sights,
    believe,
    lock_and_price,
    needs_evidence,
)
from service.domain.clock import Clock
from service.domain.errors import NotAllowed
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.absence import LOOKS
from service.domain.nodes.node import Node
from service.domain.nodes.ownership import is_ours
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource
from service.domain.nodes.slices import WHOLE, part
from service.store.nodes import Fingerprint, KnownNode
from service.store.pricebook import PriceShelf
from service.store.unit import Units

log = structlog.get_logger()

Batch = Mapping[str, Mapping[int, Sighting]]
"""What is shown of some nodes, by their ids and the numbers of their slices."""

BATCH = 200
"""Nodes written in one transaction: few enough that no other writer waits for long."""


SOON_SECONDS = 60
"""Within so many seconds the lifecycle looks by itself at a node that is not settled."""


class InventoryListener(Protocol):
    """Whoever else wants to know what an inventory shows, without another call to the cloud."""

    def saw(
        self,
        inventory: Inventory,
        queue: Queue,
        lease: Lease,
        asked: int,
        stored: Fingerprint | None = None,
    ) -> None:
        """Called after each look that was answered, be it complete or not; `asked` is the whole
        UTC second in which it began. `stored` is the fingerprint of the records, where the look
        found them as they were."""
        ...


@dataclass(frozen=True, slots=True)
class InventoryChanges:
    """What one look shows otherwise than it is stored.

    `changed` are the sightings of each node that shows otherwise, by slice number. `asleep` are
    nodes that nobody looks after just now and should: those that lack something, and those whose
    queued resource has moved on. `missing` are those that lack something as of a few looks, `found`
    those that did and do no more. `lacking` says that any is not shown at all.
    """

    changed: dict[str, dict[int, Sighting]]
    asleep: tuple[str, ...]
    missing: tuple[KnownNode, ...]
    found: tuple[str, ...]
    lacking: bool

    @property
    def none(self) -> bool:
        """Whether both sides agree: as long as neither changes, there is nothing to compare."""
        return not (self.changed or self.asleep or self.found or self.lacking)


def compare(
    known: Iterable[KnownNode], inventory: Inventory, queue: Queue, now: int
) -> InventoryChanges:
    """Tell what changed and what is missing. Absence counts only where the lists know."""
    changed: dict[str, dict[int, Sighting]] = {}
    asleep: list[str] = []
    missing: list[KnownNode] = []
    found: list[str] = []
    lacking = False
    nodes, entries, project = inventory.sightings(), queue.entries(), inventory.project
    for node in known:
        where = f"projects/{project}/locations/{node.zone}"
        seen = _seen(node, f"{where}/nodes/{node.cloud_id}", nodes)
        expected = 0 if node.queue_state in IN_LINE else node.slices or 1
        if seen and digest_of(seen) != node.digest:
            changed[node.id] = seen
        ticket = f"{where}/queuedResources/{node.cloud_id}"
        lacks, known_of = len(seen) < expected, inventory.knows(node.zone)
        lost = _lost_ticket(node, ticket, queue, entries)
        lacking = lacking or lacks
        if (lacks and known_of) or lost:
            if node.misses < LOOKS:
                missing.append(node)
            if lost or _is_left_alone(node, now):
                asleep.append(node.id)
        elif node.misses and not lacks:
            found.append(node.id)
        if _moved_on(node, ticket, entries):
            asleep.append(node.id)
    return InventoryChanges(changed, tuple(asleep), tuple(missing), tuple(found), lacking)


def _is_left_alone(node: KnownNode, now: int) -> bool:
    """Whether the lifecycle does not look at it soon. It looks at a settled node never, or only
    when its time is over. A step that failed is tried again when the cloud allows it: that is not
    hurried."""
    due = node.next_try_at
    return due is None or (not node.tries and due - now > SOON_SECONDS)


def _lost_ticket(
    node: KnownNode, path: str, queue: Queue, entries: Mapping[str, QueuedResource]
) -> bool:
    """Whether its queued resource was there and is not."""
    return bool(node.queue_state) and path not in entries and queue.knows(node.zone)


def _moved_on(node: KnownNode, path: str, entries: Mapping[str, QueuedResource]) -> bool:
    """Whether its queued resource is no longer in the state in which it was last seen."""
    entry = entries.get(path)
    return bool(node.queue_state) and entry is not None and entry.state != node.queue_state


def _seen(node: KnownNode, path: str, nodes: Mapping[str, Sighting]) -> dict[int, Sighting]:
    if not node.slices:
        sighting = nodes.get(path)
        return {} if sighting is None else {WHOLE: sighting}
    found = ((number, nodes.get(f"{path}-{number}")) for number in range(node.slices))
    return {number: sighting for number, sighting in found if sighting is not None}


def digest_of(seen: Mapping[int, Sighting]) -> bytes:
    """One digest for all that was seen of a node."""
    if len(seen) == 1 and WHOLE in seen:
        return seen[WHOLE].digest
    seal = blake2b(digest_size=8)
    for number, sighting in seen.items():
        seal.update(number.to_bytes(4) + sighting.digest)
    return seal.digest()


class InventoryController:
    """Level-triggered: what it missed while it was down, it sees at the next look."""

    name = "inventory"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        prices: PriceShelf,
        clock: Clock,
        onlookers: Sequence[InventoryListener] = (),
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._onlookers = tuple(onlookers)
        self._recall = InterruptionSearch(units, cloud, prices)
        self.looked_at: dict[str, int] = {}
        self._agreed: dict[str, tuple[Lease, bytes, Fingerprint]] = {}
        """What both sides were when they agreed, by project."""

    def tick(self, lease: Lease) -> None:
        """One look; a node that is missing is only handed to the lifecycle, which asks for it by
        name: absence from a list alone proves nothing."""
        asked = self._clock()
        inventory = self._cloud.inventory(lease.project)
        queue = self._queue(lease.project)
        shown = inventory.digest + queue.digest
        with self._units.reading() as unit:
            stored = unit.nodes.fingerprint(lease.project)
        noted = self._recall.recall(lease, inventory, self._looked_at(lease), self._clock())
        agreed = self._agreed.get(lease.project) == (lease, shown, stored)
        if not agreed:
            self._agreed.pop(lease.project, None)
            difference = self._compare(inventory, queue, lease)
            noted = self._note(difference, lease, asked) and noted
            if difference.none:
                self._agreed[lease.project] = lease, shown, stored
        if noted and not inventory.unreachable:
            self.looked_at[lease.project] = asked
        for onlooker in self._onlookers:
            onlooker.saw(inventory, queue, lease, asked, stored if agreed else None)

    def _queue(self, project: str) -> Queue:
        """All queued resources. Who may not list them can still have nodes."""
        try:
            return self._cloud.queue(project)
        except NotAllowed as error:
            log.warning("inventory.no_queue", project=project, reason=str(error))
            return Queue(project, b"", dict, frozenset({EVERYWHERE}), 0)

    def _compare(self, inventory: Inventory, queue: Queue, lease: Lease) -> InventoryChanges:
        with self._units.reading() as unit:
            known = unit.nodes.open_in(lease.project)
        return compare(known, inventory, queue, self._clock())

    def _note(self, difference: InventoryChanges, lease: Lease, asked: int) -> bool:
        """Write down what differs; answers whether all of it was. What was left out, because
        someone else was faster or bears the name, counts as not looked at."""
        now, before = self._clock(), self._looked_at(lease)
        poll, records = Poll(now, before, asked_at=asked), OperationLog(self._cloud)
        changed, noted = iter(difference.changed.items()), True
        while batch := dict(islice(changed, BATCH)):
            noted = self._write(batch, records, poll, lease) and noted
        if difference.asleep or difference.missing or difference.found:
            missed, anew = difference.missing, [one for one in difference.missing if not one.misses]
            with self._units(lease) as unit:
                unit.nodes.wake(difference.asleep, now)
                unit.nodes.last_seen([one.id for one in anew], before)
                unit.nodes.missed([one.id for one in missed], now)
                unit.nodes.found(difference.found)
        return noted

    def _looked_at(self, lease: Lease) -> int:
        """When the project was last looked at as a whole, by any daemon; 0 before that."""
        with self._units.reading() as unit:
            stored = unit.leases.looked_at(lease.project)
        return max(stored, self.looked_at.get(lease.project, 0))

    def _write(self, batch: Batch, records: OperationLog, poll: Poll, lease: Lease) -> bool:
        with self._units.reading() as unit:
            nodes = unit.nodes.many(batch)
        seen = [
            (node, sights)
            for node in nodes.values()
            if (sights := self._sights(node, batch[node.id], records, poll))
        ]
        ours = {node.id: len(sights) for node, sights in seen}
        others = [one for one in nodes if ours.get(one, 0) < len(batch[one])]
        with self._units(lease) as unit:
            unit.nodes.wake(others, poll.now)  # somebody else has taken the name: ours is gone
            book = lock_and_price(unit, (node.id for node, _ in seen), self._prices)
            current = unit.nodes.many(node.id for node, _ in seen)
            digests: dict[str, bytes] = {}
            for node, sights in sorted(seen, key=_by_id):
                if current[node.id].version != node.version:
                    continue  # someone was faster; the next look compares anew
                after = believe(unit, node, sights, book, self.name)
                if after.state != node.state:
                    after = replace(after, next_try_at=poll.now)
                unit.nodes.save(after)
                digests[node.id] = digest_of(batch[node.id])
            unit.nodes.remember(digests)
        return len(digests) == len(seen) and not others

    def _sights(
        self, node: Node, shown: Mapping[int, Sighting], records: OperationLog, poll: Poll
    ) -> Sights:
        """What is shown of a node and is really it."""
        sights = {}
        for number, sighting in shown.items():
            one, sight = part(node, number), sighting.decode()
            if is_ours(one, sight):
                before = max(poll.previous, one.seen_at)
                operations = records.of(one) if needs_evidence(one, sight) else ()
                sights[number] = sight, replace(poll, previous=before, operations=operations)
        return sights


def _by_id(seen: tuple[Node, Sights]) -> str:
    """Rows of several nodes are written in the order of their ids, by everybody."""
    return seen[0].id
