"""What to do next with a node that is asked for through a queued resource. Pure.

The queued resource is the thing that is held on to: it holds quota in every state, can bring nodes
about long after everybody has forgotten it, and must be gone before its nodes count as gone.
"""

from __future__ import annotations

from service.domain.lifecycle.absence import Absence
from service.domain.lifecycle.in_flight import is_fresh, may_still_appear
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import LOST, Asked, CloudNode, Node, NodeState
from service.domain.nodes.ownership import is_our_ticket, is_ours
from service.domain.nodes.queued_resource import IN_LINE, QueuedResource, QueueState
from service.domain.pricing.billing_rules import is_billable

TOO_BUSY_TO_DELETE = frozenset(
    {QueueState.CREATING, QueueState.PROVISIONING, QueueState.SUSPENDING}
)
"""Google accepts a delete in these, with force too, and fails it a second or two later: seen in the
field (reference/cloud-tpu-api.md section 3.2). They are waited through."""

STUCK_SECONDS = 600
"""After so long in one of them a delete is asked for all the same, again and again."""

NODES_WITHIN_SECONDS = 180
"""How long an ACTIVE queued resource may lack a node before that counts as lost."""


def next_step(node: Node, look: NodeLook, now: int) -> NodeStep:
    """Say the one thing to do with a node that was sent to the queue."""
    queue = look.queue
    if queue is None or not is_our_ticket(node, queue):
        step = _without_ticket(node, look, now)
        return NodeStep.CONFLICT if step is NodeStep.SEND and queue is not None else step
    if node.asked is Asked.ABSENT or node.replacing:
        return _leave(node, look, queue, now)
    if queue.state in (QueueState.FAILED, QueueState.SUSPENDED):
        return NodeStep.REPLACE
    if queue.state == QueueState.ACTIVE:
        return _when_active(node, look, now)
    return NodeStep.QUEUE if queue.state in IN_LINE else NodeStep.WAIT


def needs_nodes(node: Node, queue: QueuedResource | None) -> bool:
    """Whether there may be nodes to look at: none are made before their turn has come."""
    return queue is None or queue.state not in IN_LINE or node.was_shown


def _when_active(node: Node, look: NodeLook, now: int) -> NodeStep:
    found = look.present
    if any(one.state in LOST for one in found):
        return NodeStep.REPLACE
    if len(found) < len(look.members):
        since = now if node.queue_since is None else node.queue_since
        late = node.up_since is not None or now - since >= NODES_WITHIN_SECONDS
        return _lost(look) if late else NodeStep.WAIT
    if all(one.state == NodeState.READY for one in found):
        return NodeStep.SETTLE
    if all(one.state == NodeState.STOPPED for one in found):
        return NodeStep.START  # somebody stopped it elsewhere; here it cannot be asked for
    return NodeStep.WAIT


def _leave(node: Node, look: NodeLook, queue: QueuedResource, now: int) -> NodeStep:
    """Out of the queue, in whatever state it is there."""
    stuck = node.queue_since is not None and now - node.queue_since >= STUCK_SECONDS
    if queue.state == QueueState.DELETING:
        return NodeStep.DEQUEUE if stuck else NodeStep.WAIT
    if queue.state not in TOO_BUSY_TO_DELETE:
        return NodeStep.DEQUEUE
    if any(is_billable(one.state) for one in _ours(node, look)):
        return NodeStep.DELETE  # it costs money while the queued resource makes up its mind
    return NodeStep.DEQUEUE if stuck else NodeStep.WAIT


def _without_ticket(node: Node, look: NodeLook, now: int) -> NodeStep:
    """Nothing of ours is in the queue. What is left of its nodes lives and goes by itself."""
    wanted = node.asked is not Asked.ABSENT
    found = _ours(node, look)
    if not found:
        return _when_nothing_is_left(node, look, now)
    if all(one.state == NodeState.DELETING for one in found):
        return NodeStep.WAIT
    if not wanted or node.replacing:
        return NodeStep.DELETE
    broken = any(one.state in LOST for one in found)
    if broken or len(found) < len(look.members):
        return NodeStep.REPLACE if broken else _lost(look)
    return NodeStep.SETTLE if all(one.state == NodeState.READY for one in found) else NodeStep.WAIT


def _lost(look: NodeLook) -> NodeStep:
    """What to do where some of it is not there: what is left works on until that is certain."""
    return NodeStep.REPLACE if look.absence is Absence.CERTAIN else NodeStep.MISS


def _when_nothing_is_left(node: Node, look: NodeLook, now: int) -> NodeStep:
    wanted = node.asked is not Asked.ABSENT
    if wanted and not node.operation and not node.queue_state and not node.replacing:
        return NodeStep.SEND
    if may_still_appear(node, look.operation, now) or _not_shown_yet(node, now):
        return NodeStep.WAIT
    if not wanted:
        return NodeStep.CLOSE
    return NodeStep.VANISH if node.up_since is not None and not node.replacing else NodeStep.NEXT


def _not_shown_yet(node: Node, now: int) -> bool:
    return not node.queue_state and is_fresh(node, now)


def _ours(node: Node, look: NodeLook) -> tuple[CloudNode, ...]:
    return tuple(one for one in look.present if is_ours(node, one))
