"""The calls of `google.cloud.tpu.v2.Tpu`, each from its request to its response."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from service.emulator import capacity, catalog, guests, lifecycle, nodes
from service.emulator.api import filters
from service.emulator.api.call import Call
from service.emulator.api.pages import page
from service.emulator.errors import (
    already_exists,
    location_denied,
    not_found,
    zone_unsupported,
)
from service.emulator.names import Place, check_node_id, child_of, malformed, place_of
from service.emulator.nodes import NodeRecord
from service.emulator.update import change_of
from service.emulator.wire import AcceleratorType, NodeMessage, RuntimeVersion, Tpu, copied


def create_node(call: Call) -> NodeMessage:
    request, world = call.request, call.world
    place = place_of(request.parent)
    if place.zone not in catalog.zones():
        raise zone_unsupported(place.zone)
    check_node_id(request.node_id)
    accelerator = nodes.accelerator_of(request.node, place.zone)
    nodes.check(request.node, accelerator, strict_runtimes=world.config.strict_runtimes)
    name = place.child("nodes", request.node_id)
    if name in world.nodes:
        raise already_exists(name)
    message = nodes.born(request.node, name, world.new_uid(), accelerator, call.now)
    record = NodeRecord(message, place, accelerator, call.now)
    refusal = capacity.quota_refusal(world, record)
    if refusal is not None:
        raise refusal
    message.cidr_block = message.cidr_block or world.new_block(
        nodes.block_size(message, accelerator)
    )
    return copied(lifecycle.create(world, record, call.effects))


def get_node(call: Call) -> NodeMessage:
    name = call.request.name
    place, _ = child_of(name, "nodes")
    _require_zone(place)
    seen = call.world.sight(call.effects.stale_seconds).look(name)
    if seen is None:
        raise not_found(name)
    return copied(seen)


def list_nodes(call: Call) -> NodeMessage:
    """List a zone or, for `-`, every zone; what a fault made unreachable is named, not shown."""
    request = call.request
    place = _place(request.parent)
    hidden = [zone for zone in call.effects.unreachable if place.zone in {zone, "-"}]
    everywhere = f"projects/{place.project}/locations/"
    sight = call.world.sight(call.effects.stale_seconds)
    names = sight.under(everywhere if place.everywhere else f"{place.parent}/nodes/")
    if hidden:
        names = [name for name in names if name.split("/", 4)[3] not in hidden]
    shown, token = page(names, str, request.parent, request.page_size, request.page_token)
    return Tpu.ListNodesResponse(
        nodes=[sight.look(name) for name in shown],
        next_page_token=token,
        unreachable=[Place(place.project, zone).parent for zone in hidden],
    )


def delete_node(call: Call) -> NodeMessage:
    return copied(lifecycle.delete(call.world, _record(call), call.now, call.effects))


def stop_node(call: Call) -> NodeMessage:
    return copied(lifecycle.stop(call.world, _record(call), call.now, call.effects))


def start_node(call: Call) -> NodeMessage:
    return copied(lifecycle.start(call.world, _record(call), call.now, call.effects))


def update_node(call: Call) -> NodeMessage:
    request = call.request
    place, _ = child_of(request.node.name, "nodes", "node.name")
    _require_zone(place)
    record = call.world.find(request.node.name)
    change = change_of(record, request.node, request.update_mask)
    return copied(lifecycle.update(call.world, record, call.now, call.effects, change))


def get_guest_attributes(call: Call) -> NodeMessage:
    request = call.request
    record = _record(call)
    values = guests.read(record, request.query_path, list(request.worker_ids))
    return Tpu.GetGuestAttributesResponse(guest_attributes=values)


def generate_service_identity(call: Call) -> NodeMessage:
    place = _place(call.request.parent)
    number = zlib.crc32(place.project.encode())
    email = f"service-{number}@gcp-sa-tpu.iam.gserviceaccount.com"
    return Tpu.GenerateServiceIdentityResponse(identity=Tpu.ServiceIdentity(email=email))


def list_accelerator_types(call: Call) -> NodeMessage:
    found = _offers(call, "acceleratorTypes", _accelerator_types)
    shown, token = _page_of_offers(call, found)
    return Tpu.ListAcceleratorTypesResponse(accelerator_types=shown, next_page_token=token)


def get_accelerator_type(call: Call) -> NodeMessage:
    return _offer(call, "acceleratorTypes", _accelerator_types)


def list_runtime_versions(call: Call) -> NodeMessage:
    found = _offers(call, "runtimeVersions", _runtime_versions)
    shown, token = _page_of_offers(call, found)
    return Tpu.ListRuntimeVersionsResponse(runtime_versions=shown, next_page_token=token)


def get_runtime_version(call: Call) -> NodeMessage:
    return _offer(call, "runtimeVersions", _runtime_versions)


def _record(call: Call) -> NodeRecord:
    place, _ = child_of(call.request.name, "nodes")
    _require_zone(place)
    return call.world.find(call.request.name)


def _place(parent: str) -> Place:
    place = place_of(parent)
    if not place.everywhere:
        _require_zone(place)
    return place


def _require_zone(place: Place) -> None:
    if place.zone not in catalog.zones():
        raise location_denied(place.zone)


Offers = Callable[[Place], list[NodeMessage]]


def _offers(call: Call, collection: str, offers: Offers) -> list[NodeMessage]:
    place = _place(call.request.parent)
    if place.everywhere:
        raise malformed("parent", call.request.parent, f"projects/*/locations/ZONE/{collection}")
    return filters.apply(offers(place), call.request.filter, call.request.order_by)


def _page_of_offers(call: Call, found: list[NodeMessage]) -> tuple[list[NodeMessage], str]:
    request = call.request
    of = f"{request.parent}\n{request.filter}\n{request.order_by}"
    ranks = {each.name: f"{rank:06d}" for rank, each in enumerate(found)}
    shown, token = page(
        found, lambda each: ranks[each.name], of, request.page_size, request.page_token
    )
    return list(shown), token


def _offer(call: Call, collection: str, offers: Offers) -> NodeMessage:
    place, _ = child_of(call.request.name, collection)
    _require_zone(place)
    for each in offers(place):
        if each.name == call.request.name:
            return each
    raise not_found(call.request.name)


def _accelerator_types(place: Place) -> list[NodeMessage]:
    return [
        AcceleratorType(
            name=place.child("acceleratorTypes", each.name),
            type_=each.name,
            accelerator_configs=[{"type_": each.config_type, "topology": each.topology}],
        )
        for each in catalog.offered(place.zone)
    ]


def _runtime_versions(place: Place) -> list[NodeMessage]:
    return [
        RuntimeVersion(name=place.child("runtimeVersions", version), version=version)
        for version in catalog.runtimes()
    ]
