"""Shared context of the lifecycle steps: the store, the cloud, a clock, and one way to save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from service.cloud.ports import TpuCloud
from service.controllers.base import cloud_under_lease
from service.controllers.recording.operation_log import SharedRecords
from service.domain.clock import Clock
from service.domain.errors import StaleVersion
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

Change = Callable[[Unit, Node], Node]
"""Changes a node within a unit of work; the result is saved in the same transaction."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The name by which this installation labels its nodes, and its period in seconds."""

    install: str
    period: int


@dataclass(frozen=True, slots=True)
class StepContext:
    """The context of every step."""

    units: Units
    cloud: TpuCloud
    prices: PriceBookCache
    clock: Clock
    installation: Installation
    records: SharedRecords = field(init=False)
    """The cloud's record of operations, shared by all steps of a tick."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", SharedRecords(self.cloud))

    def cloud_under_lease(self, lease: Lease) -> TpuCloud:
        """Return the cloud for one command that follows at once; raises LeaseLost."""
        return cloud_under_lease(self.cloud, self.units, lease)

    def cloud_if_unchanged(self, node: Node, lease: Lease) -> TpuCloud:
        """The same for a command whose request can be withdrawn, as a stop by a start. Raises
        StaleVersion if the node has changed since it was read, which may be long ago."""
        with self.units.reading() as unit:
            if unit.nodes.get(node.id).version != node.version:
                raise StaleVersion(f"node {node.id} was changed by someone else just now")
        return self.cloud_under_lease(lease)

    def save(self, node: Node, lease: Lease, change: Change) -> Node:
        """Apply the change and save its result in one unit of work, guarded by the lease."""
        with self.units(lease) as unit:
            after = change(unit, node)
            return after if after == node else unit.nodes.save(after)
