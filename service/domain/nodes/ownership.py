"""Whose something in the cloud is: the labels by which a crash finds our own again."""

from __future__ import annotations

from service.domain.nodes.node import CloudNode, Node
from service.domain.nodes.queued_resource import QueuedResource

LABEL_ID = "steward-id"
LABEL_INSTALL = "steward-install"


def labels_for(node: Node, install: str) -> dict[str, str]:
    """The labels of a node in the cloud: the caller's, and ours by which a crash finds it again."""
    return {**node.labels, LABEL_ID: node.id, LABEL_INSTALL: install}


def is_ours(node: Node, sight: CloudNode) -> bool:
    """Whether what bears the node's name is the node: the incarnation we know, or our label.

    Another incarnation with our label is ours as well where we sent the create twice.
    """
    if node.cloud_uid == sight.uid and node.cloud_uid:
        return True
    sent_twice = is_sent_twice(node.sent_at, node.unanswered_at)
    return (sent_twice or not node.cloud_uid) and sight.labels.get(LABEL_ID) == node.id


def is_sent_twice(sent_at: int | None, unanswered_at: int | None) -> bool:
    """Whether the create of an attempt was sent again and may take effect once more, and so make
    more than one incarnation of it."""
    return unanswered_at is not None and unanswered_at != sent_at


def is_our_ticket(node: Node, queue: QueuedResource) -> bool:
    """Whether a queued resource that bears the node's name stands for it. The cloud gives it no
    uid; its name is never used again, and what it is to make bears our label."""
    return queue.labels.get(LABEL_ID) == node.id
