"""What one poll changes in the record of a node and in its usage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.event import Event
from service.domain.evidence.poll import Poll
from service.domain.evidence.unseen_usage import find_return
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Usage
from service.domain.metering.usage import (
    find_end_bounds,
    find_start_bounds,
    start_usage,
    with_end,
    with_first_minute_rule,
)
from service.domain.nodes.node import LOST, Asked, CloudNode, Node, NodeState
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource, QueueState
from service.domain.pricing.billing_rules import is_billable


@dataclass(frozen=True, slots=True)
class PolledNode:
    """A node after a poll, and the usage that the poll opened, closed or found running (or None).

    `happened_at` is the instant of the change, if it is known exactly.
    """

    node: Node
    usage: Usage | None
    events: tuple[Event, ...] = ()
    happened_at: int | None = None


def observe_node(node: Node, sight: CloudNode, running: Usage | None, poll: Poll) -> PolledNode:
    """The record of an observed node, which the cloud has shown as `sight`; `running` is its open
    usage."""
    is_same = node.cloud_uid == sight.uid
    if is_same and sight.state == NodeState.CREATING and node.up_since is not None:
        return PolledNode(node, running)  # stale: a node that was READY is never CREATING again
    usage = _usage_after(node, sight, running, poll)
    after = replace(
        node.with_state(sight.state, poll.now),
        seen_at=poll.now if poll.asked_at is None else poll.asked_at,
        # If only one create was sent, the seen node is its result.
        unanswered_at=None if node.unanswered_at == node.sent_at else node.unanswered_at,
        cloud_uid=sight.uid,
        health=sight.health,
        endpoints=sight.endpoints,
    )
    is_seen = usage is not None and usage.start_evidence is not Evidence.UNSEEN
    if usage is not None and is_seen and after.up_since is None:
        first = usage.start if after.ready_at is None else after.ready_at
        after = replace(after, up_since=usage.start, ready_at=first)
    instant: int | None = None  # by the cloud's operations; None if only polls bound it
    if usage is not None and usage != running:
        ending = (usage.start, usage.start_hi) if usage.end is None else (usage.end, usage.end_lo)
        instant = ending[0] if ending[0] == ending[1] else None
    if instant is not None and after.state != node.state:
        after = replace(after, state_since=instant)
    events: list[Event] = []
    if not node.cloud_uid and not node.operation:
        found = f"found {after.cloud_id} in {after.zone}: an earlier request had taken effect"
        events.append(Event(after.id, poll.now, "adopted", found))
    if after.state != node.state:
        message = f"{after.state} in {after.zone}, was {node.state}"
        message += f": {sight.health_description}" if sight.health_description else ""
        facts = {"from": node.state, "to": after.state}
        events.append(Event(after.id, poll.now, "state", message, facts=facts))
    return PolledNode(after, usage, tuple(events), happened_at=instant)


_GRANTED = frozenset(
    {
        QueueState.PROVISIONING,
        QueueState.ACTIVE,
        QueueState.SUSPENDING,
        QueueState.SUSPENDED,
    }
)
"""Google has granted the hardware. The nodes of a suspended queued resource may have been READY
although no poll saw them."""


def observe_queue(
    node: Node, queue: QueuedResource, asked: int, now: int
) -> tuple[Node, tuple[Event, ...]]:
    """The node and its events after its queued resource was observed in another state.

    The state held when the request was sent at `asked`; it may have changed before the answer at
    `now`.
    """
    after = replace(
        node,
        queue_state=queue.state,
        queue_since=now,
        unanswered_at=None if node.unanswered_at == node.sent_at else node.unanswered_at,
    )
    if not node.was_shown:
        waiting = queue.state in IN_LINE
        coming = queue.state in _GRANTED
        shown = NodeState.QUEUED if waiting else NodeState.CREATING if coming else node.state
        # Only while the request waits in line is it certain that no node of it was READY.
        after = replace(after.with_state(shown, now), seen_at=asked if waiting else node.seen_at)
    message = f"queued resource in {node.zone}: {queue.state}"
    if node.queue_state:
        message += f", was {node.queue_state}"
    if queue.error is not None:
        message += f": {queue.error}"
    facts = {"from": node.queue_state, "to": queue.state}
    return after, (Event(node.id, now, "queue", message, facts=facts),)


def state_of_absent_node(node: Node, queue: QueuedResource) -> str:
    """The observed state of a node that is gone while its queued resource still exists."""
    suspended = queue.state in (QueueState.SUSPENDING, QueueState.SUSPENDED)
    if suspended and queue.initiator != "USER":
        return NodeState.PREEMPTED
    leaving = node.asked is Asked.ABSENT or node.replacing or queue.state == QueueState.DELETING
    return NodeState.DELETING if leaving else NodeState.TERMINATED


def close_usage_of_down_node(
    node: Node, running: Usage | None, poll: Poll, *, was_lost: bool = False
) -> Usage | None:
    """The closed usage of a node that is no longer READY: it is down, lost or gone. This is the
    running usage, now closed, or else usage that no poll saw.

    `was_lost` says that the cloud shows the node as PREEMPTED or TERMINATED: it may have been READY
    although its create or start has failed.

    Usage between two polls is assumed if an operation says that the node came up, or if nothing
    rules it out. None if there was no usage.
    """
    if running is not None:
        return _close_usage(running, poll)
    recorded = _find_recorded_usage(node, poll)
    if recorded is not None:
        return recorded
    poll = replace(poll, previous=max(poll.previous, node.sent_at or 0))
    # Whether the create or start that was under way has failed by the cloud's operations. A node
    # that was preempted came up all the same, or may have.
    verb = None if was_lost else _VERB_OF_FIRST_START.get(node.state)
    has_failed = any(op.verb == verb and op.error is not None for op in poll.operations)
    # Whether the queued resource was accepted and may have run nodes between two polls. Nothing is
    # left of the queued resource, and nothing says when it ended.
    may_be_granted = (
        node.spec.queued
        and bool(node.operation)
        and node.up_since is None
        and node.state in _BEFORE_GRANTED
        and node.queue_state in _MAY_BE_GRANTED
        and poll.now - poll.previous > GRANTED_WITHIN
        and not poll.refused
    )
    if not may_be_granted and (node.state not in _MAY_TURN_READY or has_failed):
        return None
    supposed = _close_usage(_open_usage(node, poll), poll)
    assert supposed.end is not None
    if supposed.end - supposed.start <= CLOCK_TOLERANCE:
        return None
    return replace(
        supposed, start_hi=supposed.end, end_lo=supposed.end, start_evidence=Evidence.UNSEEN
    )


def _usage_after(node: Node, sight: CloudNode, running: Usage | None, poll: Poll) -> Usage | None:
    """The usage that the shown state opens, leaves running or closes; None if there is none."""
    if is_billable(sight.state):
        return running if running is not None else _open_usage(node, poll)
    # Whether the node was READY before this state. A node that is started was stopped, so it was
    # READY once; if a poll saw that, its usage is known.
    is_starting = sight.state == NodeState.STARTING
    was_ready = node.up_since is None if is_starting else sight.state != NodeState.CREATING
    usage: Usage | None = None
    if running is not None or sight.state in _DOWN:
        usage = close_usage_of_down_node(node, running, poll, was_lost=sight.state in LOST)
    elif has_stayed_up(node, sight.state):
        usage = find_return(node, node.state_since, poll)
    elif was_ready:
        usage = _find_recorded_usage(node, poll)
    if usage is not None and sight.state in LOST:
        return with_first_minute_rule(usage, sight.created_at)
    return usage


def has_stayed_up(node: Node, state: str) -> bool:
    """Whether an observed state shows that a stop or delete has failed. A node that is down has no
    hardware to repair."""
    return node.state in _GOING and state in COMES_BACK_BY_ITSELF


_GOING = frozenset({NodeState.STOPPING, NodeState.DELETING})

_DOWN = _GOING | LOST | {NodeState.STOPPED}
"""States of a node that may have been READY since the previous poll, and will not be by itself."""


def _open_usage(node: Node, poll: Poll) -> Usage:
    """Open an interval. Its start is exact by an operation, or lies between two polls."""
    came_up = poll.last_up
    if node.up_since is not None and came_up is not None and came_up < poll.previous:
        came_up = None  # this start belongs to an earlier interval
    start, start_hi, evidence = find_start_bounds(poll.previous, poll.now, came_up)
    # Two polls may both see the node on its way up, although it was READY between them and
    # restarted. `since` is the earliest instant at which it may have been READY unseen.
    is_rising = node.state in _MAY_TURN_READY
    since = min(poll.previous, node.state_since) if is_rising else poll.previous
    earlier = poll.first_up_before(start, since)
    if earlier is None and node.state in _UP_WITHOUT_RECORD and poll.has_stop_before(start):
        earlier = poll.previous  # it was READY before it was stopped; no operation says since when
    if evidence is Evidence.OPERATION and earlier is not None:
        start, evidence = earlier, Evidence.OBSERVED
    if evidence is Evidence.OBSERVED and node.state in _GOING:
        back = poll.recovered_at(node.state_since)
        start = start if back is None else min(start, back)
    return start_usage(node, start, start_hi, evidence)


def _close_usage(usage: Usage, poll: Poll) -> Usage:
    """Close an interval. Its end is exact by an operation, or lies between two polls; the bound is
    wider if a stop failed, or if the node may have been preempted before its deletion."""
    went_down = poll.last_down
    if went_down is not None and went_down < usage.start:
        went_down = None
    end_lo, end, evidence = find_end_bounds(poll.previous, poll.now, went_down)
    if usage.sku.model in TAKEN_BACK and end_lo - poll.previous > CLOCK_TOLERANCE:
        # The node may have been preempted long before the deletion was accepted.
        end_lo, evidence = poll.previous, Evidence.OBSERVED
    failed_stop_at = poll.first_failed_stop_before(end)
    if failed_stop_at is not None and failed_stop_at < end_lo:
        end_lo, evidence = failed_stop_at, Evidence.OBSERVED
    return with_end(usage, end_lo, end, evidence)


def _find_recorded_usage(node: Node, poll: Poll) -> Usage | None:
    """Usage between two polls, if an operation says that the node came up; else None."""
    came_up = poll.last_up
    if node.up_since is not None:
        came_up = poll.last_end_of(_VERB_OF_RESTART.get(node.state, ""))
        if came_up is None or came_up < poll.previous:
            return None
    if came_up is None:
        return None
    return _close_usage(_open_usage(node, poll), replace(poll, previous=came_up))


COMES_BACK_BY_ITSELF = frozenset({NodeState.RESTARTING, NodeState.REPAIRING})
"""States that Google ends by itself, without an operation."""

_UP_WITHOUT_RECORD = COMES_BACK_BY_ITSELF | {NodeState.CREATING}
"""A node can also come up after CREATING although its operation failed or is lost."""

_VERB_OF_RESTART: Mapping[str, str] = {
    NodeState.STARTING: "start",
    NodeState.REIMAGING: "reimage",
}
"""The operation that makes a node READY again, by the state while it is under way."""

_VERB_OF_FIRST_START: Mapping[str, str] = {
    NodeState.CREATING: "create",
    NodeState.STARTING: "start",
}
"""The operation that makes a node READY for the first time that a poll sees, by its state."""

_MAY_TURN_READY = frozenset(
    {
        NodeState.CREATING,
        NodeState.STARTING,
        NodeState.RESTARTING,
        NodeState.REPAIRING,
        NodeState.REIMAGING,
    }
)
"""States after which a node may have been READY again before it was gone."""


_BEFORE_GRANTED = frozenset({NodeState.REQUESTED, NodeState.QUEUED})
_MAY_BE_GRANTED = frozenset({"", QueueState.PROVISIONING, QueueState.ACTIVE})
"""Last seen states of a queued resource ("" for never seen) after which nodes may have been READY
unseen. A request that was seen in line is not in the set: it may have waited there for days."""

GRANTED_WITHIN = 60
"""Google needs longer than so many seconds to grant a queued resource, start its nodes and preempt
them."""
