"""A node: Google's message in our words, and our order in Google's."""

from __future__ import annotations

from typing import Any

from google.cloud import tpu_v2

from service.cloud.google.channel import SCOPE
from service.cloud.ports import Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import InvalidRequest
from service.domain.jobs.startup import metadata_of
from service.domain.nodes.node import CloudNode, Endpoint, NodeSpec, Place

RawNode = Any
"""The protobuf class behind `tpu_v2.Node`; it is made at run time and has no static type."""

_ENUMS = tpu_v2.Node.pb().DESCRIPTOR.enum_types_by_name
_STATES = {number: state.name for number, state in _ENUMS["State"].values_by_number.items()}
_HEALTHS = {number: health.name for number, health in _ENUMS["Health"].values_by_number.items()}

READ = (
    "name",
    "id",
    "state",
    "health",
    "healthDescription",
    "acceleratorType",
    "runtimeVersion",
    "schedulingConfig",
    "labels",
    "networkConfigs",
    "networkEndpoints",
    "createTime",
    "queuedResource",
)
"""The fields that `decoded` reads. The metadata, which may hold 512 kB, is not one of them."""

_MAX_NAME = 200
_MAX_SENTENCE = 500


def decoded(node: RawNode) -> CloudNode:
    """What the cloud shows of a node, in our words. Never an exception, whatever it shows.

    What nobody has heard of is kept as it is: state number 99 becomes `STATE_99`.
    """
    return CloudNode(
        place=_place(node.name),
        uid=str(node.id) if node.id else "",
        state=_STATES.get(node.state, f"STATE_{node.state}"),
        health=_HEALTHS.get(node.health, f"HEALTH_{node.health}") if node.health else "",
        health_description=node.health_description[:_MAX_SENTENCE],
        accelerator_type=last(node.accelerator_type),
        runtime_version=last(node.runtime_version),
        provisioning_model=model(node.scheduling_config),
        labels=labels(node),
        endpoints=_endpoints(node),
        created_at=node.create_time.seconds if node.HasField("create_time") else None,
        queued_resource=node.queued_resource[:_MAX_NAME],
    )


def _place(name: str) -> Place:
    """The place that a node's name speaks of; a name that is none is shown in place of an id."""
    try:
        return Place.of(name)
    except ValueError:
        return Place("", "", name[:_MAX_NAME])


def labels(node: RawNode) -> dict[str, str]:
    """The labels of a node, none of them longer than a label can be."""
    return {key[:_MAX_NAME]: value[:_MAX_NAME] for key, value in node.labels.items()}


def last(path: str) -> str:
    """The name at the end of a path: Google shows some types as full resource names."""
    return path.rpartition("/")[2][:_MAX_NAME]


def model(scheduling: Any) -> ProvisioningModel:
    """How the hardware is bought. Flex-start looks as on demand: v2 has no word for it."""
    if scheduling.spot:
        return ProvisioningModel.SPOT
    if scheduling.preemptible:
        return ProvisioningModel.PREEMPTIBLE
    return ProvisioningModel.RESERVED if scheduling.reserved else ProvisioningModel.ON_DEMAND


def _endpoints(node: RawNode) -> tuple[Endpoint, ...]:
    """One per worker, in their order; with several network cards each, the first one of each."""
    cards = max(1, len(node.network_configs))
    return tuple(
        Endpoint(found.ip_address, found.port, found.access_config.external_ip)
        for found in node.network_endpoints[::cards]
    )


def create_request(order: Order) -> tpu_v2.CreateNodeRequest:
    """The request for an order. Raises InvalidRequest for what this API has no words for."""
    place, node = order.place, message(order)
    scheduling = _scheduling(order.spec.provisioning_model)
    if scheduling is not None:
        node.scheduling_config = scheduling
    parent = f"projects/{place.project}/locations/{place.zone}"
    return tpu_v2.CreateNodeRequest(parent=parent, node_id=place.cloud_id, node=node)


def message(order: Order) -> tpu_v2.Node:
    """The node of an order, without how the hardware is bought: a queued resource says that in its
    own words, and fails late when its node says it too."""
    spec, place = order.spec, order.place
    return tpu_v2.Node(
        accelerator_type=spec.accelerator_type,
        runtime_version=spec.runtime_version,
        network_config=tpu_v2.NetworkConfig(
            network=spec.network,
            subnetwork=spec.subnetwork,
            enable_external_ips=spec.external_ip,
        ),
        labels=dict(order.labels),
        metadata=metadata_of(spec, order.task),
        service_account=_service_account(spec.service_account),
        data_disks=[_disk(disk, spec, place) for disk in spec.data_disks],
    )


def _scheduling(model: ProvisioningModel) -> tpu_v2.SchedulingConfig | None:
    match model:
        case ProvisioningModel.ON_DEMAND:
            return None
        case ProvisioningModel.SPOT:
            return tpu_v2.SchedulingConfig(spot=True)
        case ProvisioningModel.PREEMPTIBLE:
            return tpu_v2.SchedulingConfig(preemptible=True)
        case ProvisioningModel.RESERVED:
            return tpu_v2.SchedulingConfig(reserved=True)
        case ProvisioningModel.FLEX_START:
            raise InvalidRequest(
                "flex-start nodes need a queued resource",
                provisioning_model=model.value,
            )


def _service_account(email: str) -> tpu_v2.ServiceAccount | None:
    """The account with the widest scope: what it may do is for IAM to say, not for scopes."""
    return tpu_v2.ServiceAccount(email=email, scope=[SCOPE]) if email else None


def _disk(disk: str, spec: NodeSpec, place: Place) -> tpu_v2.AttachedDisk:
    """A data disk; a bare name means the disk of that name in the zone that is being tried.

    Only a single host may write to a disk: several share it for reading.
    """
    path = disk if "/" in disk else f"projects/{place.project}/zones/{place.zone}/disks/{disk}"
    modes = tpu_v2.AttachedDisk.DiskMode
    mode = modes.READ_WRITE if spec.hosts == 1 else modes.READ_ONLY
    return tpu_v2.AttachedDisk(source_disk=path, mode=mode)
