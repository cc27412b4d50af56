"""The record of a node: the checks of a request, and the fields that the cloud fills in."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Any

from service.emulator import catalog
from service.emulator.catalog import Accelerator
from service.emulator.clock import to_timestamp
from service.emulator.errors import (
    ApiError,
    Code,
    accelerator_not_in_zone,
    invalid_argument,
)
from service.emulator.names import Place, check_labels
from service.emulator.nodes.activity import Activity
from service.emulator.nodes.query_allowance import Allowance
from service.emulator.timeline import Event
from service.emulator.wire import Node, NodeMessage, copy_message

# Fields that only the cloud may set; the values of a request are dropped.
OUTPUT_ONLY = (
    "name",
    "state",
    "health",
    "health_description",
    "create_time",
    "network_endpoints",
    "id",
    "api_version",
    "symptoms",
    "queued_resource",
    "multislice_node",
)
PORT = 8470
MAX_METADATA_VALUE = 256 * 1024
MAX_METADATA = 512 * 1024
"""In bytes, of all keys and values. Google documents both limits for Compute Engine."""
MAX_NODE = 1024 * 1024
"""In bytes. Our own limit: a queued resource makes a thousand nodes of one request."""
MAX_DESCRIPTION = 512
"""In characters, as Google documents."""
MAX_NETWORKS = 8
"""The number of interfaces that a machine of Compute Engine can have."""
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


Watch = Callable[["NodeRecord", float, str], None]
"""Called with a node, the time and the node's new state; an empty state is its end."""


@dataclass(slots=True)
class NodeRecord:
    """One node of the world: the message that the API shows, and the state of the emulation."""

    message: NodeMessage
    place: Place
    accelerator: Accelerator
    created: float
    pending: Event | None = None
    operation: NodeMessage = None
    """The latest operation, done or not; None before the first."""
    activity: Activity = field(default_factory=Activity)
    guest_attributes: dict[int, dict[tuple[str, str], str]] = field(default_factory=dict)
    """By worker: (namespace, key) -> value."""
    guest_queries: dict[int, Allowance] = field(default_factory=dict)
    """By worker: the remaining queries of its guest attributes."""
    notices: dict[int, float] = field(default_factory=dict)
    """By worker: the time of its preemption notice, which comes before the node is PREEMPTED."""
    maintenance: tuple[float, float] | None = None
    """The window of the upcoming or current maintenance, in unix seconds."""
    queued_resource: str = ""
    """The full name of its queued resource; empty for a node without one."""
    model: str = ""
    """The provisioning model, if the message has no field for it (`flex_start`)."""
    holds_hardware: bool = False
    is_played: bool = False
    """Whether its workers are played, not real processes; decided when it is first READY."""
    watch: Watch | None = None
    """The observer of its queued resource."""

    @property
    def name(self) -> str:
        return str(self.message.name)

    @property
    def state(self) -> str:
        return state_name(self.message.state)

    @property
    def provisioning_model(self) -> str:
        return self.model or provisioning_model(self.message)

    @property
    def is_busy(self) -> bool:
        return self.operation is not None and not self.operation.done


def instance_id(record: NodeRecord, worker: int) -> int:
    """Return a worker's id as a Compute Engine instance: 19 digits, always the same."""
    return _instance_id(record.message.id, worker)


@lru_cache(maxsize=10_000)
def _instance_id(node: int, worker: int) -> int:
    digest = hashlib.sha256(f"{node}/{worker}".encode()).digest()
    return 10**18 + int.from_bytes(digest[:8]) % (8 * 10**18)


def state_name(number: int) -> str:
    return str(Node.State.Name(number))


def provisioning_model(node: NodeMessage) -> str:
    asked = node.scheduling_config
    for model in ("spot", "preemptible", "reserved"):
        if getattr(asked, model, False):
            return model
    return "on_demand"


def accelerator_of(node: NodeMessage, zone: str) -> Accelerator:
    """Return the requested type, by its name or by its configuration; raises ApiError."""
    configured = node.HasField("accelerator_config")
    if bool(node.accelerator_type) == configured:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            "Exactly one of accelerator_type and accelerator_config must be specified.",
        )
    config = node.accelerator_config
    found = catalog.find_accelerator(
        catalog.list_offered(zone), node.accelerator_type, config.type_, config.topology
    )
    if found is None:
        asked = node.accelerator_type.rpartition("/")[2]
        if not asked:
            # An enum number that this client library does not know has no name.
            values = config.DESCRIPTOR.fields_by_name["type_"].enum_type.values_by_number
            known = values.get(config.type_)
            asked = f"{known.name if known else config.type_}:{config.topology}"
        raise accelerator_not_in_zone(asked, zone)
    return found


def check_node(node: NodeMessage, accelerator: Accelerator, *, strict_runtimes: bool) -> None:
    """Raise ApiError for a request that the cloud refuses immediately."""
    check_runtime(node.runtime_version, accelerator, strict=strict_runtimes)
    check_settings(node, accelerator)


