"""What a running interval really was, where the cloud says that the node was down for a while and
came back, and nobody looked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from service.domain.clock import rfc3339
from service.domain.event import Event
from service.domain.metering import Evidence, Usage, closed
from service.domain.node import Node
from service.domain.operation import Operation
from service.domain.usage import opened

_DOWN = ("stop", "reimage")
_UP = ("start", "reimage")


def blinks(operations: Sequence[Operation], since: int) -> list[tuple[int, int]]:
    """(down, up) of each time that a node was stopped or reimaged after `since` and came back, by
    the operations on it that succeeded; instants in whole UTC seconds, in their order."""
    known = [op for op in operations if op.succeeded and op.ended_at is not None]
    found: list[tuple[int, int]] = []
    for down in sorted(op.created_at for op in known if op.verb in _DOWN):
        ups = [op.ended_at for op in known if op.verb in _UP and op.ended_at is not None]
        up = min((at for at in ups if at > down), default=None)
        after = max(since, found[-1][1] if found else since)
        if up is not None and down > after:
            found.append((down, up))
    return found


def cut(node: Node, running: Usage, operations: Sequence[Operation]) -> list[Usage]:
    """The intervals that take the place of a running one, the last of which runs; none where the
    cloud's record says nothing against it."""
    found: list[Usage] = []
    current = running
    for down, up in blinks(operations, running.start_hi):
        found.append(closed(current, down, down, Evidence.OPERATION))
        current = opened(node, up, up, Evidence.OPERATION)
    return [*found, current] if found else []


def told(node: Node, intervals: Sequence[Usage], now: int) -> tuple[Event, ...]:
    """What is said of it in the node's story."""
    return tuple(
        Event(
            node.id,
            now,
            "evidence",
            f"it was down from {rfc3339(before.end or now)} to {rfc3339(after.start)}, which nobody"
            " saw: so says the cloud's own record",
            facts={"down": before.end, "up": after.start},
        )
        for before, after in pairwise(intervals)
    )
