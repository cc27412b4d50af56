"""Nodes of several equal slices: each slice is polled and metered by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.domain.nodes.node import Node, NodeState, Place, Slice

WHOLE = -1
"""The number of a usage that belongs to the node as a whole, and to no slice."""


_GOES_BEFORE = (
    NodeState.PREEMPTED,
    NodeState.TERMINATED,
    NodeState.DELETING,
    NodeState.UNKNOWN,
    NodeState.REPAIRING,
    NodeState.RESTARTING,
    NodeState.STOPPING,
    NodeState.STOPPED,
    NodeState.STARTING,
    NodeState.CREATING,
    NodeState.REQUESTED,
)
"""States by priority. The node is in the first of these states in which any slice is."""


def slice_numbers(node: Node) -> range | tuple[int]:
    """The numbers of a node's slices; WHOLE alone for a node of one slice."""
    return range(node.spec.slices) if node.spec.slices > 1 else (WHOLE,)


def place_of(node: Node, number: int) -> Place:
    """The location of a slice: Google appends its number to the name of the queued resource."""
    if number == WHOLE:
        return node.place
    return Place(node.spec.project, node.zone, f"{node.cloud_id}-{number}")


def slice_as_node(node: Node, number: int) -> Node:
    """One slice as a node of its own; for WHOLE, the node itself.

    So all decisions about a node can be taken for a slice.
    """
    if number == WHOLE:
        return node
    spec, seen = node.spec, node.slices_seen[number] if node.slices_seen else Slice()
    return replace(
        node,
        spec=replace(spec, chips=spec.chips // spec.slices, hosts=spec.hosts // spec.slices),
        cloud_id=place_of(node, number).cloud_id,
        cloud_uid=seen.cloud_uid,
        state=seen.state,
        seen_at=seen.seen_at,
        health=seen.health,
        endpoints=seen.endpoints,
        up_since=seen.up_since,
        slices_seen=(),
    )


def merge_slices(node: Node, parts: Sequence[Node], now: int) -> Node:
    """The node after its slices were polled: READY once all of them are.

    `now` is the instant at which its state changed, if it did.
    """
    if node.spec.slices == 1:
        return parts[0]
    slices = tuple(
        Slice(at.cloud_uid, at.state, at.seen_at, at.health, at.endpoints, at.up_since)
        for at in parts
    )
    states = [piece.state for piece in slices]
    state: str = NodeState.READY
    if not all(each == NodeState.READY for each in states):
        known = next((each for each in _GOES_BEFORE if each in states), None)
        state = known or next(each for each in states if each != NodeState.READY)
    ups = [piece.up_since for piece in slices]
    complete = None if None in ups else max(up for up in ups if up is not None)
    up_since = node.up_since if complete is None else complete
    return replace(
        node.with_state(state, now),
        # A list that showed all slices as stored may have moved it beyond the looks at them.
        seen_at=max(node.seen_at, min(piece.seen_at for piece in slices)),
        unanswered_at=parts[0].unanswered_at,
        health=next((piece.health for piece in slices if piece.health != "HEALTHY"), "HEALTHY"),
        endpoints=tuple(point for piece in slices for point in piece.endpoints),
        up_since=up_since,
        ready_at=up_since if node.ready_at is None else node.ready_at,
        slices_seen=slices,
    )
