"""Makes the record of a requested node, and its first events. Pure."""

from __future__ import annotations

from service.domain.event import Event
from service.domain.ids import cloud_id_for, new_id
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.request import RequestedNode, ResolvedRequest


def make_node(wanted: RequestedNode, spec: NodeSpec, now: int) -> Node:
    """The record at the creation of a requested node, of which nothing was sent to the cloud
    yet."""
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
    """The events of a node's creation: the request, and the reason for each possible runtime
    version."""
    spec, now = meant.spec, node.created_at
    images = dict.fromkeys(hardware.runtime_version for hardware in spec.possible_hardware)
    what = f"{' or '.join(spec.accelerator_types)}, {spec.provisioning_model}"
    message = f"requested: {what}, {' or '.join(images)}, in {' or '.join(spec.zones[:3])}"
    facts = {"zones": list(spec.zones), "warnings": list(meant.warnings)}
    asked = Event(node.id, now, "asked", message, actor or "caller", facts)
    return asked, *(Event(node.id, now, "runtime", why) for why in meant.reasons)