def check_settings(node: NodeMessage, accelerator: Accelerator) -> None:
    """Raise ApiError for invalid settings, apart from the software of the node."""
    check_labels(node.labels)
    check_metadata(node)
    asked = node.scheduling_config
    # Spot and preemptible together are valid: Terraform's own tests request both, successfully.
    if asked.reserved and (asked.spot or asked.preemptible):
        raise invalid_argument(
            'The field "SchedulingConfig" cannot have more than one of preemptible, reserved, spot.'
        )
    if node.HasField("network_config") and node.network_configs:
        raise invalid_argument(
            'The fields "NetworkConfig" and "NetworkConfigs" exclude each other.'
        )
    if len(node.network_configs) > MAX_NETWORKS:
        raise invalid_argument(
            f'The field "NetworkConfigs" cannot have more than {MAX_NETWORKS} networks.'
        )
    if node.ByteSize() > MAX_NODE:
        raise invalid_argument(f"The node has more than {MAX_NODE} bytes.")
    check_description(node)
    check_disks(node)
    if node.cidr_block:
        size = block_size(node, accelerator)
        try:
            fits = IPv4Network(node.cidr_block).num_addresses >= size
        except ValueError:
            fits = False
        if not fits:
            raise invalid_argument(f'The field "CidrBlock" cannot be "{node.cidr_block}".')


def check_runtime(version: str, accelerator: Accelerator, *, strict: bool) -> None:
    """Raise ApiError for an unknown runtime; with `strict`, also for another generation's.

    Cloud TPU accepts the runtime of another generation.
    """
    fits = catalog.runtime_versions().get(version)
    if fits is None or (strict and accelerator.generation not in fits):
        raise invalid_argument(f'The field "RuntimeVersion" cannot be "{version}".')


def check_metadata(node: NodeMessage) -> None:
    sizes = (len(key.encode()) + len(value.encode()) for key, value in node.metadata.items())
    if sum(sizes) > MAX_METADATA:
        raise invalid_argument(f"The metadata has more than {MAX_METADATA} bytes.")
    for key, value in node.metadata.items():
        if not key or len(key) > 128:
            raise invalid_argument(f'The metadata key "{key[:140]}" must have 1 to 128 characters.')
        if len(value.encode()) > MAX_METADATA_VALUE:
            raise invalid_argument(
                f'The metadata value for "{key}" is longer than {MAX_METADATA_VALUE} bytes.'
            )


def check_description(node: NodeMessage) -> None:
    if len(node.description) > MAX_DESCRIPTION:
        raise invalid_argument(
            f'The field "Description" cannot be longer than {MAX_DESCRIPTION} characters.'
        )


def check_disks(node: NodeMessage) -> None:
    if any(not disk.source_disk for disk in node.data_disks):
        raise invalid_argument('The field "DataDisks.SourceDisk" cannot be "".')


def make_node(asked: NodeMessage, name: str, uid: int, accelerator: Accelerator, at: float) -> Any:
    """Make the requested node, as the cloud first shows it."""
    project = name.split("/")[1]
    node = copy_message(asked)
    for output in OUTPUT_ONLY:
        node.ClearField(output)
    node.name = name
    node.id = uid
    node.state = Node.State.CREATING
    node.api_version = Node.ApiVersion.V2
    node.create_time.CopyFrom(to_timestamp(at))
    node.accelerator_type = accelerator.name
    node.accelerator_config.type_ = accelerator.config_type
    node.accelerator_config.topology = accelerator.topology
    node.scheduling_config.SetInParent()
    node.shielded_instance_config.SetInParent()
    for network in _list_networks(node):
        network.network = network.network or f"projects/{project}/global/networks/default"
    if not node.service_account.email:
        number = zlib.crc32(project.encode())
        node.service_account.email = f"{number}-compute@developer.gserviceaccount.com"
    if not node.service_account.scope:
        node.service_account.scope.append(CLOUD_PLATFORM)
    return node


def block_size(node: NodeMessage, accelerator: Accelerator) -> int:
    """Return the number of addresses to reserve: a power of two, at least a /29."""
    endpoints = accelerator.hosts * len(_list_networks(node))
    return max(8, 1 << math.ceil(math.log2(endpoints + 4)))


def add_endpoints(node: NodeMessage, accelerator: Accelerator) -> None:
    """Add an endpoint for each worker and network, worker by worker."""
    block = ip_network(node.cidr_block)
    first = int(block.network_address) + 2
    del node.network_endpoints[:]
    for index in range(accelerator.hosts * len(_list_networks(node))):
        endpoint = node.network_endpoints.add(ip_address=str(IPv4Address(first + index)), port=PORT)
        endpoint.access_config.SetInParent()
    set_external_ips(node)


def set_external_ips(node: NodeMessage) -> None:
    """Set the external address of each endpoint whose network enables it; clear the others."""
    networks = _list_networks(node)
    for index, endpoint in enumerate(node.network_endpoints):
        if networks[index % len(networks)].enable_external_ips:
            # 10.a.b.c becomes 34.a.b.c: unique, and never routed from here.
            endpoint.access_config.external_ip = f"34.{endpoint.ip_address.partition('.')[2]}"
        else:
            endpoint.access_config.external_ip = ""


def _list_networks(node: NodeMessage) -> list[NodeMessage]:
    return list(node.network_configs) or [node.network_config]
