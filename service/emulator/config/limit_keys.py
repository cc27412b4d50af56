"""Limits by place, as they are ordered: chips by zone, generation and provisioning model."""

from __future__ import annotations

from collections.abc import Mapping

from service.emulator import catalog
from service.emulator.errors import ApiError
from service.emulator.validation import refusal, texts, whole

MODELS = ("on_demand", "spot", "preemptible", "reserved", "flex_start")


def limits_of(raw: Mapping[str, object], what: str, *, by_region: bool) -> dict[str, int]:
    """Check a limit on each `zone/generation` or `zone/generation/model`; raises ApiError.

    A region may stand in the place of a zone where it is allowed.
    """
    places = set(catalog.zones())
    if by_region:
        places |= {catalog.region_of(zone) for zone in places}
    for key in raw:
        place, generation, model = (*key.split("/", 2), "", "")[:3]
        known = place in places and generation in catalog.GENERATIONS
        if not known or (key.count("/") > 1 and model not in MODELS):
            raise _unknown(key, what, by_region=by_region)
    return {key: whole(chips, f"the chips of {key}") for key, chips in raw.items()}


def queues_of(raw: object, what: str) -> tuple[str, ...]:
    """Check a list of `zone/accelerator-type`; raises ApiError."""
    queues = texts(raw, what)
    for each in queues:
        zone, _, kind = each.partition("/")
        if kind not in {offer.name for offer in catalog.offered(zone)}:
            raise refusal(f"unknown {what} entry {each}; known: ZONE/TYPE, as us-central2-b/v4-8")
    return queues


def _unknown(key: str, what: str, *, by_region: bool) -> ApiError:
    place = "a zone or a region" if by_region else "a zone"
    return refusal(
        f"unknown {what} key {key}; known: PLACE/GENERATION and PLACE/GENERATION/MODEL, with"
        f" {place}, a generation of {', '.join(catalog.GENERATIONS)}"
        f" and a model of {', '.join(MODELS)}"
    )
