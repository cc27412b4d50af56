"""Parses the SKU descriptions of Google's bill into TPU generation and provisioning model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

COMPUTE, CLOUD_TPU = "6F81-5844-456A", "E000-3F24-B8AA"
"""Compute Engine, which sells v5e and later, and the older Cloud TPU service (`pricing.md` 4)."""

COMMITMENT = "commitment"
"""A fee for a term, used or not. A fee has no resource, and is not usage."""

_DEVICE_CHIPS = 4
_FAMILY = r"(?:T[Pp][Uu]-?)?[Vv]?(\d[a-z]{0,2})"
_TPU_FAMILY = r"T[Pp][Uu]-?[Vv]?(\d[a-z]{0,2})"
_FORMS = [
    (re.compile(rf"(?:Capacity Optimized )?{_TPU_FAMILY} running in "), "on_demand"),
    (re.compile(rf"{_TPU_FAMILY} attached to Spot Preemptible VMs"), "spot"),
    (re.compile(rf"DWS Defined Duration {_FAMILY} running in "), "flex_start"),
    (re.compile(rf"Reserved {_FAMILY}(?: TPU)? in .+ in Calendar Mode"), "reserved"),
    (re.compile(rf"Commitment v\d: {_TPU_FAMILY}(?: Pod)?\b"), COMMITMENT),
]
_LEGACY = re.compile(r"(?:Preemptible )?T[Pp][Uu]-v(\d)\b.*\bAccelerator")
_TPU = re.compile(r"\bT[Pp][Uu](?=[^a-z]|v|$)")
_PLACE = re.compile(r"\bin ([^:]+?)(?: for \d+ Years?)?$")
_TERM = re.compile(r"\b(\d) Years?\b")


@dataclass(frozen=True, slots=True)
class BillSku:
    """A TPU on the bill. `generation` and `model` are empty for a description of unknown form;
    `chips` is the number of chips in one unit of the price."""

    generation: str
    model: str
    chips: int = 1


@lru_cache(4_096)
def tpu_sku(service: str, description: str) -> BillSku | None:
    """Return the TPU that a SKU on the bill sells; None for another product.

    The patterns match the start of the description: five other SKUs share chip and region.
    """
    if service not in (COMPUTE, CLOUD_TPU):
        return None
    for form, model in _FORMS:
        if found := form.match(description):
            return BillSku(_parse_generation(found[1]), model)
    if service == COMPUTE:
        return BillSku("", "") if _TPU.search(description) else None
    if found := _LEGACY.match(description):
        model = "preemptible" if "Preemptible" in description else "on_demand"
        return BillSku(_parse_generation(found[1]), model, _DEVICE_CHIPS)
    return BillSku("", COMMITMENT if description.startswith("Commitment") else "")


@lru_cache(4_096)
def place_of(description: str) -> str:
    """Return the place in the description of a SKU on the bill. It is a city (`Columbus`) or a
    continent (`Americas`); empty without a place."""
    found = _PLACE.search(description)
    return found[1] if found else ""


@lru_cache(4_096)
def term_of(description: str) -> int:
    """Return the years of a commitment by the SKU's description on the bill; 0 where it has
    none."""
    found = _TERM.search(description)
    return int(found[1]) if found else 0


def _parse_generation(family: str) -> str:
    return "v7" if family == "7x" else f"v{family}"
