"""The deletion of what a node has in the cloud: since when it is wanted, and overdue. Pure."""

from __future__ import annotations

from dataclasses import replace

from service.domain.nodes.node import Node


def wanted_since(node: Node) -> int | None:
    """Since when what it has in the cloud is to go, for good or so that another can be made; None
    while it may stay."""
    if node.delete_requested_at is not None:
        return node.delete_requested_at
    return node.replacing_since if node.replacing else None


def overdue_since(node: Node) -> int | None:
    """Since when a human has known that its deletion does not end; None where that is not so. One
    whose state the cloud has lost is told of too, but nothing of it is to go."""
    late = wanted_since(node) is not None and node.ended_at is None
    return node.alarmed_at if late else None


def making_room(node: Node, now: int) -> Node:
    """The same node from when what it has in the cloud is to go so that another can be made. What a
    human was told of it before was something else."""
    return replace(node, replacing=True, replacing_since=now, alarmed_at=None)


def with_room(node: Node) -> Node:
    """The same node once nothing is left of an attempt that another is to follow."""
    return replace(node, replacing=False, replacing_since=None, alarmed_at=None)
