"""Limits by place, as the configuration has them: chips by zone, generation and model."""

from __future__ import annotations

from collections.abc import Mapping

from service.emulator import catalog
from service.emulator.validation import invalid_value, parse_integer, parse_texts

MODELS = ("on_demand", "spot", "preemptible", "reserved", "flex_start")


def limits_of(raw: Mapping[str, object], what: str, *, by_region: bool) -> dict[str, int]:
    """Parse the limits by `zone/generation` or `zone/generation/model`; raises ApiError.

    With `by_region`, a key may have a region in place of the zone.
    """
    places = set(catalog.list_zones())
    if by_region:
        places |= {catalog.region_of(zone) for zone in places}
    for key in raw:
        place, generation, model = (*key.split("/", 2), "", "")[:3]
        known = place in places and generation in catalog.GENERATIONS
        if not known or (key.count("/") > 1 and model not in MODELS):
            raise invalid_value(
                f"unknown {what} key {key}; known: PLACE/GENERATION and PLACE/GENERATION/MODEL,"
                f" with {'a zone or a region' if by_region else 'a zone'},"
                f" a generation of {', '.join(catalog.GENERATIONS)}"
                f" and a model of {', '.join(MODELS)}"
            )
    return {key: parse_integer(chips, f"the chips of {key}") for key, chips in raw.items()}


def queues_of(raw: object, what: str) -> tuple[str, ...]:
    """Parse a list of `zone/accelerator-type`; raises ApiError."""
    queues = parse_texts(raw, what)
    for queue in queues:
        zone, _, kind = queue.partition("/")
        if kind not in {offer.name for offer in catalog.list_offered(zone)}:
            raise invalid_value(
                f"unknown {what} entry {queue}; known: ZONE/TYPE, as us-central2-b/v4-8"
            )
    return queues
