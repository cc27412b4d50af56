"""The usage of a node: its start, its end, and the rule of the free first minute. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TypeGuard

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.ids import new_id
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Usage
from service.domain.nodes.node import Node, NodeSpec
from service.domain.pricing.billing_rules import free_if_preempted_within
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


def find_start_bounds(
    seen_before: int, first_ready: int, operation_ended: int | None
) -> tuple[int, int, Evidence]:
    """(start, start_hi, evidence) of the usage whose READY was first seen at `first_ready`.

    The end of the operation is the exact start, unless READY was seen before it: operations may
    stay open long after the node is up. An operation that ended before the node was last seen down
    belongs to an earlier interval.
    """
    if _lies_in(operation_ended, seen_before, first_ready):
        return operation_ended, operation_ended, Evidence.OPERATION
    return min(seen_before, first_ready), first_ready, Evidence.OBSERVED


def find_end_bounds(
    last_ready: int, first_gone: int, operation_created: int | None
) -> tuple[int, int, Evidence]:
    """(end_lo, end, evidence) of the usage last seen READY at `last_ready`, not so at `first_gone`.

    The operation that ended the usage (delete, stop) did so when it was accepted.
    """
    if _lies_in(operation_created, last_ready, first_gone):
        return operation_created, operation_created, Evidence.OPERATION
    return min(last_ready, first_gone), first_gone, Evidence.OBSERVED


def _lies_in(instant: int | None, earliest: int, latest: int) -> TypeGuard[int]:
    return instant is not None and earliest - CLOCK_TOLERANCE <= instant <= latest + CLOCK_TOLERANCE


def with_end(usage: Usage, end_lo: int, end: int, evidence: Evidence) -> Usage:
    """The usage with its end; an end before the start becomes the start."""
    end = max(end, usage.start)
    end_lo = min(max(end_lo, usage.start), end)
    return replace(usage, end=end, end_lo=end_lo, end_evidence=evidence, dirty=True)


FIRST_MINUTE = "preempted in its first minute"
"""A value of `Usage.free`: Google does not charge a TPU that it takes back so soon after its
creation."""


class FirstMinuteWaiver(StrEnum):
    """Whether the rule of the first minute makes the usage of a placement free."""

    NONE = "none"
    POSSIBLE = "possible"
    """The instant of the preemption is too uncertain: all is charged, and wholly uncertain."""

    CERTAIN = "certain"


def waiver_of(lost_lo: int, lost_hi: int, created_at: int | None) -> FirstMinuteWaiver:
    """The waiver of the usage of a node that was preempted in [lost_lo, lost_hi].

    NONE if the creation time of the node is unknown.
    """
    if created_at is None:
        return FirstMinuteWaiver.NONE
    free_within = free_if_preempted_within(lost_hi)
    if lost_hi - created_at < free_within:
        return FirstMinuteWaiver.CERTAIN
    return (
        FirstMinuteWaiver.POSSIBLE if lost_lo - created_at < free_within else FirstMinuteWaiver.NONE
    )


def with_waiver(usage: Usage, waiver: FirstMinuteWaiver) -> Usage:
    """The ended usage of a node with a waiver applied. Its end bounds stay, for better evidence
    later."""
    assert usage.end is not None
    match waiver:
        case FirstMinuteWaiver.CERTAIN:
            return replace(usage, free=FIRST_MINUTE, dirty=True)
        case FirstMinuteWaiver.POSSIBLE:
            return replace(usage, start_hi=usage.end)
        case FirstMinuteWaiver.NONE:
            return usage


def with_first_minute_rule(usage: Usage, created_at: int | None) -> Usage:
    """The usage that a preemption ended, with the rule of the first minute applied."""
    if usage.end is None or usage.end_lo is None:
        return usage
    return with_waiver(usage, waiver_of(usage.end_lo, usage.end, created_at))


def waive_siblings(
    last: Usage | None, waiver: FirstMinuteWaiver, intervals: Iterable[Usage]
) -> Iterator[Usage]:
    """The usage of a placement that a waiver changes, without its `last` interval.

    The rule is about the node, so it waives all of its intervals or none.
    """
    for usage in intervals:
        if (last is None or usage.id != last.id) and usage.end is not None and not usage.free:
            after = with_waiver(usage, waiver)
            if after != usage:
                yield after
