"""Routes of the catalogue: generations, accelerator types, zones and runtime versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from pydantic import Field

from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Page, PageQuery, View
from service.application import catalog
from service.domain.catalog.images import Framework, Hosts, ImageStanding
from service.domain.catalog.provisioning import Architecture
from service.domain.catalog.zones import ZoneOffer, region_of

router = Router(prefix="/v1/catalog", tags=["catalog"])

GenerationName = Annotated[
    str | None,
    Field(
        description="Only this generation.",
        max_length=40,
        examples=["v5e"],
    ),
]


class AcceleratorQuery(PageQuery):
    """Which accelerator types to list."""

    generation: GenerationName = None
    zone: str | None = Field(
        default=None,
        max_length=63,
        description="Only types whose generation the Cloud TPU API has in this zone.",
        examples=["us-central1-a"],
    )
    chips: int | None = Field(
        default=None, ge=1, le=100_000, description="Only types of so many chips.", examples=[16]
    )


class ZoneQuery(PageQuery):
    """Which zones to list."""

    generation: GenerationName = None
    region: str | None = Field(
        default=None, max_length=63, description="Only this region.", examples=["us-central1"]
    )


class RuntimeQuery(PageQuery):
    """Which runtime versions to list."""

    generation: GenerationName = None
    framework: Framework | None = Field(default=None, description="Only for this framework.")
    architecture: Architecture | None = Field(
        default=None, description="`vm` for TPU VMs, `node` for legacy TPU Nodes."
    )


class GenerationView(View):
    """The figures of one generation, per chip; null where the sources are silent."""

    name: str = Field(examples=["v5e"])
    google_name: str = Field(examples=["Cloud TPU v5e"])
    served: bool = Field(description="Whether the Cloud TPU API has it.", examples=[True])
    tensorcores_per_chip: int = Field(examples=[1])
    hbm_gib: int = Field(description="Memory, in GiB.", examples=[16])
    hbm_gb_per_second: int = Field(description="Memory bandwidth, in GB/s.", examples=[819])
    bf16_tflops: int = Field(description="Peak speed in bfloat16, in TFLOPs.", examples=[197])
    int8_tops: int | None = Field(description="Peak speed in int8, in TOPs.", examples=[393])
    fp8_tflops: int | None = Field(description="Peak speed in fp8, in TFLOPs.", examples=[None])
    pod_chips: int = Field(description="Chips of a whole pod.", examples=[256])
    largest_type: str = Field(examples=["v5litepod-256"])
    interconnect: str = Field(examples=["2D torus"])
    release_year: int = Field(examples=[2023])
    disagreements: str = Field(description="Where the sources differ.")
    source: str


class AcceleratorView(View):
    """One accelerator type, as the Cloud TPU API sees it."""

    name: str = Field(examples=["v5litepod-16"])
    generation: str = Field(examples=["v5e"])
    cores: int = Field(description="TensorCores.", examples=[16])
    chips: int = Field(examples=[16])
    hosts: int = Field(description="Virtual machines, each with its own worker.", examples=[4])
    chips_per_host: int = Field(examples=[4])
    single_host: bool = Field(examples=[False])
    topology: str = Field(description="The topology when none is given.", examples=["4x4"])
    topologies: tuple[str, ...] = Field(description="All it can have.", examples=[["4x4"]])
    machine_type: str = Field(examples=["ct5lp-hightpu-4t"])
    host_vcpus: int | None = Field(description="Processors of one host.", examples=[112])
    host_ram_gb: int | None = Field(description="Memory of one host, in GB.", examples=[192])
    note: str
    source: str


class ZoneOfferView(View):
    """One generation in one zone."""

    generation: str = Field(examples=["v5e"])
    documented: bool = Field(description="Whether Google's documentation lists the zone for it.")
    flex_start: bool = Field(description="Whether flex-start is sold there.")
    calendar: bool = Field(description="Whether calendar reservations are sold there.")
    source: str


class ZoneView(View):
    """A zone, and the generations that the Cloud TPU API has there."""

    name: str = Field(examples=["us-central1-a"])
    region: str = Field(examples=["us-central1"])
    generations: tuple[ZoneOfferView, ...]

    @classmethod
    def from_offers(cls, zone: str, offers: Sequence[ZoneOffer]) -> ZoneView:
        """The view of a zone with these offers."""
        views = tuple(ZoneOfferView.model_validate(offer) for offer in offers)
        return cls(name=zone, region=region_of(zone), generations=views)


class RuntimeView(View):
    """One runtime version: a software image for TPU VMs, or a version of a legacy TPU Node."""

    name: str = Field(examples=["tpu-vm-tf-2.17.1-pod-pjrt"])
    architecture: Architecture = Field(examples=["vm"])
    frameworks: tuple[Framework, ...] = Field(examples=[["tensorflow"]])
    framework_version: str = Field(
        description="Empty when the image pins no framework.", examples=["2.17.1"]
    )
    generations: tuple[str, ...] = Field(examples=[["v4", "v5e", "v5p", "v6e"]])
    hosts: Hosts = Field(description="How many hosts it is made for.", examples=["multi"])
    device_api: str = Field(description="`pjrt`, `se` (stream executor) or empty.")
    libtpu: str = Field(description="The libtpu on it, where known.", examples=["1.11.1"])
    standing: ImageStanding = Field(
        description="How sure it is that the cloud has it.", examples=["documented"]
    )
    reported_on: tuple[str, ...] = Field(description="The generations that `report` is about.")
    report: str = Field(description="What users reported.")
    note: str
    source: str


class GenerationPage(Page):
    """A page of generations."""

    generations: tuple[GenerationView, ...]


class AcceleratorPage(Page):
    """A page of accelerator types."""

    accelerators: tuple[AcceleratorView, ...]


class ZonePage(Page):
    """A page of zones."""

    zones: tuple[ZoneView, ...]


class RuntimePage(Page):
    """A page of runtime versions, the best first."""

    runtimes: tuple[RuntimeView, ...]


@router.get("/generations", operation_id="list_generations", responses=may_answer(422))
def list_generations(query: Annotated[PageQuery, Query()]) -> GenerationPage:
    """Every generation, also those that only GKE and Compute Engine have."""
    found, token = query.cut_page(catalog.list_generations())
    views = tuple(map(GenerationView.model_validate, found))
    return GenerationPage(generations=views, next_page_token=token)


@router.get("/accelerators", operation_id="list_accelerators", responses=may_answer(422))
def list_accelerators(query: Annotated[AcceleratorQuery, Query()]) -> AcceleratorPage:
    """The accelerator types that the Cloud TPU API serves."""
    found, token = query.cut_page(
        catalog.list_accelerators(query.generation, query.zone, query.chips)
    )
    views = tuple(map(AcceleratorView.model_validate, found))
    return AcceleratorPage(accelerators=views, next_page_token=token)


@router.get("/zones", operation_id="list_zones", responses=may_answer(422))
def list_zones(query: Annotated[ZoneQuery, Query()]) -> ZonePage:
    """The zones in which the Cloud TPU API has TPUs."""
    found, token = query.cut_page(catalog.list_zones(query.generation, query.region))
    views = tuple(ZoneView.from_offers(zone, offers) for zone, offers in found)
    return ZonePage(zones=views, next_page_token=token)


@router.get("/runtimes", operation_id="list_runtimes", responses=may_answer(422))
def list_runtimes(query: Annotated[RuntimeQuery, Query()]) -> RuntimePage:
    """The runtime versions that are known, those to prefer first."""
    found, token = query.cut_page(
        catalog.list_runtime_versions(query.generation, query.framework, query.architecture)
    )
    views = tuple(map(RuntimeView.model_validate, found))
    return RuntimePage(runtimes=views, next_page_token=token)
