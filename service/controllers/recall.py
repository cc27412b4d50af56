"""After a time without a look, asks the cloud what came and went meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from service.cloud.ports import Inventory, TpuCloud
from service.controllers.beliefs import write_usage
from service.domain.blink import blinks, cut, told
from service.domain.errors import CloudError, NotAllowed
from service.domain.lease import Lease
from service.domain.operation import Operation
from service.store.pricebook import PriceShelf
from service.store.unit import Units

log = structlog.get_logger()

LONG = 60
"""Seconds between two looks in which a node may have been stopped and have come back: Google takes
longer for either."""


class Recall:
    """A node that is READY as it was before need not have been so in between."""

    def __init__(self, units: Units, cloud: TpuCloud, prices: PriceShelf) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._asked: dict[tuple[str, str], int] = {}

    def recall(self, lease: Lease, inventory: Inventory, before: int, now: int) -> bool:
        """Cut out of what runs where the cloud's record says that it did not, since it was last
        looked at (`before`). Answers False where the cloud gives no answer: then it is to be asked
        again. Zones that cannot be reached are asked once they can."""
        if not before or now - before <= LONG:
            return True
        with self._units.reading() as unit:
            zones = unit.usage.running_zones(lease.project)
        by_node: dict[str, list[Operation]] = {}
        for zone in zones:
            asked = self._asked.get((lease.project, zone), 0)
            if now - asked <= LONG or not inventory.knows(zone):
                continue
            try:
                found = self._cloud.operations(lease.project, zone)
            except NotAllowed as error:
                log.warning("recall.not_allowed", zone=zone, reason=str(error))
                continue
            except CloudError:
                return False
            for operation in found:
                by_node.setdefault(operation.target, []).append(operation)
            self._asked[lease.project, zone] = now
        since = {path: some for path, some in by_node.items() if blinks(some, before - LONG)}
        if since:
            self._write(lease, since, now)
        return True

    def _write(self, lease: Lease, by_node: Mapping[str, Sequence[Operation]], now: int) -> None:
        with self._units(lease) as unit:
            book = self._prices.book(unit)
            where = f"projects/{lease.project}/locations"
            known = {
                f"{where}/{one.zone}/nodes/{one.cloud_id}": one.id
                for one in unit.nodes.open_in(lease.project)
            }
            ids = {known[path]: some for path, some in by_node.items() if path in known}
            for node in unit.nodes.many(ids).values():
                running = unit.usage.running(node.id)
                intervals = [] if running is None else cut(node, running, ids[node.id])
                for usage in intervals:
                    write_usage(unit, usage, book, now)
                unit.events.add(*told(node, intervals, now))
