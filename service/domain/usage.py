"""Begins the usage of a node: all that is known of it at its first second. Pure."""

from __future__ import annotations

from service.domain.metering import Evidence, Usage
from service.domain.names import new_id
from service.domain.node import Node
from service.domain.pricing import Sku
from service.domain.zones import region_of


def opened(node: Node, start: int, start_hi: int, evidence: Evidence) -> Usage:
    """Usage of a node as it is now, which began at `start`, or as late as `start_hi`."""
    spec = node.spec
    return Usage(
        id=new_id(),
        node_id=node.id,
        project=spec.project,
        zone=node.zone,
        accelerator_type=spec.accelerator_type,
        chips=spec.chips,
        sku=Sku(spec.generation, spec.provisioning_model, region_of(node.zone), spec.hosts == 1),
        start=start,
        start_hi=start_hi,
        start_evidence=evidence,
        posted_until=start,
    )
