"""What a wish may be made of, and where: one type, or any of several, in the order to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.catalog import Catalog
from service.domain.errors import NotOffered, Rejected
from service.domain.nodes.node import Hardware, NodeSpec
from service.domain.nodes.request import (
    RequestedNode,
    ResolvedRequest,
    candidates,
    hardware,
    understood,
)

Rate = Callable[[AcceleratorType, str], int | None]
"""Nano-dollars an hour for a whole node of that type in that zone; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One type in one zone, and what it costs an hour there."""

    accelerator: AcceleratorType
    zone: str
    rate: int | None


def settled(wish: RequestedNode, catalog: Catalog, rate: Rate) -> ResolvedRequest:
    """The spec that a wish means, of one type or of several.

    The zones of one type are tried in the caller's order where he named them, else the cheapest
    first; of several types the cheapest node is. Raises Rejected where the wish cannot be.
    """
    if wish.accelerator_types:
        return _any_of(wish, catalog, rate)
    accelerator = hardware(wish, catalog)
    zones = candidates(wish, accelerator, catalog)
    places = [_Place(accelerator, zone, rate(accelerator, zone)) for zone in zones]
    if not wish.zones:
        places.sort(key=_price)
    meant = understood(wish, accelerator, tuple(place.zone for place in places))
    spec = replace(meant.spec, cheapest_first=not wish.zones)
    return replace(meant, spec=spec, warnings=(*meant.warnings, *_unpriced(wish, places[0])))


def _any_of(wish: RequestedNode, catalog: Catalog, rate: Rate) -> ResolvedRequest:
    """What cannot be is left out with a warning; refused is only what leaves nothing."""
    _check_words(wish)
    types = [catalog.accelerator(name) for name in dict.fromkeys(wish.accelerator_types)]
    _check_zones(wish, types, catalog)
    possible: dict[str, ResolvedRequest] = {}
    impossible: dict[str, Rejected] = {}
    for accelerator in types:
        try:
            possible[accelerator.name] = _only(wish, accelerator, catalog)
        except Rejected as error:
            impossible[accelerator.name] = error
    if not possible:
        raise _none_will_do(impossible)
    places = [
        _Place(accelerator, zone, rate(accelerator, zone))
        for accelerator in types
        if accelerator.name in possible
        for zone in possible[accelerator.name].spec.zones
    ]
    places.sort(key=_price)
    return ResolvedRequest(
        _of_all(possible, places),
        (
            *(f"{name} is left out: {error}" for name, error in impossible.items()),
            *dict.fromkeys(said for one in possible.values() for said in one.warnings),
            *_unpriced(wish, places[0]),
        ),
        tuple(dict.fromkeys(why for one in possible.values() for why in one.reasons)),
    )


def _only(wish: RequestedNode, accelerator: AcceleratorType, catalog: Catalog) -> ResolvedRequest:
    """The same wish for one of its types alone, in those of the named zones that have it."""
    offered = catalog.zones_for(accelerator, wish.provisioning_model)
    named = [zone for zone in wish.zones if zone in offered] or wish.zones
    narrowed = replace(
        wish, accelerator_type=accelerator.name, accelerator_types=(), zones=tuple(named)
    )
    return understood(narrowed, accelerator, candidates(narrowed, accelerator, catalog))


def _of_all(possible: Mapping[str, ResolvedRequest], places: Sequence[_Place]) -> NodeSpec:
    """The spec of the first place, with all others as its alternatives."""
    first = possible[places[0].accelerator.name].spec
    zones = tuple(dict.fromkeys(place.zone for place in places))
    runs = tuple(
        _hardware(possible[name], tuple(place.zone for place in run))
        for name, run in groupby(places, key=lambda place: place.accelerator.name)
    )
    alternatives = runs if len(possible) > 1 else ()
    return replace(first, zones=zones, alternatives=alternatives, cheapest_first=True)


def _hardware(meant: ResolvedRequest, zones: tuple[str, ...]) -> Hardware:
    return replace(meant.spec.hardware, zones=zones)


def _check_words(wish: RequestedNode) -> None:
    if wish.accelerator_type is not None:
        raise Rejected(
            "give accelerator_type or accelerator_types, not both", field="accelerator_types"
        )
    if wish.generation is not None or wish.chips is not None or wish.topology is not None:
        raise Rejected(
            "give either accelerator_types, or generation with chips or topology",
            field="accelerator_types",
        )


def _check_zones(wish: RequestedNode, types: Sequence[AcceleratorType], catalog: Catalog) -> None:
    """A zone that was named and has none of the types is a slip, not something to leave out."""
    model = wish.provisioning_model
    offered = dict.fromkeys(zone for one in types for zone in catalog.zones_for(one, model))
    missing = [zone for zone in wish.zones if zone not in offered]
    if missing:
        raise NotOffered(
            f"none of {', '.join(one.name for one in types)} is offered in"
            f" {', '.join(zone[:80] for zone in missing)}",
            offered_in=list(offered),
        )


def _none_will_do(errors: Mapping[str, Rejected]) -> Rejected:
    """The refusal of the first type, with the reasons of them all. What is said of each alike is
    about the wish and not about the types."""
    first = next(iter(errors.values()))
    if len({str(error) for error in errors.values()}) == 1:
        return first
    said = "; ".join(f"{name}: {error}" for name, error in errors.items())
    facts = {name: _common(name, list(errors.values())) for name in first.facts}
    return type(first)(f"none of these types can be used: {said}", **facts)


def _common(name: str, errors: Sequence[Rejected]) -> object:
    """What would do for every type, where the errors list that; else what the first one says."""
    first, *others = [error.facts.get(name) for error in errors]
    if not isinstance(first, list):
        return first
    lists = [other for other in others if isinstance(other, list)]
    return [one for one in first if all(one in other for other in lists)] or first


def _unpriced(wish: RequestedNode, place: _Place) -> tuple[str, ...]:
    if place.rate is not None:
        return ()
    model, name = wish.provisioning_model, place.accelerator.name
    return (f"no {model} price is known for {name} in {place.zone}",)


def _price(place: _Place) -> tuple[bool, int]:
    """What nobody knows the price of comes last; what costs the same stays in its order."""
    return place.rate is None, place.rate or 0
