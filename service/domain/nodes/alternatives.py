"""Resolves a request for one type, or for any of several, with the places in the order to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.catalog import Catalog
from service.domain.errors import NotOffered, Rejected
from service.domain.nodes.request import (
    RequestedNode,
    ResolvedRequest,
    candidate_zones,
    resolve_hardware,
    resolve_spec,
)

Rate = Callable[[AcceleratorType, str], int | None]
"""Nano-dollars an hour for a whole node of a type in a zone; None if no price is known."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One type in one zone, and its cost in nano-dollars an hour there."""

    accelerator: AcceleratorType
    zone: str
    rate: int | None


def resolve_request(request: RequestedNode, catalog: Catalog, rate: Rate) -> ResolvedRequest:
    """The spec of a request for one type, or for several as alternatives.

    The zones of one type are tried in the caller's order if the caller named zones, else the
    cheapest first. Several types are always tried with the cheapest node first. Raises Rejected if
    the request cannot be met.
    """
    if request.accelerator_types:
        return _resolve_any_of(request, catalog, rate)
    accelerator = resolve_hardware(request, catalog)
    zones = candidate_zones(request, accelerator, catalog)
    places = [_Place(accelerator, zone, rate(accelerator, zone)) for zone in zones]
    if not request.zones:
        places.sort(key=_price_order)
    ordered = tuple(place.zone for place in places)
    unpriced = _warn_unpriced(request, places[0])
    return resolve_spec(
        request, accelerator, ordered, cheapest_first=not request.zones, warnings=unpriced
    )


def _resolve_any_of(request: RequestedNode, catalog: Catalog, rate: Rate) -> ResolvedRequest:
    """Leaves out impossible types with a warning. Raises Rejected if no type is possible."""
    types = _check_types(request, catalog)
    possible: dict[str, ResolvedRequest] = {}
    impossible: dict[str, Rejected] = {}
    for accelerator in types:
        # The same request for this type alone, in the named zones that offer the type.
        offered = catalog.zones_for(accelerator, request.provisioning_model)
        zones = tuple(zone for zone in request.zones if zone in offered) or tuple(request.zones)
        alone = replace(
            request, accelerator_type=accelerator.name, accelerator_types=(), zones=zones
        )
        try:
            possible[accelerator.name] = resolve_spec(
                alone, accelerator, candidate_zones(alone, accelerator, catalog)
            )
        except Rejected as error:
            impossible[accelerator.name] = error
    if not possible:
        raise _merge_refusals(impossible)
    places = [
        _Place(accelerator, zone, rate(accelerator, zone))
        for accelerator in types
        if accelerator.name in possible
        for zone in possible[accelerator.name].spec.zones
    ]
    places.sort(key=_price_order)
    # The spec of the first place has all other places as its alternatives.
    runs = tuple(
        replace(possible[name].spec.hardware, zones=tuple(place.zone for place in run))
        for name, run in groupby(places, key=lambda place: place.accelerator.name)
    )
    spec = replace(
        possible[places[0].accelerator.name].spec,
        zones=tuple(dict.fromkeys(place.zone for place in places)),
        alternatives=runs if len(possible) > 1 else (),
        cheapest_first=True,
    )
    return ResolvedRequest(
        spec,
        (
            *(f"{name} is left out: {error}" for name, error in impossible.items()),
            *dict.fromkeys(said for resolved in possible.values() for said in resolved.warnings),
            *_warn_unpriced(request, places[0]),
        ),
        tuple(dict.fromkeys(why for resolved in possible.values() for why in resolved.reasons)),
    )


def _check_types(request: RequestedNode, catalog: Catalog) -> list[AcceleratorType]:
    """The types of a request. Raises Rejected for fields that contradict them.

    A named zone that offers none of the types is a mistake, so it is refused and not left out.
    """
    if request.accelerator_type is not None:
        raise Rejected(
            "give accelerator_type or accelerator_types, not both", field="accelerator_types"
        )
    if request.generation is not None or request.chips is not None or request.topology is not None:
        raise Rejected(
            "give either accelerator_types, or generation with chips or topology",
            field="accelerator_types",
        )
    types = [catalog.get_accelerator(name) for name in dict.fromkeys(request.accelerator_types)]
    model = request.provisioning_model
    offered = dict.fromkeys(
        zone for accelerator in types for zone in catalog.zones_for(accelerator, model)
    )
    missing = [zone for zone in request.zones if zone not in offered]
    if missing:
        raise NotOffered(
            f"none of {', '.join(accelerator.name for accelerator in types)} is offered in"
            f" {', '.join(zone[:80] for zone in missing)}",
            offered_in=list(offered),
        )
    return types


def _merge_refusals(errors: Mapping[str, Rejected]) -> Rejected:
    """The refusal of the first type, with the reasons of all types.

    If all types have the same reason, it is about the request and is given once. A list among the
    facts keeps the items that every type's list contains; if no item is left, it stays as it is.
    """
    first = next(iter(errors.values()))
    if len({str(error) for error in errors.values()}) == 1:
        return first
    said = "; ".join(f"{name}: {error}" for name, error in errors.items())
    facts: dict[str, object] = dict(first.facts)
    for name, items in first.facts.items():
        if isinstance(items, list):
            values = [error.facts.get(name) for error in errors.values()]
            lists = [value for value in values if isinstance(value, list)]
            facts[name] = [item for item in items if all(item in each for each in lists)] or items
    return type(first)(f"none of these types can be used: {said}", **facts)


def _warn_unpriced(request: RequestedNode, place: _Place) -> tuple[str, ...]:
    if place.rate is not None:
        return ()
    model, name = request.provisioning_model, place.accelerator.name
    return (f"no {model} price is known for {name} in {place.zone}",)


def _price_order(place: _Place) -> tuple[bool, int]:
    """The sort key by price. Places without a known price come last."""
    return place.rate is None, place.rate or 0
