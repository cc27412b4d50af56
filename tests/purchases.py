"""Nodes on capacity that was bought, and the metering of both, for those who look at the books."""

from __future__ import annotations

from typing import Any

from service.controllers.metering import MeteringController
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import Clock
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage, with_end
from service.domain.nodes.node import Node, NodeState
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories


def ran_reserved(units: Units, start: int, end: int | None = None, **changes: Any) -> Node:
    """A node on reserved capacity that was READY since `start`, until `end` if there is one. What
    it costs is not posted yet."""
    fields: dict[str, Any] = {
        "provisioning_model": ProvisioningModel.RESERVED,
        "state": NodeState.READY if end is None else NodeState.DELETED,
        "created_at": start - 300,
        "ready_at": start,
        "ended_at": end,
        "zones": (changes.get("zone", factories.ZONE),),
    }
    node = factories.node(**(fields | changes))
    usage = start_usage(node, start, start, Evidence.OPERATION)
    if end is not None:
        usage = with_end(usage, end, end, Evidence.OPERATION)
    with units() as unit:
        unit.nodes.add(node)
        usage = unit.usage.save(usage)
        unit.usage_versions.add(usage, start)
    return node


def metered(units: Units, clock: Clock) -> None:
    """The daemon posts what is due by now."""
    with units() as unit:
        lease = unit.leases.take(factories.PROJECT, "daemon", 3_600)
    assert lease is not None
    MeteringController(units, PriceBookCache(), clock).tick(lease)
