"""What an interval really was, where the cloud says that the node went down unseen: for a while, or
for good. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from service.domain.clock import rfc3339
from service.domain.event import Event
from service.domain.ids import new_id
from service.domain.metering.meter import Evidence, Usage, closed
from service.domain.nodes.node import Node
from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation

_DOWN = ("stop", "reimage")
_UP = ("start", "reimage")
"""What ends one stretch of the same node, and begins the next."""


def blinks(operations: Sequence[Operation], since: int) -> list[tuple[int, int]]:
    """(down, up) of each time that a node was stopped or reimaged and came back after `since`, by
    the operations on it that succeeded; instants in whole UTC seconds, in their order."""
    known = [op for op in operations if op.succeeded and op.ended_at is not None]
    ups = [op.ended_at for op in known if op.verb in _UP and op.ended_at is not None]
    found: list[tuple[int, int]] = []
    for down in sorted(op.created_at for op in known if op.verb in _DOWN):
        up = min((at for at in ups if at > down), default=None)
        if up is not None and up > since and (not found or down > found[-1][1]):
            found.append((down, up))
    return found


def cut(usage: Usage, operations: Sequence[Operation]) -> list[Usage]:
    """The intervals that take the place of one, be it over or not; none where the cloud's record
    says nothing against it.

    Where it was called READY between a stop and the end of the start after it, either that look was
    stale, or the start was long done: all of that stays charged, and is uncertain.
    """
    until = usage.end if usage.end_lo is None else usage.end_lo
    found: list[Usage] = []
    current = usage
    for down, up in blinks(operations, usage.start_hi):
        if until is not None and up >= until:
            break
        if down <= current.start_hi:
            current = replace(current, start_hi=up, dirty=True)
            continue
        found.append(closed(current, down, down, Evidence.OPERATION))
        current = replace(
            usage,
            id=new_id(),
            version=0,
            start=up,
            start_hi=up,
            start_evidence=Evidence.OPERATION,
            posted_until=up,
            unpriced_seconds=0,
            dirty=True,
        )
    return [] if current == usage else [*found, current]


def shortened(usage: Usage, operations: Sequence[Operation]) -> Usage | None:
    """An interval that is over as the cloud's record has it: somebody took the node down before it
    was ended here, and it did not come back. None where the record says nothing of the kind.

    What took it down need not have come to its end: what is stopping as its deletion is accepted
    never is stopped.
    """
    if usage.end is None or usage.end_lo is None:
        return None
    over = usage.end_lo
    known = [op for op in operations if op.succeeded and op.ended_at is not None]
    ups = [op.ended_at for op in known if op.verb in COMES_UP and op.ended_at is not None]
    after = max((up for up in ups if usage.start_hi < up <= usage.end), default=usage.start_hi)
    downs = [
        op.created_at
        for op in operations
        if op.verb in GOES_DOWN
        and op.ended_at is not None
        and (op.succeeded or op.ended_at >= over)
    ]
    down = min((at for at in downs if after < at < over), default=None)
    return None if down is None else closed(usage, down, down, Evidence.OPERATION)


def told_shortened(node: Node, before: Usage, after: Usage, now: int) -> Event:
    """What is said of an interval that was shortened."""
    seconds = (before.end or now) - (after.end or now)
    return Event(
        node.id,
        now,
        "evidence",
        f"it had been down since {rfc3339(after.end or now)} already, {seconds} s longer than"
        " recorded; source: the cloud's operations",
        facts={"usage": after.id, "was": before.end, "end": after.end},
    )


def told(node: Node, intervals: Sequence[Usage], now: int) -> tuple[Event, ...]:
    """What is said of it in the node's story."""
    return tuple(
        Event(
            node.id,
            now,
            "evidence",
            f"it was down from {rfc3339(before.end or now)} to {rfc3339(after.start)}, which no"
            " poll saw; source: the cloud's operations",
            facts={"down": before.end, "up": after.start},
        )
        for before, after in pairwise(intervals)
    )
