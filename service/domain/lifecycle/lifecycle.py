"""Decides the next step of a node. Pure; `service.controllers.lifecycle.lifecycle` acts."""

from __future__ import annotations

from dataclasses import replace

from service.domain.clock import to_rfc3339
from service.domain.errors import CloudError
from service.domain.lifecycle import queueing, reimaging
from service.domain.lifecycle.absence import Absence
from service.domain.lifecycle.expiry import out_of_time
from service.domain.lifecycle.in_flight import may_still_appear
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.deletion import wanted_since
from service.domain.nodes.node import LOST, Asked, CloudNode, Node, NodeState
from service.domain.nodes.operation import Operation
from service.domain.nodes.ownership import is_ours

OVERDUE_SECONDS = 1_800
"""Seconds after which a human is told of a deletion that does not end, or of an UNKNOWN state. A
deletion is retried forever, and an UNKNOWN node is not deleted for its state."""


LATE_SECONDS = 15
"""Seconds to wait for a node that is still shown after its create has failed: it may come up just
then."""


_BY_ABSENCE = frozenset({NodeStep.NEXT, NodeStep.CLOSE, NodeStep.VANISH})
"""Steps that need a certain absence."""


def next_step(node: Node, look: NodeLook, now: int) -> NodeStep:
    """The next step of a node, by its requested state and by what the cloud shows.

    The function has no memory: a lost, late or repeated tick leads to the same step.
    """
    step = _choose_step(node, look, now)
    return NodeStep.MISS if step in _BY_ABSENCE and look.absence is not Absence.CERTAIN else step


def _choose_step(  # noqa: PLR0911 - a table of the cases
    node: Node, look: NodeLook, now: int
) -> NodeStep:
    if node.sent_at is None:
        return NodeStep.CLOSE if node.asked is Asked.ABSENT else NodeStep.PLACE
    if node.spec.queued:
        return queueing.next_step(node, look, now)
    if look.sight is None:
        return _when_absent(node, look.operation, now)
    if not is_ours(node, look.sight):
        step = _when_absent(node, look.operation, now)
        return NodeStep.CONFLICT if step is NodeStep.SEND else step
    if node.asked is Asked.ABSENT:
        return NodeStep.WAIT if look.sight.state == NodeState.DELETING else NodeStep.DELETE
    return _when_present(node, look.sight, look.operation, now)


def _when_absent(node: Node, operation: Operation | None, now: int) -> NodeStep:
    wanted = node.asked is not Asked.ABSENT
    if wanted and not node.operation and not node.cloud_uid:
        return NodeStep.SEND
    if may_still_appear(node, operation, now):
        return NodeStep.WAIT
    if not wanted:
        return NodeStep.CLOSE
    is_created = operation is not None and operation.verb == "create" and operation.has_succeeded
    came_up = node.up_since is not None or is_created
    return NodeStep.VANISH if came_up and not node.replacing else NodeStep.NEXT


def _when_present(node: Node, sight: CloudNode, operation: Operation | None, now: int) -> NodeStep:
    if sight.state == NodeState.DELETING:
        return NodeStep.WAIT
    ready = sight.state == NodeState.READY
    failed = (
        operation is not None
        and operation.verb == "create"
        and operation.error is not None
        and now - (operation.ended_at or 0) >= LATE_SECONDS
        and not ready  # a READY node may be in use although its create failed
    )
    if sight.state in LOST or node.replacing or failed:
        return NodeStep.REPLACE
    if not ready and sight.state != NodeState.STOPPED:
        return NodeStep.WAIT
    if ready is (node.asked is Asked.PRESENT):
        return _when_as_asked(node, sight, operation)
    return NodeStep.STOP if ready else NodeStep.START


def _when_as_asked(node: Node, sight: CloudNode, operation: Operation | None) -> NodeStep:
    """The step of a node that is READY or STOPPED as requested: a reimage may be due."""
    if node.asked is Asked.PRESENT and node.spec.reimage_from:
        if reimaging.is_under_way(operation):
            return NodeStep.WAIT
        if reimaging.is_due(node, sight, operation):
            return NodeStep.REIMAGE
    return NodeStep.SETTLE


def may_have_come_up(node: Node) -> bool:
    """Whether the node was sent, is still wanted, and was never seen READY in its lifecycle.

    It may have come up meanwhile and be in use, so it is polled before it is given up as too late.
    """
    is_wanted = node.asked is not Asked.ABSENT
    return is_wanted and node.sent_at is not None and node.ready_at is None


def needs_a_human(node: Node, now: int) -> bool:
    """Whether a human must be told, and was not yet, that the lifecycle of a node is stuck.

    Its deletion does not end, or it should have been given up long ago and cannot be polled, or the
    cloud shows it as UNKNOWN.
    """
    if node.alarmed_at is not None or node.sent_at is None:
        return False
    since = wanted_since(node)
    if since is not None:
        return now - since >= OVERDUE_SECONDS
    if node.tries and may_have_come_up(node) and out_of_time(node, now - OVERDUE_SECONDS):
        return True
    return node.state == NodeState.UNKNOWN and now - node.state_since >= OVERDUE_SECONDS


def describe_alarm(node: Node, now: int, rate: str) -> str:
    """The message to a human that the lifecycle of a node is stuck. `rate` is the running cost in
    words."""
    where, since = f"{node.cloud_id} in {node.zone}", wanted_since(node)
    if since is None and node.state != NodeState.UNKNOWN:
        return (
            f"{where} should have been given up: {out_of_time(node, now)}. The cloud does not"
            f" show whether it exists ({node.last_error or 'no answer'}). It may be in use, so"
            " it is not deleted until the cloud answers"
        )
    if since is None:
        return (
            f"{where} has been UNKNOWN since {to_rfc3339(node.state_since)}, as Google"
            f" shows it after a repair that failed; {rate}. It may be in use, so it is not"
            " deleted: delete it if it is not in use"
        )
    shown = node.state
    if node.queue_state:
        shown = f"{node.state}, its queued resource {node.queue_state}"
    what = (
        "deletion" if node.delete_requested_at is not None else "deletion before the next attempt"
    )
    return (
        f"{what} was requested at {to_rfc3339(since)}, and {where} is still there"
        f" {(now - since) // 60} minutes later ({shown}); {rate}. The deletion is retried"
        " indefinitely"
    )


def wait_delay(waited: int, period: int) -> int:
    """Seconds until the next poll in a waiting node's lifecycle: each tick at first, later every 30
    seconds."""
    return max(period, min(30, waited // 4))


def retry_delay(tries: int) -> int:
    """Seconds until a failed step of the lifecycle is retried: 5, then doubled, at most 300."""
    return int(min(300, 5 * 2 ** min(tries, 6)))


def with_retry(node: Node, reason: str, now: int, wait: int | None = None) -> Node:
    """The node after a failed step of its lifecycle, with a retry after `wait` seconds or with
    backoff."""
    later = now + (retry_delay(node.tries) if wait is None else wait)
    return replace(node, last_error=reason, tries=node.tries + 1, next_try_at=later)


def asked_to_wait(error: CloudError) -> int | None:
    """Seconds after which the cloud allows the retry of a lifecycle step; None if it does not
    say."""
    wait = error.facts.get("retry_after")
    return wait if isinstance(wait, int) else None
