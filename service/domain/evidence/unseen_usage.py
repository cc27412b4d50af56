"""Usage between two polls that neither of them saw, by the cloud's operations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.clock import to_rfc3339
from service.domain.event import Event
from service.domain.metering.meter import Evidence, Usage, with_end
from service.domain.metering.usage import start_usage
from service.domain.nodes.node import Node
from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation


def find_unseen_usage(
    node: Node, usages: Sequence[Usage], operations: Sequence[Operation]
) -> Iterator[Usage]:
    """Intervals of a node that no recorded interval overlaps; for nodes that are gone for good.

    The node was started and taken down again between two polls. An interval lasts from the end of
    an operation that brings a node up until the next operation that takes it down was accepted.

    An operation may end long after its node came up. If the node was taken down before that, the
    end of the operation does not say what ran, and the operation is skipped.

    Spot and preemptible nodes have no such intervals: no operation says when Google took them back,
    and they cannot be stopped.
    """
    since = node.sent_at
    if since is None or node.spec.provisioning_model in TAKEN_BACK:
        return
    downs = sorted(op.created_at for op in operations if op.verb in GOES_DOWN)
    taken_down = [op.created_at for op in operations if op.verb in GOES_DOWN and op.has_succeeded]
    ups = (
        op.ended_at
        for op in operations
        if op.verb in COMES_UP and op.has_succeeded and not _falls_within(taken_down, op)
    )
    for up in sorted(at for at in ups if at is not None and at >= since):
        down = next((at for at in downs if at >= up), up)
        is_recorded = any(
            usage.start < down and (usage.end is None or usage.end > up) for usage in usages
        )
        if down == up or is_recorded:
            continue
        usage = start_usage(node, up, up, Evidence.OPERATION)
        yield with_end(usage, down, down, Evidence.OPERATION)


def _falls_within(instants: Sequence[int], operation: Operation) -> bool:
    """Whether any of the instants lies between the start and the end of an operation."""
    start, end = operation.created_at, operation.ended_at
    return end is not None and any(start < at < end for at in instants)


def describe_unseen_usage(node: Node, usage: Usage, now: int) -> Event:
    """The event of usage that no poll saw."""
    start, end = to_rfc3339(usage.start), to_rfc3339(usage.end or now)
    return Event(
        node.id,
        now,
        "evidence",
        f"it was READY from {start} to {end}, which no poll saw; source: the cloud's operations",
        facts={"usage": usage.id, "start": usage.start, "end": usage.end},
    )
