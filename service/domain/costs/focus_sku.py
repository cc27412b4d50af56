"""What an export says of a SKU and its price, in four cells: SkuId, SkuMeter, SkuPriceId and
SkuPriceDetails of FOCUS. Pure."""

from __future__ import annotations

import re

from service.domain.clock import rfc3339
from service.domain.costs.charge import ChargeKind, Resource, flat_json
from service.domain.pricing.price_book import DEVICE_HOUR, Price, series_of
from service.domain.pricing.sellable import row_of, without_reservation

Cells = tuple[str, str, str, str]

_SKU = re.compile(r"(?<![0-9A-F-])[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}(?![0-9A-F-])")
_SERVICES = frozenset({"6F81-5844-456A", "E000-3F24-B8AA"})
"""Compute Engine and Cloud TPU in the Cloud Billing Catalog: spelled like SKUs, but none."""


def sku_of(price: Price) -> str:
    """Google's id of the SKU where the source of the price names it, else a stable one of ours: the
    generation or the machine type, the model and the region, and `device` where that is the unit.

    It is that of the price list, whatever was taken off, and whatever it was paid for.
    """
    listed = row_of(price)
    for found in _SKU.findall(listed.source):
        if found not in _SERVICES:
            return str(found)
    ours = f"{price.generation}/{series_of(price.model)}/{price.region}"
    return f"{ours}/device" if price.unit == DEVICE_HOUR else ours


def of(price: Price, kind: ChargeKind) -> Cells:
    """The cells of what was paid for a resource of that kind.

    What is paid for a reservation is paid at the price of the list: which reservation it was stands
    elsewhere, and a record of one that is withdrawn changes no line of a month that is closed.
    """
    price = without_reservation(price)
    details = {
        "x_EffectiveFrom": rfc3339(price.effective_from),
        _what(kind): price.generation,
        "x_PriceRegion": price.region,
        "x_PriceSource": price.source,
        "x_ProvisioningModel": price.model,
    }
    return sku_of(price), _meter(price.generation, kind), price.id, flat_json(details)


def of_unknown(resource: Resource, price_id: str) -> Cells:
    """A price that no book knows is one of the SKU that was charged, and of no other."""
    model = series_of(resource.model)
    sku = f"{resource.generation}/{model}/{resource.region}"
    details = {_what(resource.kind): resource.generation, "x_ProvisioningModel": model}
    meter = _meter(resource.generation, resource.kind)
    return sku, meter, f"{sku}/{price_id}", flat_json(details)


def _what(kind: ChargeKind) -> str:
    return "x_MachineType" if kind is ChargeKind.MACHINE else "x_Generation"


def _meter(generation: str, kind: ChargeKind) -> str:
    return (
        f"Time of {generation}" if kind is ChargeKind.MACHINE else f"Chip time of TPU {generation}"
    )
