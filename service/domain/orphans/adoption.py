"""Makes the record of a node that already exists in the cloud. Pure.

The node is charged from the instant of its adoption: the owner of its earlier cost is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.images import list_images
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import Conflict, Rejected
from service.domain.ids import LABEL_KEY_RULE, RESERVED_LABEL_PREFIX, check_name, new_id
from service.domain.metering.meter import Evidence, Usage
from service.domain.metering.usage import start_usage
from service.domain.nodes.node import Node, NodeSpec, NodeState
from service.domain.nodes.stop_rules import is_stoppable
from service.domain.orphans.orphan import Orphan, ShownResource, orphan_id

_LONGEST_NAME = 49


@dataclass(frozen=True, slots=True)
class Adopter:
    """The owner, team and name of the adopted node; an empty name means the cloud's name."""

    name: str = ""
    owner: str = ""
    team: str = ""


def adopt_orphan(orphan: Orphan, adopter: Adopter, now: int) -> tuple[Node, Usage]:
    """The record of an existing node by its adoption, and its usage, which begins now.

    Raises Rejected (such as UnknownAcceleratorType) for a resource that can never be managed,
    Conflict for one whose present state does not allow it.
    """
    shown = orphan.shown
    _check_adoptable(orphan)
    accelerator = catalog.load_catalog().get_accelerator(shown.accelerator_type)
    name = adopter.name or shown.place.cloud_id[:_LONGEST_NAME].rstrip("-")
    check_name(name)
    node = Node(
        id=new_id(),
        name=name,
        owner=adopter.owner,
        team=adopter.team,
        labels={  # without our own, which would refer to another record
            key: value
            for key, value in shown.labels.items()
            if LABEL_KEY_RULE.fullmatch(key) and not key.startswith(RESERVED_LABEL_PREFIX)
        },
        spec=_make_spec(shown, accelerator),
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
    # The start is defined by the adoption, not measured. The usage is dirty so that the next tick
    # posts it to the ledger.
    return node, replace(start_usage(node, now, now, Evidence.OBSERVED), dirty=True)


def _check_adoptable(orphan: Orphan) -> None:
    shown = orphan.shown
    if shown.queued:
        raise _make_queue_refusal(shown)
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


def _make_queue_refusal(shown: ShownResource) -> Rejected:
    """The refusal of a queued resource. Its nodes cannot be adopted either: the record of a node
    could not end the queued resource."""
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


def _make_spec(shown: ShownResource, accelerator: AcceleratorType) -> NodeSpec:
    model = ProvisioningModel(shown.provisioning_model)
    image = next((image for image in list_images() if image.name == shown.runtime_version), None)
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
        stoppable=is_stoppable(accelerator, model),
        architecture=Architecture.VM if image is None else image.architecture,
    )
