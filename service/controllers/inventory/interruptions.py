"""After a time without a look, asks the cloud what came and went meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import structlog

from service.cloud.ports import Inventory, TpuCloud
from service.controllers.recording.recording import lock_and_price, write_usage
from service.domain.errors import CloudError, NotAllowed
from service.domain.evidence.interruptions import (
    describe_interruptions,
    find_interruptions,
    split_at_interruptions,
)
from service.domain.lease import Lease
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node, Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.placement import Placement
from service.domain.nodes.slices import WHOLE
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

LONG = 60
"""Seconds between two looks in which a node may have been stopped and have come back: Google takes
longer for either."""

ByPath = Mapping[str, Sequence[Operation]]
"""Operations by the full name of the node that they are on."""


class InterruptionSearch:
    """A node that is READY as it was before need not have been so in between; nor one of which
    somebody saw only that it had gone down in the end."""

    def __init__(self, units: Units, cloud: TpuCloud, prices: PriceShelf) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._asked: dict[tuple[str, str], int] = {}

    def recall(self, lease: Lease, inventory: Inventory, before: int, now: int) -> bool:
        """Cut out of what ran since the last look (`before`) where the cloud's record says that it
        did not. Answers False where the cloud gives no answer: then it is to be asked again. Zones
        that cannot be reached are asked once they can."""
        if not before or now - before <= LONG:
            return True
        with self._units.reading() as unit:
            zones = {usage.zone for usage in _ran(unit, lease.project, before - LONG)}
        by_path: dict[str, list[Operation]] = {}
        answered, unanswered = [], False
        for zone in sorted(zones):
            asked = self._asked.get((lease.project, zone), 0)
            if now - asked <= LONG or not inventory.knows(zone):
                continue
            try:
                found = self._cloud.operations(lease.project, zone)
            except NotAllowed as error:
                log.warning("recall.not_allowed", zone=zone, reason=str(error))
                continue
            except CloudError:
                unanswered = True  # what the others tell is written all the same
                continue
            for operation in found:
                by_path.setdefault(operation.target, []).append(operation)
            answered.append(zone)
        since = before - LONG
        came_back = {
            path: some for path, some in by_path.items() if find_interruptions(some, since)
        }
        if came_back:
            self._write(lease, came_back, since, now)
        self._asked.update({(lease.project, zone): now for zone in answered})
        return not unanswered

    def _write(self, lease: Lease, by_path: ByPath, since: int, now: int) -> None:
        with self._units(lease) as unit:
            ids = [usage.node_id for usage in _ran(unit, lease.project, since)]
            book = lock_and_price(unit, ids, self._prices)
            ran = list(_ran(unit, lease.project, since))
            nodes = unit.nodes.many({usage.node_id for usage in ran})
            for usage in ran:
                node = nodes[usage.node_id]
                operations = _on(node, usage, unit.placements.of(node.id), by_path)
                intervals = split_at_interruptions(usage, operations) if operations else []
                for one in intervals:
                    write_usage(unit, one, book, now)
                unit.events.add(*describe_interruptions(node, intervals, now))


def _ran(unit: Unit, project: str, since: int) -> Iterator[Usage]:
    """What nodes ran since then, and could be stopped: slices cannot."""
    return (
        usage
        for usage in unit.usage.ran_since(since)
        if usage.project == project and usage.slice == WHOLE and not usage.is_purchase
    )


def _on(
    node: Node, usage: Usage, attempts: Sequence[Placement], by_path: ByPath
) -> Sequence[Operation]:
    """The operations on what the node was when it ran; one that was adopted has no attempts."""
    names = dict.fromkeys([node.cloud_id, *(one.cloud_id for one in attempts)])
    paths = (Place(usage.project, usage.zone, name).path for name in names)
    return next((by_path[path] for path in paths if path in by_path), ())
