"""The calls of `google.cloud.tpu.v1.Tpu`: legacy TPU Nodes, in one world with the TPU VMs.

A legacy node is stored as a v2 node whose `api_version` is V1. gcloud expects that every version
lists the nodes of both kinds, and that v1 acts on both; only a reimage requires a legacy node.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

from google.protobuf.message import Message

from service.emulator import catalog
from service.emulator.api import offers, v2
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.translate import copy_fields
from service.emulator.catalog import Accelerator
from service.emulator.config.config import Config
from service.emulator.errors import accelerator_not_in_zone, invalid_argument, precondition_failed
from service.emulator.names import Place, place_of
from service.emulator.nodes import nodes
from service.emulator.schema import kept_class, to_kept
from service.emulator.wire import Node, NodeMessage, Tpu, TpuV1, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.operations import Voice


def create_node(call: Call) -> NodeMessage:
    request, world = call.request, call.world
    place = place_of(request.parent)
    stored = kept_class("Node")()
    copy_fields(request.node, stored)
    stored.runtime_version = request.node.tensorflow_version
    stored.network_config.network = request.node.network
    number = zlib.crc32(place.project.encode())
    stored.service_account.email = f"service-{number}@cloud-tpu.iam.gserviceaccount.com"
    node = Node.FromString(stored.SerializeToString())
    asked = Tpu.CreateNodeRequest(parent=request.parent, node_id=request.node_id, node=node)
    with world.operations.using_voice(VOICE):
        operation = v2.create_checked(replace(call, request=asked), _check_legacy_node)
    record = world.nodes[place.child_name("nodes", request.node_id)]
    record.message.api_version = Node.ApiVersion.V1
    return operation


def get_node(call: Call) -> NodeMessage:
    return to_v1(v2.get_node(call))


def list_nodes(call: Call) -> NodeMessage:
    found = v2.list_nodes(call)
    return TpuV1.ListNodesResponse(
        nodes=[to_v1(node) for node in found.nodes],
        next_page_token=found.next_page_token,
        unreachable=found.unreachable,
    )


def delete_node(call: Call) -> NodeMessage:
    """Delete a node; its operation returns Empty, although the API's definition says Node.

    Google was seen to do so, and its typed clients fail on it:
    https://github.com/googleapis/google-cloud-go/issues/10951
    """
    with call.world.operations.using_voice(_make_voice(lambda response: response)):
        return v2.delete_node(call)


def stop_node(call: Call) -> NodeMessage:
    with call.world.operations.using_voice(VOICE):
        return v2.stop_node(call)


def start_node(call: Call) -> NodeMessage:
    with call.world.operations.using_voice(VOICE):
        return v2.start_node(call)


def reimage_node(call: Call) -> NodeMessage:
    record = v2.record_of(call)
    if record.message.api_version != Node.ApiVersion.V1:
        raise precondition_failed("reimage is not supported for TPU VMs; recreate the node instead")
    version = call.request.tensorflow_version
    _check_version(version)
    with call.world.operations.using_voice(VOICE):
        operation = lifecycle.reimage_node(call.world, record, call.now, call.effects, version)
    return copy_message(operation)


def list_tensorflow_versions(call: Call) -> NodeMessage:
    shown, token = offers.list_offers(
        call, TpuV1.TensorFlowVersion, "tensorflowVersions", _tensorflow_versions
    )
    return TpuV1.ListTensorFlowVersionsResponse(tensorflow_versions=shown, next_page_token=token)


def get_tensorflow_version(call: Call) -> NodeMessage:
    return offers.get_offer(call, "tensorflowVersions", _tensorflow_versions)


def list_accelerator_types(call: Call) -> NodeMessage:
    shown, token = offers.list_offers(
        call, TpuV1.AcceleratorType, "acceleratorTypes", _accelerator_types
    )
    return TpuV1.ListAcceleratorTypesResponse(accelerator_types=shown, next_page_token=token)


def get_accelerator_type(call: Call) -> NodeMessage:
    return offers.get_offer(call, "acceleratorTypes", _accelerator_types)


def to_v1(node: NodeMessage) -> NodeMessage:
    """Convert a stored node to v1, without the fields that only a TPU VM has."""
    shown = TpuV1.Node(
        tensorflow_version=node.runtime_version,
        network=node.network_config.network,
        service_account=node.service_account.email,
    )
    copy_fields(to_kept(node), shown)
    if node.network_endpoints:
        first = node.network_endpoints[0]
        shown.ip_address, shown.port = first.ip_address, str(first.port)
    return shown


def _make_voice(word: Callable[[Message], Message]) -> Voice:
    return Voice("v1", TpuV1.OperationMetadata, word)


VOICE = _make_voice(to_v1)


def _check_legacy_node(place: Place, node: NodeMessage, _: Config) -> Accelerator:
    if not node.accelerator_type:
        raise invalid_argument('The field "AcceleratorType" cannot be "".')
    found = catalog.find_accelerator(catalog.list_legacy(place.zone), node.accelerator_type, 0, "")
    if found is None:
        raise accelerator_not_in_zone(node.accelerator_type.rpartition("/")[2], place.zone)
    _check_version(node.runtime_version)
    if node.cidr_block and to_kept(node).use_service_networking:
        raise invalid_argument(
            'The fields "CidrBlock" and "UseServiceNetworking" exclude each other.'
        )
    nodes.check_settings(node, found)
    return found


def _check_version(version: str) -> None:
    if version not in catalog.tensorflow_versions():
        raise invalid_argument(f'The field "TensorflowVersion" cannot be "{version}".')


def _tensorflow_versions(place: Place) -> list[NodeMessage]:
    return [
        TpuV1.TensorFlowVersion(
            name=place.child_name("tensorflowVersions", version), version=version
        )
        for version in catalog.tensorflow_versions()
    ]


def _accelerator_types(place: Place) -> list[NodeMessage]:
    return [
        TpuV1.AcceleratorType(name=place.child_name("acceleratorTypes", kind.name), type_=kind.name)
        for kind in catalog.list_legacy(place.zone)
    ]
