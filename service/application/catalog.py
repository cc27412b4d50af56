"""The catalogue as callers query it: lists, filters, and the resolution of runtime versions."""

from __future__ import annotations

from itertools import groupby

from service.domain.catalog import catalog, runtimes
from service.domain.catalog.accelerators import AcceleratorType, Generation
from service.domain.catalog.images import Framework, Image
from service.domain.catalog.provisioning import Architecture
from service.domain.catalog.runtimes import Resolution
from service.domain.catalog.zones import ZoneOffer
from service.domain.errors import NotOffered


def list_generations() -> tuple[Generation, ...]:
    """Every generation, including those that the Cloud TPU API does not serve."""
    return tuple(catalog.load_catalog().generations.values())


def list_accelerators(
    generation: str | None = None, zone: str | None = None, chips: int | None = None
) -> tuple[AcceleratorType, ...]:
    """The accelerator types that the API serves: of one generation, in one zone, with so many
    chips.

    Raises Rejected for an unknown generation, NotOffered if the zone has no TPU at all.
    """
    known = catalog.load_catalog()
    if generation is not None:
        known.get_generation(generation)
    there = None
    if zone is not None:
        offers = [offer for offer in known.offers if offer.api]
        there = {offer.generation for offer in offers if offer.zone == zone}
        if not there:
            raise NotOffered(
                f"the Cloud TPU API has no TPU in {zone[:80]!r}",
                offered_in=sorted({offer.zone for offer in offers}),
            )
    return tuple(
        accelerator
        for accelerator in known.list_served(generation)
        if (there is None or accelerator.generation in there) and chips in {None, accelerator.chips}
    )


def list_zones(
    generation: str | None = None, region: str | None = None
) -> tuple[tuple[str, tuple[ZoneOffer, ...]], ...]:
    """Each zone with what the API offers there, by name: of one generation, in one region.

    Raises Rejected for an unknown generation.
    """
    known = catalog.load_catalog()
    if generation is not None:
        known.get_generation(generation)
    found = sorted(
        (
            offer
            for offer in known.offers
            if offer.api
            and generation in {None, offer.generation}
            and region in {None, offer.region}
        ),
        key=lambda offer: (offer.zone, offer.generation),
    )
    return tuple((zone, tuple(group)) for zone, group in groupby(found, lambda offer: offer.zone))


def list_runtime_versions(
    generation: str | None = None,
    framework: Framework | None = None,
    architecture: Architecture | None = None,
) -> tuple[Image, ...]:
    """The runtime versions of a generation, framework and architecture, best first.

    Raises Rejected for an unknown generation.
    """
    if generation is not None:
        catalog.load_catalog().get_generation(generation)
    return runtimes.for_generation(generation, framework, architecture)


def resolve_runtime(
    accelerator_type: str,
    framework: Framework,
    version: str | None = None,
    architecture: Architecture = Architecture.VM,
    zone: str | None = None,
) -> Resolution:
    """The runtime version for an accelerator type and a framework. See
    `runtimes.resolve_runtime`."""
    accelerator = catalog.load_catalog().get_accelerator(accelerator_type)
    return runtimes.resolve_runtime(accelerator, framework, version, architecture, zone)
