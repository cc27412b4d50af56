"""Lists and reads of a zone's offers, the same for every kind of offer and API version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.emulator import catalog
from service.emulator.api.calls import filters
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page
from service.emulator.errors import location_denied, not_found
from service.emulator.names import Place, child_of, malformed_name, place_of
from service.emulator.wire import NodeMessage

Offers = Callable[[Place], list[NodeMessage]]


def list_offers(
    call: Call, kind: Any, collection: str, offers: Offers
) -> tuple[list[NodeMessage], str]:
    """Return one page of the offers, filtered and sorted, and the token of the next page.

    `kind` is the class of an offer. Raises ApiError.
    """
    request = call.request
    place = known_place(request.parent)
    if place.is_wildcard:
        raise malformed_name("parent", request.parent, f"projects/*/locations/ZONE/{collection}")
    found = filters.filter_and_sort(kind, offers(place), request.filter, request.order_by)
    of = f"{collection} of {request.parent}\n{request.filter}\n{request.order_by}"
    ranks = {offer.name: f"{rank:06d}" for rank, offer in enumerate(found)}
    shown, token = cut_page(
        found, lambda offer: ranks[offer.name], of, request.page_size, request.page_token
    )
    return list(shown), token


def get_offer(call: Call, collection: str, offers: Offers) -> NodeMessage:
    """Return an offer by its full name; raises ApiError."""
    place, _ = child_of(call.request.name, collection)
    require_zone(place)
    for offer in offers(place):
        if offer.name == call.request.name:
            return offer
    raise not_found(call.request.name)


def known_place(parent: str) -> Place:
    """Parse a parent, whose zone has TPUs or is `-` for all zones; raises ApiError."""
    place = place_of(parent)
    if not place.is_wildcard:
        require_zone(place)
    return place


def require_zone(place: Place) -> None:
    if place.zone not in catalog.list_zones():
        raise location_denied(place.zone)
