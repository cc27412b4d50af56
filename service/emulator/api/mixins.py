"""The calls that Google's services share: long-running operations, and locations."""

from __future__ import annotations

from service.emulator import catalog
from service.emulator.api.calls import filters
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page
from service.emulator.errors import location_denied
from service.emulator.names import Place, child_of, place_of, project_of
from service.emulator.wire import (
    Empty,
    Location,
    NodeMessage,
    Operation,
    copy_message,
    locations_pb2,
    operations_pb2,
)


def get_operation(call: Call) -> NodeMessage:
    return copy_message(call.world.operations.get(_operation_name(call)))


def list_operations(call: Call) -> NodeMessage:
    request = call.request
    place = place_of(request.name.removesuffix("/operations"), "name")
    found = filters.filter_and_sort(
        Operation, call.world.operations.list_under(place), request.filter, ""
    )
    of = f"operations of {place.parent}\n{request.filter}"
    shown, token = cut_page(
        found, lambda operation: str(operation.name), of, request.page_size, request.page_token
    )
    return operations_pb2.ListOperationsResponse(operations=shown, next_page_token=token)


def cancel_operation(call: Call) -> NodeMessage:
    call.world.operations.request_cancel(_operation_name(call))
    return Empty()


def delete_operation(call: Call) -> NodeMessage:
    call.world.operations.delete(_operation_name(call))
    return Empty()


def list_locations(call: Call) -> NodeMessage:
    request = call.request
    project = project_of(request.name)
    found = filters.filter_and_sort(
        Location,
        [_describe_location(project, zone) for zone in catalog.list_zones()],
        request.filter,
        "",
    )
    of = f"locations of {request.name}\n{request.filter}"
    shown, token = cut_page(
        found, lambda location: str(location.name), of, request.page_size, request.page_token
    )
    return locations_pb2.ListLocationsResponse(locations=shown, next_page_token=token)


def get_location(call: Call) -> NodeMessage:
    place = place_of(call.request.name, "name")
    if place.zone not in catalog.list_zones():
        raise location_denied(place.zone)
    return _describe_location(place.project, place.zone)


def _operation_name(call: Call) -> str:
    child_of(call.request.name, "operations")
    return str(call.request.name)


def _describe_location(project: str, zone: str) -> NodeMessage:
    return Location(
        name=Place(project, zone).parent,
        location_id=zone,
        labels={"cloud.googleapis.com/region": catalog.region_of(zone)},
    )
