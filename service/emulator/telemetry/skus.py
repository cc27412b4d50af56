"""The SKUs of the price list: TPU SKUs, SKUs that look like them, and many others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import product

from service.emulator.config.telemetry_settings import Prices
from service.emulator.telemetry.chip_prices import (
    CITIES,
    FLEX_START,
    PriceStep,
    Rate,
    parse_legacy_rates,
    parse_rates,
)

COMPUTE, CLOUD_TPU = "6F81-5844-456A", "E000-3F24-B8AA"
SERVICES = {COMPUTE: "Compute Engine", CLOUD_TPU: "Cloud TPU"}
OTHER_SERVICES = (
    "BigQuery",
    "Cloud Storage",
    "Cloud SQL",
    "Cloud Run",
    "Cloud Logging",
    "Cloud Monitoring",
    "Networking",
    "Kubernetes Engine",
    "Vertex AI",
    "Artifact Registry",
)
# Real ids; all others are invented.
SEEN_IDS = {
    "TPU7x running in Americas": "0F71-4391-B6CA",
    "TPU-v2 Accelerator USA": "3B3D-4CB4-AECC",
    "TpuV6e running in Dallas": "2549-F208-72FA",
    "TpuV5e running in Delhi": "04C3-5B71-D137",
    "TpuV5p running in Sao Paulo": "082F-763E-B398",
}
OTHER_GOODS = (
    ("N1 Predefined Instance Core running in", "CPU", "h", "0.031611"),
    ("N1 Predefined Instance Ram running in", "RAM", "GiBy.h", "0.004237"),
    ("E2 Instance Core running in", "CPU", "h", "0.02181159"),
    ("E2 Instance Ram running in", "RAM", "GiBy.h", "0.00292353"),
    ("C3 Instance Core running in", "CPU", "h", "0.03398"),
    ("C3 Instance Ram running in", "RAM", "GiBy.h", "0.00456"),
    ("N2D AMD Instance Core running in", "CPU", "h", "0.027502"),
    ("Nvidia L4 GPU running in", "GPU", "h", "0.560004"),
    ("Nvidia Tesla T4 GPU running in", "GPU", "h", "0.35"),
    ("Nvidia Tesla V100 GPU running in", "GPU", "h", "2.48"),
    ("Nvidia Tesla A100 GPU running in", "GPU", "h", "2.933908"),
    ("Nvidia H100 80GB GPU running in", "GPU", "h", "9.796552"),
    ("SSD backed PD Capacity in", "SSD", "GiBy.mo", "0.17"),
    ("Storage PD Capacity in", "PDStandard", "GiBy.mo", "0.04"),
    ("Hyperdisk Balanced Capacity in", "HyperdiskBalanced", "GiBy.mo", "0.08"),
    ("Network Internet Egress from", "PremiumInternetEgress", "GiBy", "0.12"),
    ("External IP Charge on a Standard VM in", "ExternalIP", "h", "0.005"),
)
# Shares of the list price for one year and for three years, and those of older generations.
COMMITMENTS = {"1 Year": "0.70", "3 Years": "0.45"}
OLD_COMMITMENTS = {"1 Year": "0.63", "3 Years": "0.45"}
USAGE_TYPES = {"1 Year": "Commit1Yr", "3 Years": "Commit3Yr"}
SINCE_2020 = 1_577_836_800.0


@dataclass(frozen=True)
class Sku:
    """One SKU with its prices in time order, in USD per unit."""

    service: str
    description: str
    usage_type: str
    group: str
    unit: str
    regions: tuple[str, ...]
    steps: tuple[PriceStep, ...]
    generation: str = ""

    @cached_property
    def id(self) -> str:
        digest = hashlib.sha256(f"{self.service}/{self.description}".encode()).hexdigest().upper()
        made = f"{digest[:4]}-{digest[4:8]}-{digest[8:12]}"
        return SEEN_IDS.get(self.description, made)

    @property
    def is_spot(self) -> bool:
        return self.usage_type == "Preemptible"


def list_skus(service: str, prices: Prices) -> list[Sku]:
    """Return a service's SKUs sorted by id, with the price changes of the configuration."""
    listed = []
    for sku in _list_all_skus():
        if sku.service != service:
            continue
        fixed = prices.listed.get(sku.id, prices.listed.get(sku.description))
        steps = sku.steps
        if fixed is not None:
            steps = (PriceStep(sku.steps[-1].at, fixed),)
        elif sku.is_spot and prices.spot_price_changes:
            later = [
                PriceStep(change.at, change.usd)
                for change in prices.spot_price_changes
                if change.generation == sku.generation and change.region in sku.regions
            ]
            steps = tuple(sorted((*sku.steps, *later), key=lambda step: step.at))
        listed.append(sku if steps is sku.steps else replace(sku, steps=steps))
    return listed


