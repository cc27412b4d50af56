"""The calls of `google.cloud.billing.v1.CloudCatalog`: services, SKUs and their prices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import read_token, size_of, write_token
from service.emulator.clock import to_timestamp
from service.emulator.errors import ApiError, Code, not_found
from service.emulator.names import malformed_name
from service.emulator.telemetry import skus
from service.emulator.telemetry.chip_prices import PriceStep
from service.emulator.telemetry.messages import Billing
from service.emulator.telemetry.requests import parse_moment
from service.emulator.telemetry.skus import Sku
from service.emulator.wire import NodeMessage

MAX_SIZE = 5000
NANOS = 1_000_000_000
# The exchange rate of a dollar, which never changes.
CURRENCIES = {"USD": "1", "EUR": "0.92", "GBP": "0.79", "JPY": "150", "CHF": "0.88", "INR": "84"}
UNITS = {
    "h": ("hour", "s", "second", 3600.0),
    "GiBy.h": ("gibibyte hour", "By.s", "byte second", 3600.0 * 2**30),
    "GiBy.mo": ("gibibyte month", "By.s", "byte second", 2_592_000.0 * 2**30),
    "GiBy": ("gibibyte", "By", "byte", 2.0**30),
}
REGIONAL, MULTI_REGIONAL = 2, 3
T = TypeVar("T")


def list_services(call: Call) -> NodeMessage:
    others = {_made_id(name): name for name in skus.OTHER_SERVICES}
    found = sorted({**others, **skus.SERVICES}.items())
    shown, token = _cut_page(call, found, lambda item: item[0], "services")
    services = [
        Billing.Service(
            name=f"services/{key}",
            service_id=key,
            display_name=name,
            business_entity_name="businessEntities/GCP",
        )
        for key, name in shown
    ]
    return Billing.ListServicesResponse(services=services, next_page_token=token)


def list_skus(call: Call) -> NodeMessage:
    """List the SKUs of a service with the price in force or, for a time span, all its prices."""
    request = call.request
    collection, _, service = request.parent.partition("/")
    if collection != "services" or not service or "/" in service:
        raise malformed_name("parent", request.parent, "services/*")
    if service not in {*skus.SERVICES, *map(_made_id, skus.OTHER_SERVICES)}:
        raise not_found(request.parent)
    currency = request.currency_code or "USD"
    if currency not in CURRENCIES:
        raise ApiError(Code.INVALID_ARGUMENT, f"Invalid currency code: {currency}.")
    start = end = call.now
    if request.HasField("start_time") or request.HasField("end_time"):
        if not (request.HasField("start_time") and request.HasField("end_time")):
            text = "Start time and end time must be given together."
            raise ApiError(Code.INVALID_ARGUMENT, text)
        start = parse_moment("startTime", request.start_time)
        end = parse_moment("endTime", request.end_time)
        if not start <= end:
            raise ApiError(Code.INVALID_ARGUMENT, "The start time is later than the end time.")
        # Future prices are not shown.
        start, end = min(start, call.now), min(end, call.now)
    found = skus.list_skus(service, call.world.config.prices)
    of = f"skus of {request.parent}\n{currency}\n{request.start_time}\n{request.end_time}"
    shown, token = _cut_page(call, found, lambda sku: sku.id, of)
    messages = [_describe_sku(sku, (*in_force(sku.steps, start, end),), currency) for sku in shown]
    return Billing.ListSkusResponse(skus=messages, next_page_token=token)


def in_force(steps: Sequence[PriceStep], start: float, end: float) -> Sequence[PriceStep]:
    """Return the prices of a time span, the one in force at its start first."""
    begun = [step for step in steps if step.at <= start]
    later = [step for step in steps if start < step.at < end]
    # A listed SKU always has a price, at least a future one.
    return [*begun[-1:], *later] or steps[:1]


def _cut_page(
    call: Call, items: Sequence[T], key: Callable[[T], str], of: str
) -> tuple[Sequence[T], str]:
    request = call.request
    limit = size_of(request.page_size, MAX_SIZE, MAX_SIZE)
    after = read_token(request.page_token, of) if request.page_token else ""
    rest = [item for item in items if key(item) > after]
    shown = rest[:limit]
    return shown, write_token(key(shown[-1]), of) if len(rest) > limit else ""


@lru_cache(maxsize=4 * MAX_SIZE)  # clients poll the list, and each response holds a copy
def _describe_sku(sku: Sku, steps: tuple[PriceStep, ...], currency: str) -> NodeMessage:
    unit, base, base_name, factor = UNITS[sku.unit]
    pricing = []
    for step in steps:
        nanos = int(Decimal(step.usd) * Decimal(CURRENCIES[currency]) * NANOS)
        # Whole units and billionths both have the sign of the price.
        units, rest = divmod(abs(nanos), NANOS)
        sign = -1 if nanos < 0 else 1
        price = {"currency_code": currency, "units": sign * units, "nanos": sign * rest}
        described = Billing.PricingInfo(
            effective_time=to_timestamp(step.at),
            currency_conversion_rate=float(CURRENCIES[currency]),
            pricing_expression={
                "usage_unit": sku.unit,
                "usage_unit_description": unit,
                "base_unit": base,
                "base_unit_description": base_name,
                "base_unit_conversion_factor": factor,
                "display_quantity": 1,
                "tiered_rates": [{"unit_price": price}],
            },
        )
        pricing.append(described)

    return Billing.Sku(
        name=f"services/{sku.service}/skus/{sku.id}",
        sku_id=sku.id,
        description=sku.description,
        category={
            "service_display_name": skus.SERVICES[sku.service],
            "resource_family": "Network" if sku.unit == "GiBy" else "Compute",
            "resource_group": sku.group,
            "usage_type": sku.usage_type,
        },
        service_regions=sku.regions,
        pricing_info=pricing,
        service_provider_name="Google",
        geo_taxonomy={
            "type_": MULTI_REGIONAL if len(sku.regions) > 1 else REGIONAL,
            "regions": sku.regions,
        },
    )


def _made_id(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest().upper()
    return f"{digest[:4]}-{digest[4:8]}-{digest[8:12]}"
