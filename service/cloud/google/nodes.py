"""Nodes: decodes Google's messages, and builds create requests."""

from __future__ import annotations

from typing import Any

from google.cloud import tpu_v2

from service.cloud.google.channel import SCOPE
from service.cloud.ports import Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import InvalidRequest
from service.domain.jobs.startup import metadata_of
from service.domain.nodes.node import CloudNode, Endpoint, Place

RawNode = Any
"""The protobuf class behind `tpu_v2.Node`; created at run time, without a static type."""

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
"""The fields that `from_message` reads, without the metadata, which may have 512 kB."""

_MAX_NAME = 200
_MAX_SENTENCE = 500


def from_message(node: RawNode) -> CloudNode:
    """Decode a node. Never raises, whatever the message has.

    Unknown enum values are kept: state number 99 becomes `STATE_99`.
    """
    try:
        place = Place.from_path(node.name)
    except ValueError:  # a malformed name is shown in place of an id
        place = Place("", "", node.name[:_MAX_NAME])
    # One endpoint for each worker, in order; with several network cards, that of the first card.
    cards = max(1, len(node.network_configs))
    endpoints = tuple(
        Endpoint(found.ip_address, found.port, found.access_config.external_ip)
        for found in node.network_endpoints[::cards]
    )
    return CloudNode(
        place=place,
        uid=str(node.id) if node.id else "",
        state=_STATES.get(node.state, f"STATE_{node.state}"),
        health=_HEALTHS.get(node.health, f"HEALTH_{node.health}") if node.health else "",
        health_description=node.health_description[:_MAX_SENTENCE],
        accelerator_type=last_part(node.accelerator_type),
        runtime_version=last_part(node.runtime_version),
        provisioning_model=read_model(node.scheduling_config),
        labels=read_labels(node),
        endpoints=endpoints,
        created_at=node.create_time.seconds if node.HasField("create_time") else None,
        queued_resource=node.queued_resource[:_MAX_NAME],
    )


def read_labels(node: RawNode) -> dict[str, str]:
    """The labels of a node, each cut to `_MAX_NAME` characters."""
    return {key[:_MAX_NAME]: value[:_MAX_NAME] for key, value in node.labels.items()}


def last_part(path: str) -> str:
    """The last part of a path: Google shows some types as full resource names."""
    return path.rpartition("/")[2][:_MAX_NAME]


def read_model(scheduling: Any) -> ProvisioningModel:
    """The provisioning model. Flex-start looks like on demand, because v2 cannot express it."""
    if scheduling.spot:
        return ProvisioningModel.SPOT
    if scheduling.preemptible:
        return ProvisioningModel.PREEMPTIBLE
    return ProvisioningModel.RESERVED if scheduling.reserved else ProvisioningModel.ON_DEMAND


def create_request(order: Order) -> tpu_v2.CreateNodeRequest:
    """Build the request for an order. Raises InvalidRequest for a provisioning model that this API
    cannot express."""
    place, node = order.place, build_node(order)
    model = order.spec.provisioning_model
    match model:
        case ProvisioningModel.ON_DEMAND:
            pass
        case ProvisioningModel.SPOT:
            node.scheduling_config = tpu_v2.SchedulingConfig(spot=True)
        case ProvisioningModel.PREEMPTIBLE:
            node.scheduling_config = tpu_v2.SchedulingConfig(preemptible=True)
        case ProvisioningModel.RESERVED:
            node.scheduling_config = tpu_v2.SchedulingConfig(reserved=True)
        case ProvisioningModel.FLEX_START:
            raise InvalidRequest(
                "flex-start nodes need a queued resource",
                provisioning_model=model.value,
            )
    parent = f"projects/{place.project}/locations/{place.zone}"
    return tpu_v2.CreateNodeRequest(parent=parent, node_id=place.cloud_id, node=node)


def build_node(order: Order) -> tpu_v2.Node:
    """Build the node of an order without its provisioning model: a queued resource has fields of
    its own for the model, and fails late if its node names one too."""
    spec, place = order.spec, order.place
    account = spec.service_account
    modes = tpu_v2.AttachedDisk.DiskMode
    # Only a single host may write to a disk: several hosts share it for reading.
    mode = modes.READ_WRITE if spec.hosts == 1 else modes.READ_ONLY
    disk_paths = [  # a bare name is a disk in the zone of this attempt
        disk if "/" in disk else f"projects/{place.project}/zones/{place.zone}/disks/{disk}"
        for disk in spec.data_disks
    ]
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
        # The widest scope: IAM limits the account, scopes do not.
        service_account=tpu_v2.ServiceAccount(email=account, scope=[SCOPE]) if account else None,
        data_disks=[tpu_v2.AttachedDisk(source_disk=path, mode=mode) for path in disk_paths],
    )
