"""Decides whether a create may still take effect although the cloud shows nothing of it. Pure.

The record of the creates of a node's present attempt:

| `sent_at` | `unanswered_at` | `operation` | means                                              |
|-----------|-----------------|-------------|----------------------------------------------------|
| None      | None            | empty       | no attempt, or the last one is over: nothing there |
| s         | s               | empty       | sent at s, no answer: it may land                  |
| s         | u > s           | empty       | sent again, last at u: more than one may land      |
| s         | None            | empty       | refused for certain, tried again: nothing there    |
| s         | None            | named       | accepted: its operation decides                    |
| s         | u > s           | named       | accepted at last: one from before may land as well |

The record is written before a call, as if there will be no answer; a certain refusal restores the
record of before. A node that is seen in the cloud outweighs the record.
"""

from __future__ import annotations

from service.domain.nodes.node import Node
from service.domain.nodes.operation import Operation

IN_FLIGHT_SECONDS = 180
"""Seconds for which a call whose answer was lost may still take effect. Until then, absence proves
nothing (rule R3 of the fault model: no negative conclusion before the horizon)."""

SEND_WITHIN_SECONDS = 60
"""Maximum age in seconds of an intent when it is sent. A daemon that was suspended in between must
not send it, because its successor may have acted on the absence by then. With the call's own
deadline (60) the sum is less than IN_FLIGHT_SECONDS."""


def may_yet_land(node: Node, now: int) -> bool:
    """Whether a create in flight, whose answer was lost, may still take effect.

    The end of one create says nothing about another create with the same name.
    """
    return node.unanswered_at is not None and now - node.unanswered_at < IN_FLIGHT_SECONDS


def too_old_to_send(node: Node, now: int) -> bool:
    """Whether an intent is too old to put its create in flight, and must be written again."""
    return node.unanswered_at is None or now - node.unanswered_at > SEND_WITHIN_SECONDS


def is_unsent(node: Node) -> bool:
    """Whether the intent of a create is written, and certainly nothing of it is in flight. Nothing
    of it is in the cloud either.

    Every create was refused, or was never sent, and nothing of it was ever seen.
    """
    return (
        node.sent_at is not None
        and node.unanswered_at is None
        and node.up_since is None
        and not (node.operation or node.queue_state or node.was_shown)
    )


def may_still_appear(node: Node, operation: Operation | None, now: int) -> bool:
    """Whether a create in flight may still make the node or its queued resource appear.

    Once that was seen, or its create is known to be over, absence means that it is gone.
    """
    if may_yet_land(node, now):
        return True
    if node.up_since is not None or node.sent_at is None or node.queue_state:
        return False
    if operation is not None and operation.verb == "create":
        return not operation.done
    return not node.cloud_uid and is_fresh(node, now)


def is_fresh(node: Node, now: int) -> bool:
    """Whether the create went in flight so recently that an answer may be from before it."""
    if node.sent_at is None or is_unsent(node):
        return False
    return now - max(node.sent_at, node.state_since) < IN_FLIGHT_SECONDS
