"""Ownership of cloud resources, by the labels with which they are found after a crash."""

from __future__ import annotations

from service.domain.nodes.node import CloudNode, Node
from service.domain.nodes.queued_resource import QueuedResource

LABEL_ID = "steward-id"
LABEL_INSTALL = "steward-install"


def labels_for(node: Node, install: str) -> dict[str, str]:
    """The labels of a node in the cloud: the caller's, and ours that show ownership after a
    crash."""
    return {**node.labels, LABEL_ID: node.id, LABEL_INSTALL: install}


def is_ours(node: Node, sight: CloudNode) -> bool:
    """Whether we have ownership of a cloud node with the node's name, by uid or by our label.

    Another incarnation with our label is ours as well if the create was sent twice.
    """
    if node.cloud_uid == sight.uid and node.cloud_uid:
        return True
    sent_twice = is_sent_twice(node.sent_at, node.unanswered_at)
    return (sent_twice or not node.cloud_uid) and sight.labels.get(LABEL_ID) == node.id


def is_sent_twice(sent_at: int | None, unanswered_at: int | None) -> bool:
    """Whether an attempt may own two incarnations, because its create was sent again."""
    return unanswered_at is not None and unanswered_at != sent_at


def is_our_ticket(node: Node, queue: QueuedResource) -> bool:
    """Whether a node has ownership of the queued resource with its name.

    The cloud gives it no uid, but its name is never reused, and its nodes have our label.
    """
    return queue.labels.get(LABEL_ID) == node.id
