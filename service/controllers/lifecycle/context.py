"""What every step needs: the store, the cloud, a clock, and one way to save what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from service.cloud.ports import TpuCloud
from service.controllers.commands import commanded
from service.controllers.recording.operation_log import SharedRecords
from service.domain.clock import Clock
from service.domain.errors import StaleVersion
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

Change = Callable[[Unit, Node], Node]
"""What a unit of work makes of a node; the result is saved in the same transaction."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How this installation signs its nodes, and how often (in seconds) it looks at them."""

    install: str
    period: int


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the steps are taken with."""

    units: Units
    cloud: TpuCloud
    prices: PriceShelf
    clock: Clock
    manners: Installation
    records: SharedRecords = field(init=False)
    """What the cloud's record says, shared by all the steps of a tick."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", SharedRecords(self.cloud))

    def commanded(self, lease: Lease) -> TpuCloud:
        """The cloud, for one command that is given now; raises LeaseLost."""
        return commanded(self.cloud, self.units, lease)

    def commanded_unchanged(self, node: Node, lease: Lease) -> TpuCloud:
        """The same, for a command whose request can be taken back, as a stop by a start: raises
        StaleVersion where the node was changed since it was read, which may be long ago."""
        with self.units.reading() as unit:
            if unit.nodes.get(node.id).version != node.version:
                raise StaleVersion(f"node {node.id} was changed by someone else just now")
        return self.commanded(lease)

    def save(self, node: Node, lease: Lease, change: Change) -> Node:
        """Make the change and save its result in one unit of work, guarded by the lease."""
        with self.units(lease) as unit:
            after = change(unit, node)
            return after if after == node else unit.nodes.save(after)
