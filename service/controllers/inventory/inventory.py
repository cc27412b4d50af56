"""Lists a whole project at once and records what changed."""

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
    lock_and_price,
    needs_evidence,
    record_sights,
)
from service.domain.clock import Clock
from service.domain.errors import NotAllowed, StaleVersion
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.absence import LOOKS
from service.domain.nodes.node import Node
from service.domain.nodes.ownership import is_ours
from service.domain.nodes.queued_resource import IN_LINE
from service.domain.nodes.slices import WHOLE, slice_as_node
from service.store.nodes import Fingerprint, KnownNode
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

log = structlog.get_logger()

Batch = Mapping[str, Mapping[int, Sighting]]
"""Sightings by node id and slice number."""

BATCH = 200
"""Nodes written in one transaction: few enough that no other writer waits for long."""


SOON_SECONDS = 60
"""Seconds within which the lifecycle looks by itself at a node that is not settled."""


class InventoryListener(Protocol):
    """Receives each inventory, which saves another call to the cloud."""

    def on_inventory(
        self,
        inventory: Inventory,
        queue: Queue,
        lease: Lease,
        asked: int,
        stored: Fingerprint | None = None,
    ) -> None:
        """Called after each answered look, complete or not. `asked` is the whole UTC second in
        which the look began. `stored` is the fingerprint of the records, if the look found them
        unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class InventoryChanges:
    """Differences between one look and the records.

    `changed` has the sightings of each changed node, by slice number. `asleep` are nodes to wake:
    nodes that lack something and are not due soon, and nodes whose queued resource is gone or has
    changed its state. `missing` are nodes that lack something and whose misses are still counted,
    `found` are nodes that are complete again. `lacking` is set if any node or slice is not listed.
    """

    changed: dict[str, dict[int, Sighting]]
    asleep: tuple[str, ...]
    missing: tuple[KnownNode, ...]
    found: tuple[str, ...]
    lacking: bool

    @property
    def is_empty(self) -> bool:
        """Whether both sides agree: nothing needs comparing until one of them changes."""
        return not (self.changed or self.asleep or self.found or self.lacking)


def compare(
    known: Iterable[KnownNode], inventory: Inventory, queue: Queue, now: int
) -> InventoryChanges:
    """Find what changed and what is missing. Absence counts only in zones that answered."""
    changed: dict[str, dict[int, Sighting]] = {}
    asleep: list[str] = []
    missing: list[KnownNode] = []
    found: list[str] = []
    lacking = False
    nodes, entries, project = inventory.sightings(), queue.entries(), inventory.project
    for node in known:
        where = f"projects/{project}/locations/{node.zone}"
        seen = _find_sightings(node, f"{where}/nodes/{node.cloud_id}", nodes)
        expected = 0 if node.queue_state in IN_LINE else node.slices or 1
        if seen and digest_of(seen) != node.digest:
            changed[node.id] = seen
        entry = entries.get(f"{where}/queuedResources/{node.cloud_id}")
        lacks, known_of = len(seen) < expected, inventory.is_reachable(node.zone)
        is_entry_lost = bool(node.queue_state) and entry is None and queue.is_reachable(node.zone)
        lacking = lacking or lacks
        if (lacks and known_of) or is_entry_lost:
            if node.misses < LOOKS:
                missing.append(node)
            if is_entry_lost or _is_left_alone(node, now):
                asleep.append(node.id)
        elif node.misses and not lacks:
            found.append(node.id)
        if node.queue_state and entry is not None and entry.state != node.queue_state:
            asleep.append(node.id)
    return InventoryChanges(changed, tuple(asleep), tuple(missing), tuple(found), lacking)


def _is_left_alone(node: KnownNode, now: int) -> bool:
    """Whether the lifecycle will not look at the node soon. A settled node is not due, or due only
    at its deadline. A failed step is retried when the cloud allows: the retry is not hurried."""
    due = node.next_try_at
    return due is None or (not node.tries and due - now > SOON_SECONDS)


def _find_sightings(
    node: KnownNode, path: str, nodes: Mapping[str, Sighting]
) -> dict[int, Sighting]:
    if not node.slices:
        sighting = nodes.get(path)
        return {} if sighting is None else {WHOLE: sighting}
    found = ((number, nodes.get(f"{path}-{number}")) for number in range(node.slices))
    return {number: sighting for number, sighting in found if sighting is not None}


def digest_of(seen: Mapping[int, Sighting]) -> bytes:
    """One digest over all sightings of a node."""
    if len(seen) == 1 and WHOLE in seen:
        return seen[WHOLE].digest
    seal = blake2b(digest_size=8)
    for number, sighting in seen.items():
        seal.update(number.to_bytes(4) + sighting.digest)
    return seal.digest()


class InventoryController:
    """Level-triggered: the next look finds changes from a time when no daemon ran."""

    name = "inventory"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        prices: PriceBookCache,
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
        """Fingerprints of both sides when they last agreed, by project."""

    def tick(self, lease: Lease) -> None:
        """Look once. A missing node is only handed to the lifecycle, which asks for it by name:
        absence from a list alone proves nothing."""
        asked, project = self._clock(), lease.project
        inventory = self._cloud.inventory(project)
        try:
            queue = self._cloud.queue(project)
        except NotAllowed as error:  # without the permission there can still be nodes
            log.warning("inventory.no_queue", project=project, reason=str(error))
            queue = Queue(project, b"", dict, frozenset({EVERYWHERE}), 0)
        shown = inventory.digest + queue.digest
        with self._units.reading() as unit:
            stored = unit.nodes.read_fingerprint(project)
        is_written = self._recall.cut_interruptions(
            lease, inventory, self._looked_at(lease), self._clock()
        )
        agreed = self._agreed.get(project) == (lease, shown, stored)
        if not agreed:
            self._agreed.pop(project, None)
            with self._units.reading() as unit:
                known = unit.nodes.list_open(project)
            difference = compare(known, inventory, queue, self._clock())
            is_written = self._write_changes(difference, lease, asked) and is_written
            if difference.is_empty:
                self._agreed[project] = lease, shown, stored
        if is_written and not inventory.unreachable:
            self.looked_at[project] = asked
        for onlooker in self._onlookers:
            onlooker.on_inventory(inventory, queue, lease, asked, stored if agreed else None)

    def _write_changes(self, difference: InventoryChanges, lease: Lease, asked: int) -> bool:
        """Write the differences; returns whether all were written. A node is left out if another
        writer was faster or its name is taken: the project then counts as not looked at."""
        now, before = self._clock(), self._looked_at(lease)
        poll, records = Poll(now, before, asked_at=asked), OperationLog(self._cloud)
        changed, is_written = iter(difference.changed.items()), True
        while batch := dict(islice(changed, BATCH)):
            is_written = self._write_batch(batch, records, poll, lease) and is_written
        if difference.asleep or difference.missing or difference.found:
            missing = [node.id for node in difference.missing]
            newly_missing = [node.id for node in difference.missing if not node.misses]
            with self._units(lease) as unit:
                unit.nodes.lock_in_order([*difference.asleep, *missing, *difference.found])
                unit.nodes.wake(difference.asleep, now)
                unit.nodes.save_last_seen(newly_missing, before)
                unit.nodes.add_miss(missing, now)
                unit.nodes.clear_missed(difference.found)
        return is_written

    def _looked_at(self, lease: Lease) -> int:
        """Time of the last complete look at the project by any daemon; 0 if there was none."""
        with self._units.reading() as unit:
            stored = unit.leases.looked_at(lease.project)
        return max(stored, self.looked_at.get(lease.project, 0))

    def _write_batch(self, batch: Batch, records: OperationLog, poll: Poll, lease: Lease) -> bool:
        """Write the sightings of a batch; returns whether all were written. If another transaction
        changed a node meanwhile, each half is written by itself: one node holds back no other."""
        try:
            return self._write_together(batch, records, poll, lease)
        except StaleVersion as error:
            if len(batch) == 1:
                log.debug("inventory.overtaken", node_id=next(iter(batch)), reason=str(error))
                return False
        sighted = list(batch.items())
        middle = len(sighted) // 2
        first = self._write_batch(dict(sighted[:middle]), records, poll, lease)
        second = self._write_batch(dict(sighted[middle:]), records, poll, lease)
        return first and second

    def _write_together(
        self, batch: Batch, records: OperationLog, poll: Poll, lease: Lease
    ) -> bool:
        """Write the sightings of a batch in one transaction. Raises StaleVersion."""
        with self._units.reading() as unit:
            nodes = unit.nodes.find_many(batch)
        seen = {
            node.id: (node, sights)
            for node in nodes.values()
            if (sights := self._select_own(node, batch[node.id], records, poll))
        }
        ours = {node_id: len(sights) for node_id, (_, sights) in seen.items()}
        others = [node_id for node_id in nodes if ours.get(node_id, 0) < len(batch[node_id])]
        if others:  # a stranger has taken the name: our node is gone
            with self._units(lease) as unit:
                unit.nodes.wake(others, poll.now)
        with self._units(lease) as unit:
            book = lock_and_price(unit, seen, self._prices)
            current = unit.nodes.find_many(seen)
            digests: dict[str, bytes] = {}
            # Every writer of several nodes writes them in the order of their ids.
            for _, (node, sights) in sorted(seen.items()):
                if current[node.id].version != node.version:
                    continue  # another writer was faster; the next look compares again
                after = record_sights(unit, node, sights, book, self.name)
                if after.state != node.state:
                    after = replace(after, next_try_at=poll.now)
                unit.nodes.save(after)
                digests[node.id] = digest_of(batch[node.id])
            unit.nodes.save_digests(digests)
        return len(digests) == len(seen) and not others

    def _select_own(
        self, node: Node, shown: Mapping[int, Sighting], records: OperationLog, poll: Poll
    ) -> Sights:
        """The sightings that are really the node and not a stranger of the same name."""
        sights = {}
        for number, sighting in shown.items():
            member, sight = slice_as_node(node, number), sighting.decode()
            if is_ours(member, sight):
                before = max(poll.previous, member.seen_at)
                operations = records.operations_of(member) if needs_evidence(member, sight) else ()
                sights[number] = sight, replace(poll, previous=before, operations=operations)
        return sights
