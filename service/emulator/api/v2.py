"""The calls of `google.cloud.tpu.v2.Tpu`, each from its request to its response."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from service.emulator import catalog
from service.emulator.api import offers
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page
from service.emulator.api.offers import known_place, require_zone
from service.emulator.catalog import Accelerator
from service.emulator.config.config import Config
from service.emulator.errors import already_exists, not_found, zone_unsupported
from service.emulator.limits.capacity import kind_of
from service.emulator.names import Place, check_node_id, child_of, place_of
from service.emulator.nodes import guest_attributes, nodes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.update import change_of
from service.emulator.wire import AcceleratorType, NodeMessage, RuntimeVersion, Tpu, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.maintenance import with_forecast

Check = Callable[[Place, NodeMessage, Config], Accelerator]
"""Returns the accelerator type of a valid node; raises ApiError for an invalid one."""


def create_node(call: Call) -> NodeMessage:
    def check_node(place: Place, node: NodeMessage, config: Config) -> Accelerator:
        accelerator = nodes.accelerator_of(node, place.zone)
        nodes.check_node(node, accelerator, strict_runtimes=config.strict_runtimes)
        return accelerator

    return create_checked(call, check_node)


def create_checked(call: Call, check: Check) -> NodeMessage:
    """Create a node that passes a check, either a TPU VM or a legacy TPU Node."""
    request, world = call.request, call.world
    place = place_of(request.parent)
    if place.zone not in catalog.list_zones():
        raise zone_unsupported(place.zone)
    check_node_id(request.node_id)
    rate = world.config.create_rate_per_minute
    world.rates.admit_request("CreateNode", place.project, rate, call.now)
    accelerator = check(place, request.node, world.config)
    name = place.child_name("nodes", request.node_id)
    if name in world.nodes or name in world.queue.claims:
        raise already_exists(name)
    message = nodes.make_node(request.node, name, world.new_uid(), accelerator, call.now)
    record = NodeRecord(message, place, accelerator, call.now)
    chips = {kind_of(record): accelerator.chips}
    refusal = world.holdings.find_refusal(world.config.quotas, place.project, chips)
    if refusal is not None:
        raise refusal
    message.cidr_block = message.cidr_block or world.new_block(
        nodes.block_size(message, accelerator)
    )
    return copy_message(lifecycle.create_node(world, record, call.effects))


def get_node(call: Call) -> NodeMessage:
    name = call.request.name
    place, _ = child_of(name, "nodes")
    require_zone(place)
    seen = call.world.get_sight(call.effects.stale_seconds).look(name)
    if seen is None:
        raise not_found(name)
    return copy_message(with_forecast(call.world, name, seen, call.now))


def list_nodes(call: Call) -> NodeMessage:
    """List a zone or, for `-`, every zone; zones that a fault made unreachable are only named."""
    request = call.request
    place = known_place(request.parent)
    hidden = [zone for zone in call.effects.unreachable if place.zone in {zone, "-"}]
    everywhere = f"projects/{place.project}/locations/"
    sight = call.world.get_sight(call.effects.stale_seconds)
    names = sight.list_under(everywhere if place.is_wildcard else f"{place.parent}/nodes/")
    if hidden:
        names = [name for name in names if name.split("/", 4)[3] not in hidden]
    of = f"nodes of {request.parent}"
    shown, token = cut_page(names, str, of, request.page_size, request.page_token)
    return Tpu.ListNodesResponse(
        nodes=[with_forecast(call.world, name, sight.look(name), call.now) for name in shown],
        next_page_token=token,
        unreachable=[Place(place.project, zone).parent for zone in hidden],
    )


def delete_node(call: Call) -> NodeMessage:
    return copy_message(lifecycle.delete_node(call.world, record_of(call), call.now, call.effects))


def stop_node(call: Call) -> NodeMessage:
    return copy_message(lifecycle.stop_node(call.world, record_of(call), call.now, call.effects))


def start_node(call: Call) -> NodeMessage:
    return copy_message(lifecycle.start_node(call.world, record_of(call), call.now, call.effects))


def update_node(call: Call) -> NodeMessage:
    request = call.request
    place, _ = child_of(request.node.name, "nodes", "node.name")
    require_zone(place)
    record = call.world.get_node(request.node.name)
    change = change_of(record, request.node, request.update_mask)
    return copy_message(lifecycle.update_node(call.world, record, call.now, call.effects, change))


def get_guest_attributes(call: Call) -> NodeMessage:
    request = call.request
    record = record_of(call)
    workers = guest_attributes.workers_of(record, list(request.worker_ids))
    for worker in workers:
        # A read beyond the rate limit succeeds; it uses up the limit of the writes.
        guest_attributes.count_query(
            record, worker, call.now, call.world.config.speed, is_read=True
        )
    values = guest_attributes.read_values(record, request.query_path, workers)
    return Tpu.GetGuestAttributesResponse(guest_attributes=values)


def generate_service_identity(call: Call) -> NodeMessage:
    place = known_place(call.request.parent)
    number = zlib.crc32(place.project.encode())
    email = f"service-{number}@gcp-sa-tpu.iam.gserviceaccount.com"
    return Tpu.GenerateServiceIdentityResponse(identity=Tpu.ServiceIdentity(email=email))


def list_accelerator_types(call: Call) -> NodeMessage:
    shown, token = offers.list_offers(call, AcceleratorType, "acceleratorTypes", _accelerator_types)
    return Tpu.ListAcceleratorTypesResponse(accelerator_types=shown, next_page_token=token)


def get_accelerator_type(call: Call) -> NodeMessage:
    return offers.get_offer(call, "acceleratorTypes", _accelerator_types)


def list_runtime_versions(call: Call) -> NodeMessage:
    shown, token = offers.list_offers(call, RuntimeVersion, "runtimeVersions", _runtime_versions)
    return Tpu.ListRuntimeVersionsResponse(runtime_versions=shown, next_page_token=token)


def get_runtime_version(call: Call) -> NodeMessage:
    return offers.get_offer(call, "runtimeVersions", _runtime_versions)


def record_of(call: Call) -> NodeRecord:
    """Return the node that a request names; raises ApiError."""
    place, _ = child_of(call.request.name, "nodes")
    require_zone(place)
    return call.world.get_node(call.request.name)


def _accelerator_types(place: Place) -> list[NodeMessage]:
    return [
        AcceleratorType(
            name=place.child_name("acceleratorTypes", kind.name),
            type_=kind.name,
            accelerator_configs=[{"type_": kind.config_type, "topology": kind.topology}],
        )
        for kind in catalog.list_offered(place.zone)
    ]


def _runtime_versions(place: Place) -> list[NodeMessage]:
    return [
        RuntimeVersion(name=place.child_name("runtimeVersions", version), version=version)
        for version in catalog.runtime_versions()
    ]
