"""Makes a record for a node that is already there. Pure.

It is charged from the instant of its adoption: what it cost before that was nobody's that we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType, stoppable
from service.domain.catalog.images import images
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import Conflict, Rejected
from service.domain.ids import LABEL_KEY_RULE, RESERVED_LABEL_PREFIX, check_name, new_id
from service.domain.metering.meter import Evidence, Usage
from service.domain.metering.usage import opened
from service.domain.nodes.node import Node, NodeSpec, NodeState
from service.domain.orphans.orphan import Orphan, ShownResource, orphan_id

_LONGEST_NAME = 49


@dataclass(frozen=True, slots=True)
class Adopter:
    """Whose the node is to be, and how it is to be called; an empty name is the cloud's."""

    name: str = ""
    owner: str = ""
    team: str = ""


def adopted(orphan: Orphan, adopter: Adopter, now: int) -> tuple[Node, Usage]:
    """The record of a node that is there, and its usage, which begins now.

    Raises Rejected (UnknownAcceleratorType among them) for what can never be managed, Conflict for
    what cannot be now.
    """
    shown = orphan.shown
    _check(orphan)
    accelerator = catalog.load().accelerator(shown.accelerator_type)
    name = adopter.name or shown.place.cloud_id[:_LONGEST_NAME].rstrip("-")
    check_name(name)
    node = Node(
        id=new_id(),
        name=name,
        owner=adopter.owner,
        team=adopter.team,
        labels=_labels(shown.labels),
        spec=_spec(shown, accelerator),
        created_at=now,
        state=shown.state,
        state_since=now,
        seen_at=now,
        attempt=1,
        zone=shown.place.zone,
        cloud_id=shown.place.cloud_id,
        cloud_uid=shown.uid,
        sent_at=now,
        ready_at=now,
        up_since=now,
        next_try_at=now,
    )
    # The beginning is what was agreed on, not what was measured. It is dirty so that the ledger
    # takes it up at its next turn.
    return node, replace(opened(node, now, now, Evidence.OBSERVED), dirty=True)


def _check(orphan: Orphan) -> None:
    shown = orphan.shown
    if shown.queued:
        raise _queue_refused(shown)
    if shown.ticket:
        raise Rejected(
            f"{shown.path} belongs to queued resource {shown.ticket}: a node of a queued"
            " resource cannot be adopted alone. Leave both to their owner, or delete both: the"
            " node, and its queued resource, which is orphan"
            f" {orphan_id(shown.ticket)}",
            queued_resource=shown.ticket,
            orphan_id=orphan_id(shown.ticket),
        )
    if not shown.uid:
        raise Rejected("the cloud shows no id of this node, so it cannot be identified")
    if orphan.gone_at is not None:
        raise Conflict(f"{shown.path} is gone")
    if orphan.to_be_deleted:
        raise Conflict(f"{shown.path} is being deleted; a deletion cannot be undone")
    if shown.state != NodeState.READY:
        raise Conflict(
            f"{shown.path} is {shown.state}: only a READY node can be adopted; wait until it is"
            " READY, or delete it",
            state=shown.state,
        )


def _queue_refused(shown: ShownResource) -> Rejected:
    """A record of its nodes could not end it either: see the refusal of such a node."""
    said = "a queued resource cannot be adopted"
    places = [replace(shown.place, cloud_id=name) for name in shown.nodes]
    nodes = {place.cloud_id: orphan_id(place.path) for place in places}
    if not nodes:
        return Rejected(f"{said}; leave it to its owner, or delete it", nodes=[])
    each = ", ".join(f"{name} as orphan {an_id}" for name, an_id in nodes.items())
    return Rejected(
        f"{said}, and neither can its nodes. Leave them to their owner, or delete the nodes"
        f" first ({each}) and then the queued resource",
        nodes=list(nodes),
        orphan_ids=list(nodes.values()),
    )


def _spec(shown: ShownResource, accelerator: AcceleratorType) -> NodeSpec:
    model = ProvisioningModel(shown.provisioning_model)
    image = next((one for one in images() if one.name == shown.runtime_version), None)
    return NodeSpec(
        project=shown.place.project,
        accelerator_type=accelerator.name,
        generation=accelerator.generation,
        chips=accelerator.chips,
        hosts=accelerator.hosts,
        zones=(shown.place.zone,),
        runtime_version=shown.runtime_version,
        provisioning_model=model,
        topology=accelerator.topology,
        stoppable=stoppable(accelerator, model),
        architecture=Architecture.VM if image is None else image.architecture,
    )


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that it came with; ours would speak of another record."""
    return {
        key: value
        for key, value in labels.items()
        if LABEL_KEY_RULE.fullmatch(key) and not key.startswith(RESERVED_LABEL_PREFIX)
    }
