"""The four FOCUS cells of a SKU: SkuId, SkuMeter, SkuPriceId and SkuPriceDetails. Pure."""

from __future__ import annotations

import re

from service.domain.clock import to_rfc3339
from service.domain.costs.charge import ChargeKind, Resource, flat_json
from service.domain.pricing.price_book import (
    DEVICE_HOUR,
    Price,
    row_of,
    series_of,
    without_reservation,
)

Cells = tuple[str, str, str, str]

_SKU = re.compile(r"(?<![0-9A-F-])[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}(?![0-9A-F-])")
_SERVICES = frozenset({"6F81-5844-456A", "E000-3F24-B8AA"})
"""Service ids of Compute Engine and Cloud TPU in the Cloud Billing Catalog; they look like SKUs."""


def sku_of(price: Price) -> str:
    """The FOCUS id of a SKU: Google's if the source of the price names it, else our own.

    Our own id has the generation or machine type, the model and the region, and `device` if that is
    the unit. The id is that of the price list, independent of discounts and reservations.
    """
    listed = row_of(price)
    for found in _SKU.findall(listed.source):
        if found not in _SERVICES:
            return str(found)
    ours = f"{price.generation}/{series_of(price.model)}/{price.region}"
    return f"{ours}/device" if price.unit == DEVICE_HOUR else ours


def format_cells(price: Price, kind: ChargeKind) -> Cells:
    """The FOCUS cells of the SKU of a price that was paid for a resource of a kind.

    A reservation is paid at the list price. Other columns name the reservation, so withdrawing its
    record changes no line of a closed month.
    """
    price = without_reservation(price)
    details = {
        "x_EffectiveFrom": to_rfc3339(price.effective_from),
        _generation_key(kind): price.generation,
        "x_PriceRegion": price.region,
        "x_PriceSource": price.source,
        "x_ProvisioningModel": price.model,
    }
    return sku_of(price), _meter_name(price.generation, kind), price.id, flat_json(details)


def format_unknown_cells(resource: Resource, price_id: str) -> Cells:
    """The FOCUS cells of a SKU whose price is no longer in the price book. They follow from the SKU
    that was charged."""
    model = series_of(resource.model)
    sku = f"{resource.generation}/{model}/{resource.region}"
    details = {_generation_key(resource.kind): resource.generation, "x_ProvisioningModel": model}
    meter = _meter_name(resource.generation, resource.kind)
    return sku, meter, f"{sku}/{price_id}", flat_json(details)


def _generation_key(kind: ChargeKind) -> str:
    return "x_MachineType" if kind is ChargeKind.MACHINE else "x_Generation"


def _meter_name(generation: str, kind: ChargeKind) -> str:
    return (
        f"Time of {generation}" if kind is ChargeKind.MACHINE else f"Chip time of TPU {generation}"
    )