@cache
def _list_all_skus() -> tuple[Sku, ...]:
    # Preemptible devices of the older service have the usage type OnDemand; only their description
    # tells them apart.
    legacy = [
        Sku(CLOUD_TPU, description, "OnDemand", "TPU", "h", regions, steps)
        for description, regions, steps in parse_legacy_rates()
    ]
    others = []
    for (text, group, unit, usd), (region, city) in product(OTHER_GOODS, CITIES.items()):
        steps = (PriceStep(SINCE_2020, usd),)
        others.append(Sku(COMPUTE, f"{text} {city}", "OnDemand", group, unit, (region,), steps))
        if group in {"CPU", "RAM"}:
            spot = (_scale_price(steps[0], "0.3"),)
            spot_text = f"Spot Preemptible {text} {city}"
            others.append(Sku(COMPUTE, spot_text, "Preemptible", group, unit, (region,), spot))
    return tuple(sorted([*_list_tpu_skus(), *legacy, *others], key=lambda sku: sku.id))


def _list_tpu_skus() -> Iterator[Sku]:
    for rate in parse_rates():
        family = "TPU7x" if rate.generation == "v7" else f"Tpu{_upper_first(rate.generation)}"
        plain = _make_tpu_sku(
            rate, f"{family} running in {rate.place}", "OnDemand", (rate.on_demand,)
        )
        yield plain
        if rate.spot:
            text = f"{family} attached to Spot Preemptible VMs running in {rate.place}"
            yield _make_tpu_sku(rate, text, "Preemptible", rate.spot)

        # Other offers of the same chip in the same place, such as commitments.
        short = family if rate.generation == "v7" else _upper_first(rate.generation)
        shares = OLD_COMMITMENTS if rate.generation == "v4" else COMMITMENTS
        if rate.generation in FLEX_START:
            steps = (PriceStep(rate.on_demand.at, FLEX_START[rate.generation]),)
            yield _make_tpu_sku(
                rate, f"DWS Defined Duration {short} running in {rate.place}", "OnDemand", steps
            )
        for term, share in shares.items():
            text = f"Commitment v1: {family} running in {rate.place} for {term}"
            steps = (_scale_price(rate.on_demand, share),)
            yield _make_tpu_sku(rate, text, USAGE_TYPES[term], steps)
        # Google's descriptions have two word orders.
        what = f"{family} in" if rate.generation in {"v4", "v5p"} else f"{short} TPU in"
        text = f"Reserved {what} {rate.place} in Calendar Mode"
        steps = (_scale_price(rate.on_demand, shares["1 Year"]),)
        yield _make_tpu_sku(rate, text, "OnDemand", steps)
        text = f"Capacity Optimized {family} running in {rate.place}"
        yield _make_tpu_sku(rate, text, "OnDemand", (rate.on_demand,))


def _make_tpu_sku(
    rate: Rate, description: str, usage_type: str, steps: tuple[PriceStep, ...]
) -> Sku:
    return Sku(COMPUTE, description, usage_type, "TPU", "h", rate.regions, steps, rate.generation)


def _scale_price(step: PriceStep, share: str) -> PriceStep:
    return PriceStep(step.at, str((Decimal(step.usd) * Decimal(share)).normalize()))


def _upper_first(generation: str) -> str:
    return generation[0].upper() + generation[1:]
