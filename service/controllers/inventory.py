"""Looks at a whole project at once and writes down what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from service.cloud.ports import Inventory, Sighting, TpuCloud
from service.controllers.beliefs import believe, needs_evidence
from service.controllers.records import Records
from service.domain.clock import Clock
from service.domain.lease import Lease
from service.domain.lifecycle import is_ours
from service.domain.node import CloudNode, Node
from service.domain.observation import Looking
from service.store.nodes import Fingerprint, Known
from service.store.pricebook import PriceShelf
from service.store.unit import Units

BATCH = 200
"""Nodes written in one transaction: few enough that no other writer waits for long."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What one inventory shows otherwise than it is stored.

    `missing` are nodes that nobody looks after yet; `lacking` says that any is not shown at all.
    """

    changed: dict[str, Sighting]
    missing: tuple[str, ...]
    lacking: bool

    @property
    def none(self) -> bool:
        """Whether both sides agree: as long as neither changes, there is nothing to compare."""
        return not self.changed and not self.lacking


def compare(known: Iterable[Known], inventory: Inventory) -> Difference:
    """Tell what changed and what is missing. Absence counts only where the inventory knows."""
    changed: dict[str, Sighting] = {}
    missing: list[str] = []
    lacking = False
    nodes, project = inventory.sightings(), inventory.project
    for node in known:
        sighting = nodes.get(f"projects/{project}/locations/{node.zone}/nodes/{node.cloud_id}")
        if sighting is None:
            lacking = True
            if node.next_try_at is None and inventory.knows(node.zone):
                missing.append(node.id)
        elif sighting.digest != node.digest:
            changed[node.id] = sighting
    return Difference(changed, tuple(missing), lacking)


class InventoryController:
    """Level-triggered: what it missed while it was down, it sees at the next look."""

    name = "inventory"

    def __init__(self, units: Units, cloud: TpuCloud, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self.looked_at: dict[str, int] = {}
        self._agreed: dict[Lease, tuple[bytes, Fingerprint]] = {}

    def tick(self, lease: Lease) -> None:
        """One look; a node that is missing is only handed to the lifecycle, which asks for it by
        name: absence from a list alone proves nothing."""
        asked = self._clock()
        inventory = self._cloud.inventory(lease.project)
        with self._units.reading() as unit:
            stored = unit.nodes.fingerprint(lease.project)
        noted = True
        if self._agreed.get(lease) != (inventory.digest, stored):
            self._agreed.clear()
            difference = self._compare(inventory, lease)
            noted = self._note(difference, lease, asked)
            if difference.none:
                self._agreed[lease] = inventory.digest, stored
        if noted and not inventory.unreachable:
            self.looked_at[lease.project] = asked

    def _compare(self, inventory: Inventory, lease: Lease) -> Difference:
        with self._units.reading() as unit:
            known = unit.nodes.open_in(lease.project)
        return compare(known, inventory)

    def _note(self, difference: Difference, lease: Lease, asked: int) -> bool:
        """Write down what differs; answers whether all of it was. What was left out, because
        someone else was faster, counts as not looked at."""
        now = self._clock()
        with self._units.reading() as unit:
            before = max(unit.leases.looked_at(lease.project), self.looked_at.get(lease.project, 0))
        looking, records = Looking(now, before, asked=asked), Records(self._cloud)
        changed, noted = iter(difference.changed.items()), True
        while batch := dict(islice(changed, BATCH)):
            noted = self._write(batch, records, looking, lease) and noted
        if difference.missing:
            with self._units(lease) as unit:
                unit.nodes.wake(difference.missing, now)
        return noted

    def _write(
        self, batch: dict[str, Sighting], records: Records, looking: Looking, lease: Lease
    ) -> bool:
        with self._units.reading() as unit:
            nodes = unit.nodes.many(batch)
        seen = [
            (node, sight, self._looking(node, sight, records, looking))
            for node, sight in ((nodes[i], batch[i].decode()) for i in batch if i in nodes)
            if is_ours(node, sight)
        ]
        with self._units(lease) as unit:
            book = self._prices.book(unit)
            current = unit.nodes.many(node.id for node, _, _ in seen)
            digests: dict[str, bytes] = {}
            for node, sight, look in seen:
                if current[node.id].version != node.version:
                    continue  # someone was faster; the next look compares anew
                after = believe(unit, node, sight, look, book, self.name)
                if after.state != node.state:
                    after = replace(after, next_try_at=looking.now)
                unit.nodes.save(after)
                digests[node.id] = batch[node.id].digest
            unit.nodes.remember(digests)
        return len(digests) == len(seen)

    def _looking(self, node: Node, sight: CloudNode, records: Records, looking: Looking) -> Looking:
        operations = records.of(node) if needs_evidence(node, sight) else ()
        return replace(looking, before=max(looking.before, node.seen_at), operations=operations)
