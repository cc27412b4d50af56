"""Usage between two polls that neither of them saw, by the cloud's operations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.clock import to_rfc3339
from service.domain.event import Event
from service.domain.evidence.poll import Poll
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Usage
from service.domain.metering.usage import start_usage, with_end
from service.domain.nodes.node import Node
from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation


def find_unseen_usage(
    node: Node, usages: Sequence[Usage], operations: Sequence[Operation]
) -> Iterator[Usage]:
    """Unseen usage of a node: intervals that overlap no recorded interval. For nodes that are gone
    for good.

    The node was started and taken down again between two polls. An interval lasts from the end of
    an operation that brings a node up until the next operation that takes it down was accepted.

    An operation may end long after its node came up. If the node was taken down before that, the
    node was READY before it was taken down, but nothing says since when. The interval then begins
    when the operation was accepted: an upper bound, and wholly uncertain.

    Spot and preemptible nodes have no such intervals: no operation says when Google took them back,
    and they cannot be stopped.
    """
    since = node.sent_at
    if since is None or node.spec.provisioning_model in TAKEN_BACK:
        return
    for start, down, evidence in sorted(_list_intervals(operations)):
        start_hi = down if evidence is Evidence.UNSEEN else start
        is_recorded = any(
            usage.start < down and (usage.end is None or usage.end > start) for usage in usages
        )
        if start_hi >= since and not is_recorded:
            usage = start_usage(node, start, start_hi, evidence)
            yield with_end(usage, down, down, Evidence.OPERATION)


def _list_intervals(operations: Sequence[Operation]) -> Iterator[tuple[int, int, Evidence]]:
    """Yield start and end of each time that a node was READY, and the evidence for the start."""
    downs = sorted((op.created_at, op.has_succeeded) for op in operations if op.verb in GOES_DOWN)
    for op in operations:
        if op.verb not in COMES_UP or not op.has_succeeded or op.ended_at is None:
            continue
        up = op.ended_at
        within = [at for at, has_succeeded in downs if has_succeeded and op.created_at < at < up]
        after = [at for at, _ in downs if at >= up]
        if within:
            yield op.created_at, within[0], Evidence.UNSEEN
        elif after and after[0] > up:
            yield up, after[0], Evidence.OPERATION


def find_return(node: Node, last_end: int | None, poll: Poll) -> Usage | None:
    """Unseen usage after `last_end` of a node whose stop or delete failed; None if there was none.

    The operation that ended the last interval failed. So the node was READY again until another
    operation succeeded, or until the node broke down.
    """
    back = poll.recovered_at(last_end)
    if back is None:
        return None
    down, end, evidence = poll.last_down, poll.now, Evidence.OBSERVED
    if down is not None and down >= back:
        end, evidence = down, Evidence.OPERATION
    if end - back <= CLOCK_TOLERANCE:
        return None
    return with_end(start_usage(node, back, end, Evidence.UNSEEN), end, end, evidence)


def describe_unseen_usage(node: Node, usage: Usage, now: int) -> Event:
    """The event of unseen usage, which operations show and no poll saw."""
    start, end = to_rfc3339(usage.start), to_rfc3339(usage.end or now)
    earliest = " at the earliest" if usage.start_evidence is Evidence.UNSEEN else ""
    return Event(
        node.id,
        now,
        "evidence",
        f"it was READY from {start}{earliest} to {end}, which no poll saw; source: the cloud's"
        " operations",
        facts={"usage": usage.id, "start": usage.start, "end": usage.end},
    )
