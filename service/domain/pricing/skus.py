"""SKUs of the Cloud Billing Catalog: which of them is the price of a TPU, and which price.

Five other SKUs share the chip and the place of every price, and three of them its usage type; so
only descriptions that match from their first letter are read (reference/pricing.md section 4). Any
other SKU is refused with the reason: a wrong price is worse than an old price.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from service.domain.money import NANOS
from service.domain.pricing.price_book import (
    CALENDAR,
    CHIP_HOUR,
    CHIPS_PER_DEVICE,
    DEVICE_HOUR,
    MAX_NANOS_PER_UNIT,
    Sku,
)

COMPUTE_ENGINE = "6F81-5844-456A"
CLOUD_TPU = "E000-3F24-B8AA"
SERVICES = (COMPUTE_ENGINE, CLOUD_TPU)
"""The services that sell TPUs: Compute Engine v4 and later, the Cloud TPU service v2 to v4."""

_TPU = re.compile(r"\btpu", re.IGNORECASE)
_FAMILIES = {
    **{f"TpuV{name}": f"v{name}" for name in ("4", "5e", "5p", "6e")},
    "TPU7x": "v7",
}
_SHORT = {family.removeprefix("Tpu"): name for family, name in _FAMILIES.items()}
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")


@dataclass(frozen=True, slots=True)
class PriceTier:
    """A unit price from an amount of usage on: `units` of a currency, and billionths of a unit."""

    starts_at: str
    currency: str
    units: int
    nanos: int


@dataclass(frozen=True, slots=True)
class SkuFacts:
    """One SKU of the catalogue, with the last of its listed prices.

    `unit` is Google's name of the unit of `tiers`, `effective_at` the whole UTC second since which
    the prices are in force; None where the catalogue has none.
    """

    service: str
    id: str
    description: str
    usage_type: str
    regions: tuple[str, ...]
    unit: str
    tiers: tuple[PriceTier, ...]
    effective_at: int | None


@dataclass(frozen=True, slots=True)
class SkuQuote:
    """The catalogue's price for one SKU of ours: nano-dollars per unit since `effective_at`."""

    sku: Sku
    nanos: int
    effective_at: int
    sku_id: str
    description: str


@dataclass(frozen=True, slots=True)
class UnreadSku:
    """A SKU about TPUs without a price, and the reason."""

    sku_id: str
    description: str
    reason: str


@dataclass(frozen=True, slots=True)
class SkusRead:
    """The result of a list of SKUs: prices, SKUs that are sold in another way, and unknown SKUs."""

    quotes: tuple[SkuQuote, ...]
    look_alikes: tuple[UnreadSku, ...]
    refused: tuple[UnreadSku, ...]


class _Kind(NamedTuple):
    """A form of the description of a price, with its model and its usage type."""

    pattern: re.Pattern[str]
    model: str
    usage_type: str


def _one_of(names: Iterable[str]) -> str:
    return f"(?P<family>{'|'.join(names)})"


_KINDS = (
    _Kind(re.compile(rf"{_one_of(_FAMILIES)} running in .+"), "on_demand", "OnDemand"),
    _Kind(
        re.compile(rf"{_one_of(_FAMILIES)} attached to Spot Preemptible VMs running in .+"),
        "spot",
        "Preemptible",
    ),
    _Kind(
        re.compile(rf"DWS Defined Duration {_one_of(_SHORT)} running in .+"),
        "flex_start",
        "OnDemand",
    ),
    _Kind(
        re.compile(rf"Reserved {_one_of(_FAMILIES)} in .+ in Calendar Mode"),
        CALENDAR,
        "OnDemand",
    ),
    _Kind(
        re.compile(rf"Reserved {_one_of(_SHORT)} TPU in .+ in Calendar Mode"),
        CALENDAR,
        "OnDemand",
    ),
)
_LEGACY = re.compile(
    r"(?P<before>Preemptible )?T(?:PU|pu)-(?P<generation>v[234])(?P<pod> Pod)?"
    r"(?P<within> Preemptible)? Accelerator .+"
)
"""In the Cloud TPU service only the description says whether a TPU is preemptible: the usage type
of all is OnDemand. Devices and pods are priced by a device of eight cores, four chips."""

_LOOK_ALIKES = (
    (re.compile(r"Commitment v[0-9]+: .*"), "a commitment, paid whether it is used or not"),
    (re.compile(r"Capacity Optimized .*"), "capacity optimized"),
)


class _NotUnderstood(Exception):
    """The reason why a SKU has no price."""


def is_about_tpus(group: str, description: str) -> bool:
    """Whether a SKU may be about TPUs. Compute Engine has tens of thousands of SKUs."""
    return group == "TPU" or _TPU.search(description) is not None


def read_skus(found: Iterable[SkuFacts]) -> SkusRead:
    """Return the prices of the Cloud Billing Catalog's SKUs, one for each region. Nothing is
    guessed."""
    quotes: list[SkuQuote] = []
    look_alikes: list[UnreadSku] = []
    refused: list[UnreadSku] = []
    for facts in found:
        other = next((why for sign, why in _LOOK_ALIKES if sign.fullmatch(facts.description)), None)
        if other is not None:
            look_alikes.append(UnreadSku(facts.id, facts.description, other))
            continue
        try:
            quotes += _list_quotes(facts)
        except _NotUnderstood as error:
            refused.append(UnreadSku(facts.id, facts.description, str(error)))
    agreed, contradicted = _split_by_agreement(quotes)
    return SkusRead(tuple(agreed), tuple(look_alikes), (*refused, *contradicted))


