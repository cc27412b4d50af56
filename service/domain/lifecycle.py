"""What to do next with a node. Pure: it decides, `service.controllers.lifecycle` acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.domain.node import LOST, Asked, CloudNode, Node, NodeState
from service.domain.operation import Operation

IN_FLIGHT_SECONDS = 180
"""How long a call whose answer was lost may still take effect. Before that, absence proves nothing
(rule R3 of the fault model: no negative conclusion before the horizon)."""

SEND_WITHIN_SECONDS = 60
"""How old an intent may be when it is sent. A daemon that slept in between must not send it, since
another one may have drawn its conclusions by then. Together with the call's own deadline (60) it is
less than the horizon above."""

LABEL_ID = "steward-id"
LABEL_INSTALL = "steward-install"


class Step(StrEnum):
    """The one thing to do with a node now."""

    PLACE = "place"
    """Choose a zone and write the intent down; nothing is in the cloud."""

    SEND = "send"
    """The intent is written; ask the cloud for the node (again: the name makes it the same one)."""

    WAIT = "wait"
    """The cloud is at work; look again later."""

    SETTLE = "settle"
    """It is as asked."""

    START = "start"
    STOP = "stop"
    DELETE = "delete"

    REPLACE = "replace"
    """Delete what is there, then place it anew."""

    NEXT = "next"
    """The placement ended and nothing of it is left: make the next one."""

    CLOSE = "close"
    """Wanted no more, and verified gone."""

    VANISH = "vanish"
    """It was up and is gone, and nobody here asked for that."""

    CONFLICT = "conflict"
    """What bears the name is not ours: leave it alone, and say so."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found just now: the node itself (None: the cloud says there is none), and the
    operation that was started last (None: there was none, or the cloud no longer knows it)."""

    sight: CloudNode | None
    operation: Operation | None = None


def labels_for(node: Node, install: str) -> dict[str, str]:
    """The labels of a node in the cloud: the caller's, and ours by which a crash finds it again."""
    return {**node.labels, LABEL_ID: node.id, LABEL_INSTALL: install}


def is_ours(node: Node, sight: CloudNode) -> bool:
    """Whether what bears the node's name is the node: the incarnation we know, or our label.

    Another incarnation with our label is ours as well where we sent the create twice.
    """
    if node.cloud_uid == sight.uid and node.cloud_uid:
        return True
    sent_twice = node.unanswered_at is not None and node.unanswered_at != node.sent_at
    return (sent_twice or not node.cloud_uid) and sight.labels.get(LABEL_ID) == node.id


def next_step(node: Node, look: Look, now: int) -> Step:
    """Say the one thing to do, given what was asked for and what the cloud shows.

    It keeps no memory of its own: a lost, late or doubled tick can only lead to the same answer.
    """
    if node.sent_at is None:
        return Step.CLOSE if node.asked is Asked.ABSENT else Step.PLACE
    if look.sight is None:
        return _when_absent(node, look.operation, now)
    if not is_ours(node, look.sight):
        step = _when_absent(node, look.operation, now)
        return Step.CONFLICT if step is Step.SEND else step
    if node.asked is Asked.ABSENT:
        return Step.WAIT if look.sight.state == NodeState.DELETING else Step.DELETE
    return _when_present(node, look.sight, look.operation)


def _when_absent(node: Node, operation: Operation | None, now: int) -> Step:
    wanted = node.asked is not Asked.ABSENT
    if wanted and not node.operation and not node.cloud_uid:
        return Step.SEND
    if _may_still_appear(node, operation, now):
        return Step.WAIT
    if not wanted:
        return Step.CLOSE
    came_up = node.up_since is not None or _create_succeeded(operation)
    return Step.VANISH if came_up and not node.replacing else Step.NEXT


def may_yet_land(node: Node, now: int) -> bool:
    """Whether a create whose answer was lost may still take effect, whatever else is known.

    The end of one create says nothing of another that was sent under the same name.
    """
    return node.unanswered_at is not None and now - node.unanswered_at < IN_FLIGHT_SECONDS


def too_old_to_send(node: Node, now: int) -> bool:
    """Whether so much time went by since the intent was written that it must be written anew."""
    return node.unanswered_at is None or now - node.unanswered_at > SEND_WITHIN_SECONDS


def _may_still_appear(node: Node, operation: Operation | None, now: int) -> bool:
    """Whether the create that was sent could yet bring the node about.

    Once it was up, or its create is known to be over, absence means that it is gone.
    """
    if may_yet_land(node, now):
        return True
    if node.up_since is not None or node.sent_at is None:
        return False
    if operation is not None and operation.verb == "create":
        return not operation.done
    return not node.cloud_uid and now - node.sent_at < IN_FLIGHT_SECONDS


def _when_present(node: Node, sight: CloudNode, operation: Operation | None) -> Step:
    if sight.state == NodeState.DELETING:
        return Step.WAIT
    ready = sight.state == NodeState.READY
    failed = _create_failed(operation) and not ready  # what is READY may be at work all the same
    if sight.state in LOST or node.replacing or failed:
        return Step.REPLACE
    if not ready and sight.state != NodeState.STOPPED:
        return Step.WAIT
    if ready is (node.asked is Asked.PRESENT):
        return Step.SETTLE
    return Step.STOP if ready else Step.START


def _create_succeeded(operation: Operation | None) -> bool:
    return operation is not None and operation.verb == "create" and operation.succeeded


def _create_failed(operation: Operation | None) -> bool:
    return operation is not None and operation.verb == "create" and operation.error is not None


def out_of_time(node: Node, now: int) -> str:
    """Why the node must go by the clock that its owner set; empty when it need not."""
    if node.asked is Asked.ABSENT:
        return ""
    if node.deletes_at is not None and now >= node.deletes_at:
        return "its time to live ran out"
    limit = node.spec.max_wait_seconds
    if node.ready_at is None and limit is not None and now - node.created_at >= limit:
        return f"it was not READY within {limit} seconds"
    return ""


def wait_delay(waited: int, period: int) -> int:
    """Seconds until the cloud is looked at again: each tick at first, later every 30 seconds."""
    return max(period, min(30, waited // 4))


def retry_delay(tries: int) -> int:
    """Seconds until a call that failed is tried again: 5, 10, 20, ... at most 300."""
    return int(min(300, 5 * 2 ** min(tries, 6)))
