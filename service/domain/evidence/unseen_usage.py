"""What ran and was over before anybody looked, by the cloud's own record. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.clock import rfc3339
from service.domain.event import Event
from service.domain.metering.meter import Evidence, Usage, closed
from service.domain.metering.usage import opened
from service.domain.nodes.node import Node
from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation


def overlooked(
    node: Node, usages: Sequence[Usage], operations: Sequence[Operation]
) -> Iterator[Usage]:
    """Usage of a node that is gone for good, of which none of its intervals has a second: it was
    started and taken down again, and every look fell before or after that.

    The record holds it from when one operation that brings a node up was over until the next that
    takes it down was accepted. What an interval has a part of was seen, and is bounded by that.

    An operation may be over long after its node came up. If the node was taken down before, the end
    of the operation says nothing about what ran.

    Of what Google may take back the record tells no end, and it cannot be stopped either.
    """
    since = node.sent_at
    if since is None or node.spec.provisioning_model in TAKEN_BACK:
        return
    downs = sorted(op.created_at for op in operations if op.verb in GOES_DOWN)
    taken_down = [op.created_at for op in operations if op.verb in GOES_DOWN and op.succeeded]
    ups = (
        op.ended_at
        for op in operations
        if op.verb in COMES_UP and op.succeeded and not _falls_within(taken_down, op)
    )
    for up in sorted(at for at in ups if at is not None and at >= since):
        down = next((at for at in downs if at >= up), up)
        if down == up or any(_meets(usage, up, down) for usage in usages):
            continue
        usage = opened(node, up, up, Evidence.OPERATION)
        yield closed(usage, down, down, Evidence.OPERATION)


def _falls_within(instants: Sequence[int], operation: Operation) -> bool:
    """Whether one of them lies between the beginning of an operation and its end."""
    start, end = operation.created_at, operation.ended_at
    return end is not None and any(start < at < end for at in instants)


def _meets(usage: Usage, start: int, end: int) -> bool:
    return usage.start < end and (usage.end is None or usage.end > start)


def told_overlooked(node: Node, usage: Usage, now: int) -> Event:
    """What is said of it in the node's story."""
    start, end = rfc3339(usage.start), rfc3339(usage.end or now)
    return Event(
        node.id,
        now,
        "evidence",
        f"it was READY from {start} to {end}, which no poll saw; source: the cloud's operations",
        facts={"usage": usage.id, "start": usage.start, "end": usage.end},
    )
