"""Starts the usage of a node. Pure."""

from __future__ import annotations

from dataclasses import replace

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.ids import new_id
from service.domain.metering.meter import Evidence, Usage
from service.domain.nodes.node import Node, NodeSpec
from service.domain.pricing.price_book import Sku
from service.domain.pricing.purchases import pool_of


def start_usage(node: Node, start: int, start_hi: int, evidence: Evidence) -> Usage:
    """Usage of a node in its present form that began at `start`, or at `start_hi` at the latest."""
    spec, vm = node.spec, node.spec.vm
    return Usage(
        id=new_id(),
        node_id=node.id,
        project=spec.project,
        zone=node.zone,
        accelerator_type=spec.accelerator_type,
        chips=spec.chips,
        sku=node_sku(spec, node.zone, spec.hosts),
        start=start,
        start_hi=start_hi,
        start_evidence=evidence,
        posted_until=start,
        vm="" if vm is None else vm.machine_type,
        vm_model="" if vm is None else vm.provisioning_model,
    )


def node_sku(spec: NodeSpec, zone: str, hosts: int) -> Sku:
    """The SKU for the usage of a node, or of one of its slices. `hosts` is the number of its
    hosts."""
    return Sku(
        spec.generation,
        spec.provisioning_model,
        region_of(zone),
        hosts == 1,
        pool_for(spec, zone),
    )


def pool_for(spec: NodeSpec, zone: str) -> str:
    """The reservation pool for the usage of a node; empty if its capacity is not reserved."""
    if spec.provisioning_model != ProvisioningModel.RESERVED:
        return ""
    return pool_of(spec.project, zone, spec.reservation)


def with_start_after(usage: Usage, last_end: int | None) -> Usage:
    """The usage without the time that the interval before it charges.

    Both are charged by their outer bounds, which may overlap. A slow poll saw the state at one
    unknown instant between its beginning and its end: the earlier interval is charged until the
    end, and the later interval from the beginning.
    """
    if last_end is None or usage.start >= last_end:
        return usage
    return replace(
        usage,
        start=last_end,
        start_hi=max(usage.start_hi, last_end),
        end=None if usage.end is None else max(usage.end, last_end),
        end_lo=None if usage.end_lo is None else max(usage.end_lo, last_end),
        posted_until=max(usage.posted_until, last_end),
    )
