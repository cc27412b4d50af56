"""Corrects usage by the cloud's operations where a node was down and no poll saw it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from service.domain.clock import to_rfc3339
from service.domain.event import Event
from service.domain.ids import new_id
from service.domain.metering.meter import Evidence, Usage
from service.domain.metering.usage import with_end
from service.domain.nodes.node import Node
from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation

_DOWN_VERBS = ("stop", "reimage")
"""Verbs of the operations that end an interval of a node that comes up again."""

_UP_VERBS = ("start", "reimage")
"""Verbs of the operations that begin the next interval."""


def find_interruptions(operations: Sequence[Operation], since: int) -> list[tuple[int, int]]:
    """(down, up) of each interruption: a stop or reimage with the node READY again later than
    `since`.

    Successful operations alone count. Whole UTC seconds, in order.
    """
    known = [op for op in operations if op.has_succeeded and op.ended_at is not None]
    ups = [op.ended_at for op in known if op.verb in _UP_VERBS and op.ended_at is not None]
    found: list[tuple[int, int]] = []
    for down in sorted(op.created_at for op in known if op.verb in _DOWN_VERBS):
        up = min((at for at in ups if at > down), default=None)
        if up is not None and up > since and (not found or down > found[-1][1]):
            found.append((down, up))
    return found


def split_at_interruptions(usage: Usage, operations: Sequence[Operation]) -> list[Usage]:
    """An interval of use, split at its interruptions: what remains of it, open or closed. Empty if
    the operations do not contradict the interval.

    A poll may have seen READY between a stop and the end of the next start. Then the poll was
    stale, or the node came up long before its operation ended. That time stays charged and is
    marked as uncertain.
    """
    until = usage.end if usage.end_lo is None else usage.end_lo
    found: list[Usage] = []
    current = usage
    for down, up in find_interruptions(operations, usage.start_hi):
        if until is not None and up >= until:
            break
        if down <= current.start_hi:
            current = replace(current, start_hi=up, dirty=True)
            continue
        found.append(with_end(current, down, down, Evidence.OPERATION))
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


def shorten_to_record(usage: Usage, operations: Sequence[Operation]) -> Usage | None:
    """A closed interval, shortened to the first stop, deletion or reimage after which the node did
    not come up again, as the operations show.

    None if no operation took the node down before the recorded end. The operation need not have
    succeeded: a stop never ends as STOPPED when a deletion is accepted meanwhile.
    """
    if usage.end is None or usage.end_lo is None:
        return None
    over = usage.end_lo
    known = [op for op in operations if op.has_succeeded and op.ended_at is not None]
    ups = [op.ended_at for op in known if op.verb in COMES_UP and op.ended_at is not None]
    after = max((up for up in ups if usage.start_hi < up <= usage.end), default=usage.start_hi)
    downs = [
        op.created_at
        for op in operations
        if op.verb in GOES_DOWN
        and op.ended_at is not None
        and (op.has_succeeded or op.ended_at >= over)
    ]
    down = min((at for at in downs if after < at < over), default=None)
    return None if down is None else with_end(usage, down, down, Evidence.OPERATION)


def describe_shortened(node: Node, before: Usage, after: Usage, now: int) -> Event:
    """The event of an interval that an earlier stop or deletion has shortened."""
    seconds = (before.end or now) - (after.end or now)
    return Event(
        node.id,
        now,
        "evidence",
        f"it had been down since {to_rfc3339(after.end or now)} already, {seconds} s longer than"
        " recorded; source: the cloud's operations",
        facts={"usage": after.id, "was": before.end, "end": after.end},
    )


def describe_interruptions(node: Node, intervals: Sequence[Usage], now: int) -> tuple[Event, ...]:
    """The events of the interruptions between these intervals."""
    return tuple(
        Event(
            node.id,
            now,
            "evidence",
            f"it was down from {to_rfc3339(before.end or now)} to {to_rfc3339(after.start)}, which"
            " no poll saw; source: the cloud's operations",
            facts={"down": before.end, "up": after.start},
        )
        for before, after in pairwise(intervals)
    )
