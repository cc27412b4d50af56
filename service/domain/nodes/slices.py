"""A node that is made of several equal slices: each is seen and metered by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from service.domain.nodes.node import Node, NodeState, Place, Slice

WHOLE = -1
"""In place of the number of a slice: the usage is of the node as a whole."""


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
"""A group is in the first of these in which any slice is: it is as good as its worst part."""


def numbers(node: Node) -> range | tuple[int]:
    """The numbers of its slices, or WHOLE alone where it is not made of several."""
    return range(node.spec.slices) if node.spec.slices > 1 else (WHOLE,)


def place_of(node: Node, number: int) -> Place:
    """Where one slice is: Google puts its number behind the name of the queued resource."""
    if number == WHOLE:
        return node.place
    return Place(node.spec.project, node.zone, f"{node.cloud_id}-{number}")


def part(node: Node, number: int) -> Node:
    """One slice as if it were a node of its own; the node itself where it is not made of several.

    All that is decided of a node from what was seen of it can so be decided of a slice.
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


def folded(node: Node, parts: Sequence[Node], now: int) -> Node:
    """The node after its slices were looked at: READY once all of them are.

    `now` is the instant at which its state changed, if it did.
    """
    if node.spec.slices == 1:
        return parts[0]
    slices = tuple(_seen(one) for one in parts)
    state = _worst([one.state for one in slices])
    ups = [one.up_since for one in slices]
    complete = None if None in ups else max(up for up in ups if up is not None)
    up_since = node.up_since if complete is None else complete
    return replace(
        node.moved(state, now),
        seen_at=min(one.seen_at for one in slices),
        unanswered_at=parts[0].unanswered_at,
        health=next((one.health for one in slices if one.health != "HEALTHY"), "HEALTHY"),
        endpoints=tuple(point for one in slices for point in one.endpoints),
        up_since=up_since,
        ready_at=up_since if node.ready_at is None else node.ready_at,
        slices_seen=slices,
    )


def _seen(one: Node) -> Slice:
    return Slice(one.cloud_uid, one.state, one.seen_at, one.health, one.endpoints, one.up_since)


def _worst(states: Sequence[str]) -> str:
    if all(state == NodeState.READY for state in states):
        return NodeState.READY
    known = next((state for state in _GOES_BEFORE if state in states), None)
    return known or next(state for state in states if state != NodeState.READY)