def _list_quotes(facts: SkuFacts) -> list[SkuQuote]:
    """One quote for each region of a SKU. The description may name another place."""
    generation, model, unit = _parse_description(facts)
    if facts.effective_at is None:
        raise _NotUnderstood("it has no start date")
    nanos = _read_price(facts)
    if facts.service == CLOUD_TPU and unit == CHIP_HOUR:
        nanos = _per_chip(nanos)
    elif unit == DEVICE_HOUR:
        _per_chip(nanos)  # the price of each chip has to be whole as well
    single = unit == DEVICE_HOUR
    strange = [region for region in facts.regions if not _REGION.fullmatch(region)]
    if strange or not facts.regions:
        raise _NotUnderstood(f"{strange[0]!r} is no region" if strange else "it names no region")
    return [
        SkuQuote(
            Sku(generation, model, region, single),
            nanos,
            facts.effective_at,
            facts.id,
            facts.description,
        )
        for region in sorted(set(facts.regions))
    ]


def _parse_description(facts: SkuFacts) -> tuple[str, str, str]:
    """The generation, the provisioning model, and the unit of the price book."""
    if facts.service == CLOUD_TPU:
        return _parse_legacy(facts)
    if facts.service != COMPUTE_ENGINE:
        raise _NotUnderstood(f"{facts.service} sells no TPUs that we know of")
    for kind in _KINDS:
        match = kind.pattern.fullmatch(facts.description)
        if match is None:
            continue
        if facts.usage_type != kind.usage_type:
            raise _NotUnderstood(f"its usage type is {facts.usage_type!r}, not {kind.usage_type}")
        family = match["family"]
        return _FAMILIES.get(family) or _SHORT[family], kind.model, CHIP_HOUR
    raise _NotUnderstood("no TPU's price is described like that")


def _parse_legacy(facts: SkuFacts) -> tuple[str, str, str]:
    match = _LEGACY.fullmatch(facts.description)
    if match is None:
        raise _NotUnderstood("no TPU's price is described like that")
    if facts.usage_type not in ("OnDemand", "Preemptible"):
        raise _NotUnderstood(f"its usage type is {facts.usage_type!r}")
    generation = match["generation"]
    if match["pod"]:
        unit = CHIP_HOUR
    elif generation == "v4":
        raise _NotUnderstood("v4 has no price for a device alone")
    else:
        unit = DEVICE_HOUR
    is_spot = match["before"] or match["within"] or facts.usage_type == "Preemptible"
    return generation, "spot" if is_spot else "on_demand", unit


def _read_price(facts: SkuFacts) -> int:
    """The listed nano-dollars per hour."""
    if facts.unit != "h":
        raise _NotUnderstood(f"it is priced by {facts.unit!r}, not by the hour")
    if len(facts.tiers) != 1:
        raise _NotUnderstood(f"it has {len(facts.tiers)} tiers of prices, not one")
    (tier,) = facts.tiers
    if tier.starts_at != "0":
        raise _NotUnderstood(f"its price begins at a usage of {tier.starts_at}, not at 0")
    if tier.currency != "USD":
        raise _NotUnderstood(f"it is priced in {tier.currency or 'no currency'}, not in USD")
    nanos = tier.units * NANOS + tier.nanos
    if tier.nanos >= NANOS or nanos <= 0 or min(tier.units, tier.nanos) < 0:
        raise _NotUnderstood(f"a price of {tier.units} and {tier.nanos} billionths cannot be")
    if nanos > MAX_NANOS_PER_UNIT:
        raise _NotUnderstood(f"{tier.units} dollars an hour is more than any chip costs")
    return nanos


def _per_chip(nanos: int) -> int:
    chip, rest = divmod(nanos, CHIPS_PER_DEVICE)
    if rest:
        raise _NotUnderstood("a device's price is no whole number of nano-dollars for each chip")
    return chip


def _split_by_agreement(quotes: Iterable[SkuQuote]) -> tuple[list[SkuQuote], list[UnreadSku]]:
    """One quote for each SKU of ours, and the quotes of SKUs with several prices."""
    by_sku: dict[Sku, list[SkuQuote]] = defaultdict(list)
    for quote in quotes:
        by_sku[quote.sku].append(quote)
    agreed, contradicted = [], []
    for sku, same_sku in by_sku.items():
        if len({quote.nanos for quote in same_sku}) == 1:
            agreed.append(min(same_sku, key=lambda quote: (quote.effective_at, quote.sku_id)))
            continue
        for quote in same_sku:
            others = ", ".join(other.sku_id for other in same_sku if other is not quote)
            why = f"{others} says another price for {sku.generation} {sku.model} in {sku.region}"
            contradicted.append(UnreadSku(quote.sku_id, quote.description, why))
    return agreed, contradicted
