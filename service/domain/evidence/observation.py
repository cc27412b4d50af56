"""What a look at the cloud changes in what we believe of a node and of its usage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.event import Event
from service.domain.evidence.look import Looking
from service.domain.metering.meter import (
    CLOCK_TOLERANCE,
    Evidence,
    Usage,
    begin,
    closed,
    finish,
    forgiven,
)
from service.domain.metering.usage import opened
from service.domain.nodes.node import LOST, Asked, CloudNode, Node, NodeState
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource, QueueState
from service.domain.pricing.billing_rules import is_billable


@dataclass(frozen=True, slots=True)
class Belief:
    """A node and the usage that a look opened, closed or found running; None when there is none.

    `happened_at` is the instant of the change itself, where the evidence for it is exact.
    """

    node: Node
    usage: Usage | None
    events: tuple[Event, ...] = ()
    happened_at: int | None = None


def observed(node: Node, sight: CloudNode, running: Usage | None, looking: Looking) -> Belief:
    """What to believe once the cloud has shown `sight`; `running` is the usage that is open."""
    if _lags(node, sight):
        return Belief(node, running)
    usage = _usage_after(node, sight, running, looking)
    after = replace(
        node.moved(sight.state, looking.now),
        seen_at=looking.now if looking.asked is None else looking.asked,
        # Where only one create was sent, what is seen is what came of it.
        unanswered_at=None if node.unanswered_at == node.sent_at else node.unanswered_at,
        cloud_uid=sight.uid,
        health=sight.health,
        endpoints=sight.endpoints,
    )
    if usage is not None and after.up_since is None and not _is_supposed(usage):
        first = usage.start if after.ready_at is None else after.ready_at
        after = replace(after, up_since=usage.start, ready_at=first)
    instant = _instant(running, usage)
    if instant is not None and after.state != node.state:
        after = replace(after, state_since=instant)
    told = _said(node, after, sight, looking.now)
    return Belief(after, usage, told, happened_at=instant)


_GRANTED = frozenset(
    {
        QueueState.PROVISIONING,
        QueueState.ACTIVE,
        QueueState.SUSPENDING,
        QueueState.SUSPENDED,
    }
)
"""What is suspended had its hardware: its nodes may have been READY, though no look saw them."""


def queue_observed(
    node: Node, queue: QueuedResource, asked: int, now: int
) -> tuple[Node, tuple[Event, ...]]:
    """What to believe once the cloud has shown the queued resource of a node in another state; it
    held when that was `asked`, and may have been over by the answer, `now`."""
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
        # Only of what is still in line is it certain that nothing of it was READY meanwhile.
        after = replace(after.moved(shown, now), seen_at=asked if waiting else node.seen_at)
    message = f"queued resource in {node.zone}: {queue.state}"
    if node.queue_state:
        message += f", was {node.queue_state}"
    if queue.error is not None:
        message += f": {queue.error}"
    facts = {"from": node.queue_state, "to": queue.state}
    return after, (Event(node.id, now, "queue", message, facts=facts),)


def state_of_absent(node: Node, queue: QueuedResource) -> str:
    """What to say of a node that is no longer there while its queued resource is."""
    suspended = queue.state in (QueueState.SUSPENDING, QueueState.SUSPENDED)
    if suspended and queue.initiator != "USER":
        return NodeState.PREEMPTED
    leaving = node.asked is Asked.ABSENT or node.replacing or queue.state == QueueState.DELETING
    return NodeState.DELETING if leaving else NodeState.TERMINATED


def _lags(node: Node, sight: CloudNode) -> bool:
    """Whether the cloud shows what is long past: a node that was up is never created again."""
    same = node.cloud_uid == sight.uid
    return same and sight.state == NodeState.CREATING and node.up_since is not None


def _instant(running: Usage | None, usage: Usage | None) -> int | None:
    """When the change itself was, where the cloud's record says so; None where a look must do."""
    if usage is None or usage == running:
        return None
    if usage.end is None:
        return usage.start if usage.start == usage.start_hi else None
    return usage.end if usage.end == usage.end_lo else None


