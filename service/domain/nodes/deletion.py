"""The deletion of a node's cloud resources: since when it is wanted, overdue and failing. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.nodes.node import Node

CALLER = "caller"
"""The actor of a request over HTTP: one token is shared by all callers."""


def requested_by(actor: str, reason: str = "") -> str:
    """The reason of a deletion that a person requested: who that is, and the given reason."""
    who = f"requested by {'a caller' if actor in {'', CALLER} else actor}"
    return f"{who}: {reason}" if reason else who


def wanted_since(node: Node) -> int | None:
    """Since when the deletion of a node's cloud resources is wanted; None while they may stay.

    The deletion is final, or makes room for a new attempt.
    """
    if node.delete_requested_at is not None:
        return node.delete_requested_at
    return node.replacing_since if node.replacing else None


def overdue_since(node: Node) -> int | None:
    """When a human was told that the deletion does not end; None if it is not overdue.

    A human is also told of an unknown state, but then no deletion is wanted.
    """
    late = wanted_since(node) is not None and node.ended_at is None
    return node.alarmed_at if late else None


@dataclass(frozen=True, slots=True)
class DeletionFailure:
    """A deletion that was requested at `since` and does not end. `call` is the method of the Cloud
    TPU API that is tried, `tries` is how many tries in a row have failed, and `error` is the last
    error. The next try is at `next_try_at`. Instants are UTC seconds."""

    since: int
    call: str
    tries: int
    error: str
    next_try_at: int | None


def find_deletion_failure(node: Node) -> DeletionFailure | None:
    """The failing deletion of a node: at least one try failed, or it is overdue; else None.

    The deletion of a queued resource counts as a try when the cloud accepts it, so that only its
    repetition shows that it failed. Other accepted deletions reset the tries.
    """
    since = wanted_since(node)
    if since is None or node.ended_at is not None:
        return None
    accepted = 1 if node.queue_state else 0
    if node.alarmed_at is None and node.tries <= accepted:
        return None
    return DeletionFailure(
        since,
        "queuedResources.delete" if node.queue_state else "nodes.delete",
        node.tries,
        node.last_error,
        node.next_try_at,
    )


def with_replacing(node: Node, now: int) -> Node:
    """The node with a deletion of its cloud resources that makes room for a new attempt.

    An earlier alarm was about something else, so it is cleared.
    """
    return replace(node, replacing=True, replacing_since=now, alarmed_at=None)


def with_room(node: Node) -> Node:
    """The node after a deletion that left nothing in the cloud, so that a new attempt can
    follow."""
    return replace(node, replacing=False, replacing_since=None, alarmed_at=None)
