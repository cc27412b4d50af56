"""Decides the next step of a node that is requested through a queued resource. Pure.

The queued resource decides: it holds quota in every state, may create nodes long after the request,
and must be gone before its nodes count as gone.
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
"""States in which Google accepts a delete, also with force, and fails it a second or two later, as
observed (reference/cloud-tpu-api.md section 3.2). The node waits until they are over."""

STUCK_SECONDS = 600
"""Seconds in one of these states after which the delete is sent nevertheless, repeatedly."""

NODES_WITHIN_SECONDS = 180
"""Seconds for which an ACTIVE queued resource may lack a node before it counts as lost."""


def next_step(node: Node, look: NodeLook, now: int) -> NodeStep:
    """The next step of a node that is requested through a queued resource."""
    queue = look.queue
    if queue is None or not is_our_ticket(node, queue):
        step = _without_ticket(node, look, now)
        return NodeStep.CONFLICT if step is NodeStep.SEND and queue is not None else step
    if node.asked is Asked.ABSENT or node.replacing:
        return _leave_queue(node, look, queue, now)
    if queue.state in (QueueState.FAILED, QueueState.SUSPENDED):
        return NodeStep.REPLACE
    if queue.state == QueueState.ACTIVE:
        return _when_active(node, look, now)
    return NodeStep.QUEUE if queue.state in IN_LINE else NodeStep.WAIT


def needs_nodes(node: Node, queue: QueuedResource | None) -> bool:
    """Whether a queued request may have nodes to poll: none are created while it waits in line."""
    return queue is None or queue.state not in IN_LINE or node.was_shown


def _when_active(node: Node, look: NodeLook, now: int) -> NodeStep:
    found = look.present_members
    if any(sight.state in LOST for sight in found):
        return NodeStep.REPLACE
    if len(found) < len(look.members):
        since = now if node.queue_since is None else node.queue_since
        late = node.up_since is not None or now - since >= NODES_WITHIN_SECONDS
        return _replace_if_certain(look) if late else NodeStep.WAIT
    if all(sight.state == NodeState.READY for sight in found):
        return NodeStep.SETTLE
    if all(sight.state == NodeState.STOPPED for sight in found):
        return NodeStep.START  # it was stopped outside this service, which never stops it
    return NodeStep.WAIT


def _leave_queue(node: Node, look: NodeLook, queue: QueuedResource, now: int) -> NodeStep:
    """The step that removes a queued resource, in any of its states."""
    stuck = node.queue_since is not None and now - node.queue_since >= STUCK_SECONDS
    if queue.state == QueueState.DELETING:
        return NodeStep.DEQUEUE if stuck else NodeStep.WAIT
    if queue.state not in TOO_BUSY_TO_DELETE:
        return NodeStep.DEQUEUE
    if any(is_billable(sight.state) for sight in _find_ours(node, look)):
        return NodeStep.DELETE  # the node costs money until the queued resource can be deleted
    return NodeStep.DEQUEUE if stuck else NodeStep.WAIT


def _without_ticket(node: Node, look: NodeLook, now: int) -> NodeStep:
    """The step without a queued resource of ours. Nodes that are left have their own lifecycle."""
    wanted = node.asked is not Asked.ABSENT
    found = _find_ours(node, look)
    if not found:
        return _when_nothing_is_left(node, look, now)
    if all(sight.state == NodeState.DELETING for sight in found):
        return NodeStep.WAIT
    if not wanted or node.replacing:
        return NodeStep.DELETE
    broken = any(sight.state in LOST for sight in found)
    if broken or len(found) < len(look.members):
        return NodeStep.REPLACE if broken else _replace_if_certain(look)
    is_ready = all(sight.state == NodeState.READY for sight in found)
    return NodeStep.SETTLE if is_ready else NodeStep.WAIT


def _replace_if_certain(look: NodeLook) -> NodeStep:
    """The step for missing nodes: the others keep running until the absence is certain."""
    return NodeStep.REPLACE if look.absence is Absence.CERTAIN else NodeStep.MISS


def _when_nothing_is_left(node: Node, look: NodeLook, now: int) -> NodeStep:
    wanted = node.asked is not Asked.ABSENT
    if wanted and not node.operation and not node.queue_state and not node.replacing:
        return NodeStep.SEND
    is_not_shown_yet = not node.queue_state and is_fresh(node, now)
    if may_still_appear(node, look.operation, now) or is_not_shown_yet:
        return NodeStep.WAIT
    if not wanted:
        return NodeStep.CLOSE
    return NodeStep.VANISH if node.up_since is not None and not node.replacing else NodeStep.NEXT


def _find_ours(node: Node, look: NodeLook) -> tuple[CloudNode, ...]:
    return tuple(sight for sight in look.present_members if is_ours(node, sight))