def gone(node: Node, running: Usage | None, looking: Looking) -> Usage | None:
    """The usage of a node that the cloud no longer has: closed, or found out about at the last."""
    if running is not None:
        return _close(running, looking)
    return _missed(node, looking)


def _usage_after(
    node: Node, sight: CloudNode, running: Usage | None, looking: Looking
) -> Usage | None:
    if is_billable(sight.state):
        return running if running is not None else _open(node, looking)
    usage: Usage | None = None
    if running is not None or _is_down(sight.state):
        usage = gone(node, running, looking)
    elif was_kept_up(node, sight.state):
        usage = came_back(node, node.state_since, looking)
    elif _was_ready(node, sight.state):
        usage = _recorded(node, looking)
    if usage is not None and sight.state in LOST:
        return forgiven(usage, sight.created_at)
    return usage


def was_kept_up(node: Node, state: str) -> bool:
    """Whether what was to take it down came to nothing: what is down has no hardware that fails."""
    return node.state in _GOING and state in COMES_BACK_BY_ITSELF


def _was_ready(node: Node, state: str) -> bool:
    """Whether READY may lie before this state. What is started was stopped, and so it was READY
    before; where it was seen up, that is known."""
    if state == NodeState.STARTING:
        return node.up_since is None
    return state != NodeState.CREATING


def _is_down(state: str) -> bool:
    """Whether READY may lie between the last look and this state, and will not come by itself."""
    return state in _DOWN or state in LOST


_GOING = frozenset({NodeState.STOPPING, NodeState.DELETING})

_DOWN = _GOING | {NodeState.STOPPED}


def _open(node: Node, looking: Looking) -> Usage:
    came_up = looking.came_up
    if node.up_since is not None and came_up is not None and came_up < looking.before:
        came_up = None  # it began an interval that is over
    start, start_hi, evidence = begin(looking.before, looking.now, came_up)
    earlier = looking.up_before(start, _under_way_since(node, looking))
    if earlier is None and node.state in _UP_WITHOUT_RECORD and looking.went_down_before(start):
        earlier = looking.before  # what was stopped had come up, and no record says when
    if evidence is Evidence.OPERATION and earlier is not None:
        start, evidence = earlier, Evidence.OBSERVED
    if evidence is Evidence.OBSERVED and node.state in _GOING:
        back = looking.back_from(node.state_since)
        start = start if back is None else min(start, back)
    return opened(node, start, start_hi, evidence)


def _under_way_since(node: Node, looking: Looking) -> int:
    """Since when it may have been READY unseen. What was seen on its way up by two looks may have
    come up between them, and have been sent the same way again."""
    if node.state in _MAY_TURN_READY:
        return min(looking.before, node.state_since)
    return looking.before


def _close(usage: Usage, looking: Looking) -> Usage:
    went_down = looking.went_down
    if went_down is not None and went_down < usage.start:
        went_down = None
    end_lo, end, evidence = finish(looking.before, looking.now, went_down)
    if usage.sku.model in TAKEN_BACK and end_lo - looking.before > CLOCK_TOLERANCE:
        # Whoever deleted it may have deleted what had been taken back long before.
        end_lo, evidence = looking.before, Evidence.OBSERVED
    shaken = looking.shaken(end)
    if shaken is not None and shaken < end_lo:
        end_lo, evidence = shaken, Evidence.OBSERVED
    return closed(usage, end_lo, end, evidence)


def came_back(node: Node, last_end: int | None, looking: Looking) -> Usage | None:
    """Usage of a node that is gone, or is down by itself, after its last: by the cloud's record,
    what ended that one came to nothing, and so it was up once more until another succeeded, or it
    broke. Nobody saw that."""
    back = looking.back_from(last_end)
    if back is None:
        return None
    down, end, evidence = looking.went_down, looking.now, Evidence.OBSERVED
    if down is not None and down >= back:
        end, evidence = down, Evidence.OPERATION
    if end - back <= CLOCK_TOLERANCE:
        return None
    return closed(opened(node, back, end, Evidence.UNSEEN), end, end, evidence)


