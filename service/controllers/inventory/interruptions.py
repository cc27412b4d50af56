"""Asks the cloud about stops and restarts during a time without a look."""

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
from service.domain.nodes.node import Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.slices import WHOLE
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

LONG = 60
"""Seconds between two looks above which a node may have been stopped and started again. Google
takes longer for either."""

ByPath = Mapping[str, Sequence[Operation]]
"""Operations by the full name of their node."""


class InterruptionSearch:
    """Finds interruptions between two looks: a node that is READY at both may have been down in
    between, and so may a node that was seen to end."""

    def __init__(self, units: Units, cloud: TpuCloud, prices: PriceBookCache) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._asked: dict[tuple[str, str], int] = {}

    def cut_interruptions(self, lease: Lease, inventory: Inventory, before: int, now: int) -> bool:
        """Cut the interruptions that the cloud's record shows out of the usage since the last look
        (`before`). Returns False if the cloud gives no answer: the caller asks again. Unreachable
        zones are asked once they can be reached."""
        if not before or now - before <= LONG:
            return True
        with self._units.reading() as unit:
            zones = {usage.zone for usage in _list_ran(unit, lease.project, before - LONG)}
        by_path: dict[str, list[Operation]] = {}
        answered, unanswered = [], False
        for zone in sorted(zones):
            asked = self._asked.get((lease.project, zone), 0)
            if now - asked <= LONG or not inventory.is_reachable(zone):
                continue
            try:
                found = self._cloud.operations(lease.project, zone)
            except NotAllowed as error:
                log.warning("recall.not_allowed", zone=zone, reason=str(error))
                continue
            except CloudError:
                unanswered = True  # the answers of other zones are written all the same
                continue
            for operation in found:
                by_path.setdefault(operation.target, []).append(operation)
            answered.append(zone)
        since = before - LONG
        came_back = {
            path: operations
            for path, operations in by_path.items()
            if find_interruptions(operations, since)
        }
        if came_back:
            self._split_usages(lease, came_back, since, now)
        self._asked.update({(lease.project, zone): now for zone in answered})
        return not unanswered

    def _split_usages(self, lease: Lease, by_path: ByPath, since: int, now: int) -> None:
        with self._units(lease) as unit:
            ids = [usage.node_id for usage in _list_ran(unit, lease.project, since)]
            book = lock_and_price(unit, ids, self._prices)
            ran = list(_list_ran(unit, lease.project, since))
            nodes = unit.nodes.find_many({usage.node_id for usage in ran})
            for usage in ran:
                node = nodes[usage.node_id]
                # The node may have had another name when it ran; an adopted node has no attempts.
                attempts = unit.placements.list_by_node(node.id)
                names = dict.fromkeys([node.cloud_id, *(attempt.cloud_id for attempt in attempts)])
                paths = (Place(usage.project, usage.zone, name).path for name in names)
                operations = next((by_path[path] for path in paths if path in by_path), ())
                intervals = split_at_interruptions(usage, operations) if operations else []
                for interval in intervals:
                    write_usage(unit, interval, book, now)
                unit.events.add(*describe_interruptions(node, intervals, now))


def _list_ran(unit: Unit, project: str, since: int) -> Iterator[Usage]:
    """Usage since then of nodes that can be stopped: slices cannot."""
    return (
        usage
        for usage in unit.usage.iter_since(since)
        if usage.project == project and usage.slice == WHOLE and not usage.is_purchase
    )
