"""Whether what was asked of the cloud may still take effect though nothing shows of it.

What a node keeps of the creates of its present attempt:

| `sent_at` | `unanswered_at` | `operation` | means                                              |
|-----------|-----------------|-------------|----------------------------------------------------|
| None      | None            | empty       | no attempt, or the last one is over: nothing there |
| s         | s               | empty       | sent at s, no answer: it may land                  |
| s         | u > s           | empty       | sent again, last at u: more than one may land      |
| s         | None            | empty       | refused for certain, tried again: nothing there    |
| s         | None            | named       | accepted: its operation decides                    |
| s         | u > s           | named       | accepted at last: one from before may land as well |

It is written before a call as if there will be no answer; a refusal for certain puts back what
stood before the call. What is seen in the cloud counts for more than all of it.
"""

from __future__ import annotations

from service.domain.nodes.node import Node
from service.domain.nodes.operation import Operation

IN_FLIGHT_SECONDS = 180
"""How long a call whose answer was lost may still take effect. Before that, absence proves nothing
(rule R3 of the fault model: no negative conclusion before the horizon)."""

SEND_WITHIN_SECONDS = 60
"""How old an intent may be when it is sent. A daemon that slept in between must not send it, since
another one may have drawn its conclusions by then. Together with the call's own deadline (60) it is
less than the horizon above."""


def may_yet_land(node: Node, now: int) -> bool:
    """Whether a create whose answer was lost may still take effect, whatever else is known.

    The end of one create says nothing of another that was sent under the same name.
    """
    return node.unanswered_at is not None and now - node.unanswered_at < IN_FLIGHT_SECONDS


def too_old_to_send(node: Node, now: int) -> bool:
    """Whether so much time went by since the intent was written that it must be written anew."""
    return node.unanswered_at is None or now - node.unanswered_at > SEND_WITHIN_SECONDS


def is_unsent(node: Node) -> bool:
    """Whether the intent is written down and, for certain, nothing of it is in the cloud or on its
    way: every create was refused, or was never sent, and nothing of it was ever seen."""
    return (
        node.sent_at is not None
        and node.unanswered_at is None
        and node.up_since is None
        and not (node.operation or node.queue_state or node.was_shown)
    )


def may_still_appear(node: Node, operation: Operation | None, now: int) -> bool:
    """Whether the create that was sent could yet bring the node, or its queued resource, about.

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
    """Whether it was sent, or accepted after it had been sent in vain for long, so lately that an
    answer may still be from before that."""
    if node.sent_at is None or is_unsent(node):
        return False
    return now - max(node.sent_at, node.state_since) < IN_FLIGHT_SECONDS