def _missed(node: Node, looking: Looking) -> Usage | None:
    """Usage that two looks both missed: the cloud's record says that the node came up, or nothing
    says that it did not."""
    recorded = _recorded(node, looking)
    if recorded is not None:
        return recorded
    looking = replace(looking, before=max(looking.before, node.sent_at or 0))
    granted = _may_have_been_granted(node, looking)
    if not granted and (node.state not in _MAY_TURN_READY or _is_ruled_out(node, looking)):
        return None
    supposed = _close(_open(node, looking), looking)
    assert supposed.end is not None
    if supposed.end - supposed.start <= CLOCK_TOLERANCE:
        return None
    return replace(
        supposed, start_hi=supposed.end, end_lo=supposed.end, start_evidence=Evidence.UNSEEN
    )


def _recorded(node: Node, looking: Looking) -> Usage | None:
    """Usage that two looks both missed, by the cloud's record that the node came up in between."""
    came_up = looking.came_up
    if node.up_since is not None:
        came_up = looking.ended(_COMES_BACK_BY.get(node.state, ""))
        if came_up is None or came_up < looking.before:
            return None
    if came_up is None:
        return None
    return _close(_open(node, looking), replace(looking, before=came_up))


COMES_BACK_BY_ITSELF = frozenset({NodeState.RESTARTING, NodeState.REPAIRING})
"""States that the cloud ends by itself, without an operation that says when."""

_UP_WITHOUT_RECORD = COMES_BACK_BY_ITSELF | {NodeState.CREATING}
"""And what is created comes up although its operation has failed, or is lost."""

_COMES_BACK_BY: Mapping[str, str] = {
    NodeState.STARTING: "start",
    NodeState.REIMAGING: "reimage",
}

_MAY_TURN_READY = frozenset(
    {
        NodeState.CREATING,
        NodeState.STARTING,
        NodeState.RESTARTING,
        NodeState.REPAIRING,
        NodeState.REIMAGING,
    }
)
"""States after which a node that is found gone may have been READY once more."""


_BEFORE_GRANTED = frozenset({NodeState.REQUESTED, NodeState.QUEUED})
_MAY_BE_GRANTED = frozenset({"", QueueState.PROVISIONING, QueueState.ACTIVE})
"""What a queued resource was last seen as, "" for never, before its nodes came up unseen. One seen
in line is not supposed to have been granted: it may have waited there for days."""
GRANTED_WITHIN = 60
"""Seconds in which Google does not grant a queued resource, bring nodes up and take them back."""


def _may_have_been_granted(node: Node, looking: Looking) -> bool:
    """Whether its queued resource was taken in, and may have run its nodes before anybody looked:
    nothing is left of it, and nobody knows since when."""
    return (
        node.spec.queued
        and bool(node.operation)
        and node.up_since is None
        and node.state in _BEFORE_GRANTED
        and node.queue_state in _MAY_BE_GRANTED
        and looking.now - looking.before > GRANTED_WITHIN
        and not looking.refused
    )


def _is_ruled_out(node: Node, looking: Looking) -> bool:
    """Whether the cloud's record of what was to bring it up says that this did not succeed."""
    if node.state not in (NodeState.CREATING, NodeState.STARTING):
        return False
    verb = "create" if node.state == NodeState.CREATING else "start"
    return any(op.verb == verb and op.error is not None for op in looking.operations)


def _is_supposed(usage: Usage) -> bool:
    return usage.start_evidence is Evidence.UNSEEN


def _said(before: Node, after: Node, sight: CloudNode, now: int) -> tuple[Event, ...]:
    told: list[Event] = []
    if not before.cloud_uid and not before.operation:
        found = f"found {after.cloud_id} in {after.zone}: an earlier request had taken effect"
        told.append(Event(after.id, now, "adopted", found))
    if before.state == after.state:
        return tuple(told)
    message = f"{after.state} in {after.zone}, was {before.state}"
    if sight.health_description:
        message += f": {sight.health_description}"
    facts = {"from": before.state, "to": after.state}
    return (*told, Event(after.id, now, "state", message, facts=facts))
