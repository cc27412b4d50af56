"""Makes a record for a node that is asked for, and begins its story. Pure."""

from __future__ import annotations

from service.domain.event import Event
from service.domain.ids import cloud_id_for, new_id
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.request import RequestedNode, ResolvedRequest


def requested(wanted: RequestedNode, spec: NodeSpec, now: int) -> Node:
    """The record of a node that is wished for: nothing was sent yet."""
    node_id = new_id()
    name = wanted.name or f"{spec.generation}-{node_id[-8:]}"
    return Node(
        id=node_id,
        name=name,
        owner=wanted.owner,
        team=wanted.team,
        labels=dict(wanted.labels),
        spec=spec,
        created_at=now,
        state_since=now,
        seen_at=now,
        zone=spec.zones[0],
        cloud_id=cloud_id_for(name, node_id, 1),
        next_try_at=now,
    )


def first_events(node: Node, meant: ResolvedRequest, actor: str) -> tuple[Event, ...]:
    """How its story begins: what was asked for, and why it gets that runtime version, or each of
    those of its types."""
    spec, now = meant.spec, node.created_at
    images = dict.fromkeys(one.runtime_version for one in spec.possible)
    what = f"{' or '.join(spec.accelerator_types)}, {spec.provisioning_model}"
    message = f"requested: {what}, {' or '.join(images)}, in {' or '.join(spec.zones[:3])}"
    facts = {"zones": list(spec.zones), "warnings": list(meant.warnings)}
    asked = Event(node.id, now, "asked", message, actor or "caller", facts)
    return asked, *(Event(node.id, now, "runtime", why) for why in meant.reasons)
