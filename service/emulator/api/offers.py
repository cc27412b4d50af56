"""What a zone offers, listed and looked up: the same for every kind of offer and API version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.emulator import catalog
from service.emulator.api import filters
from service.emulator.api.dispatch import Call
from service.emulator.api.pages import page
from service.emulator.errors import location_denied, not_found
from service.emulator.names import Place, child_of, malformed, place_of
from service.emulator.wire import NodeMessage

Offers = Callable[[Place], list[NodeMessage]]


def listed(call: Call, kind: Any, collection: str, offers: Offers) -> tuple[list[NodeMessage], str]:
    """Give one page of what the request filters and sorts, and the token of the next.

    `kind` is the class of what is offered.
    """
    request = call.request
    place = known_place(request.parent)
    if place.everywhere:
        raise malformed("parent", request.parent, f"projects/*/locations/ZONE/{collection}")
    found = filters.apply(kind, offers(place), request.filter, request.order_by)
    of = f"{collection} of {request.parent}\n{request.filter}\n{request.order_by}"
    ranks = {each.name: f"{rank:06d}" for rank, each in enumerate(found)}
    shown, token = page(
        found, lambda each: ranks[each.name], of, request.page_size, request.page_token
    )
    return list(shown), token


def found(call: Call, collection: str, offers: Offers) -> NodeMessage:
    """Look one offer up by its full name; raises ApiError."""
    place, _ = child_of(call.request.name, collection)
    require_zone(place)
    for each in offers(place):
        if each.name == call.request.name:
            return each
    raise not_found(call.request.name)


def known_place(parent: str) -> Place:
    """Read a parent, whose zone must be one with TPUs, or `-` for all of them."""
    place = place_of(parent)
    if not place.everywhere:
        require_zone(place)
    return place


def require_zone(place: Place) -> None:
    if place.zone not in catalog.zones():
        raise location_denied(place.zone)
