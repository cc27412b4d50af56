"""The calls about queued resources, each from its request to its response."""

from __future__ import annotations

from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page
from service.emulator.api.offers import known_place, require_zone
from service.emulator.errors import already_exists, not_found
from service.emulator.names import Place, child_of, place_of
from service.emulator.queued import admission, queueing, teardown
from service.emulator.wire import NodeMessage, Tpu, copy_message
from service.emulator.world.queue import QueuedRecord, Terms
from service.emulator.world.stale_reads import NameIndex


def create_queued_resource(call: Call) -> NodeMessage:
    return create_on_terms(call, Terms())


def create_on_terms(call: Call, terms: Terms) -> NodeMessage:
    """Create a queued resource, with terms that v2 has no fields for; raises ApiError."""
    request, world = call.request, call.world
    place = place_of(request.parent)
    done = world.requests.find_repeated(place.project, request, call.now, terms)
    if done is not None:
        return copy_message(done)
    rate = world.config.create_rate_per_minute
    world.rates.admit_request("CreateQueuedResource", place.project, rate, call.now)
    record = admission.record_of(place, request, terms, world.config, call.now)
    if record.name in world.queue.records:
        raise already_exists(record.name)
    for slice_ in record.slices:
        if slice_.name in world.nodes or slice_.name in world.queue.claims:
            raise already_exists(slice_.name)
    refusal = world.holdings.find_refusal(world.config.quotas, place.project, record.demand)
    if refusal is not None:
        raise refusal
    operation = queueing.create_resource(world, record, call.effects)
    world.requests.remember_operation(place.project, request, operation, call.now, terms)
    return copy_message(operation)


def get_queued_resource(call: Call) -> NodeMessage:
    name = call.request.name
    place, _ = child_of(name, "queuedResources")
    require_zone(place)
    seen = _get_sight(call).look(name)
    if seen is None:
        raise not_found(name)
    return copy_message(seen)


def list_queued_resources(call: Call) -> NodeMessage:
    """List a zone or, for `-`, every zone; zones that a fault made unreachable are only named."""
    request, sight = call.request, _get_sight(call)
    place = known_place(request.parent)
    hidden = [zone for zone in call.effects.unreachable if place.zone in {zone, "-"}]
    everywhere = f"projects/{place.project}/locations/"
    names = sight.list_under(everywhere if place.is_wildcard else f"{place.parent}/")
    if hidden:
        names = [name for name in names if name.split("/", 4)[3] not in hidden]
    of = f"queued resources of {request.parent}"
    shown, token = cut_page(names, str, of, request.page_size, request.page_token)
    return Tpu.ListQueuedResourcesResponse(
        queued_resources=[sight.look(name) for name in shown],
        next_page_token=token,
        unreachable=[Place(place.project, zone).parent for zone in hidden],
    )


def _get_sight(call: Call) -> NameIndex:
    """Return the queued resources as they are now or, by a fault, as they were."""
    age = call.effects.stale_seconds
    return call.world.queue.stale_reads.sight_at(call.now - age if age else None)


def delete_queued_resource(call: Call) -> NodeMessage:
    """Delete once for each request id: the response to it stays the same after the deletion."""
    request, world = call.request, call.world
    place, _ = child_of(request.name, "queuedResources")
    done = world.requests.find_repeated(place.project, request, call.now)
    if done is not None:
        return copy_message(done)
    record = record_of(call)
    operation = teardown.delete_resource(world, record, call.now, call.effects, force=request.force)
    world.requests.remember_operation(place.project, request, operation, call.now)
    return copy_message(operation)


def reset_queued_resource(call: Call) -> NodeMessage:
    return copy_message(
        teardown.reset_resource(call.world, record_of(call), call.now, call.effects)
    )


def record_of(call: Call) -> QueuedRecord:
    """Return the queued resource that a request names; raises ApiError."""
    place, _ = child_of(call.request.name, "queuedResources")
    require_zone(place)
    return call.world.queue.get_record(call.request.name)
