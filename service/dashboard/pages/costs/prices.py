"""The page of prices: the list price and the paid price of a chip or machine, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from service.application.pricing.prices import PriceQuery
from service.application.services import Services
from service.dashboard.kit.figures import Moment, format_exact, to_moment
from service.dashboard.kit.links import FilterLink
from service.domain.catalog import catalog
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.errors import Rejected
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import (
    CHIP_HOUR,
    DEVICE_HOUR,
    VM_HOUR,
    DiscountedPrice,
    Price,
    row_of,
)


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price in words; `paid` and `discount` are empty if there is no discount."""

    anchor: str
    generation: str
    model: str
    region: str
    unit: str
    listed: str
    paid: str
    discount: str
    discount_source: str
    since: Moment
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class DiscountRow:
    """One discount in words."""

    percent: str
    what: str
    since: Moment
    until: Moment | None
    source: str


@dataclass(frozen=True, slots=True)
class PricesPage:
    """Everything on the page. `now` is True if the address names no other instant."""

    at: Moment
    now: bool
    asked: Mapping[str, str]
    generations: tuple[FilterLink, ...]
    rows: tuple[PriceRow, ...]
    discounts: tuple[DiscountRow, ...]
    json: str
    discounts_json: str


def build_prices_page(services: Services, asked: Mapping[str, str]) -> PricesPage:
    """The prices in force at an instant. `asked` has the parameters of the address, which are those
    of the API. Raises Rejected for an invalid instant or an unknown generation."""
    if asked["at"]:
        try:
            at = parse_instant_or_date(asked["at"])
        except ValueError as error:
            raise Rejected(f"{asked['at'][:80]!r} is no date: {error}", field="at") from None
    else:
        at = services.health.read_fleet().as_of
    generation = asked["generation"]
    query = PriceQuery(at, generation, asked["provisioning_model"], asked["region"])
    exactly = {**asked, "at": to_rfc3339(at)}
    choices = dict.fromkeys(("", *catalog.load_catalog().generations, generation))
    return PricesPage(
        at=to_moment(at),
        now=not asked["at"],
        asked=asked,
        generations=tuple(
            FilterLink(
                choice or "all",
                _address_with("/prices", {**asked, "generation": choice}),
                choice == generation,
            )
            for choice in choices
        ),
        rows=tuple(_build_price_row(price) for price in services.prices.list_in_force(query)),
        discounts=tuple(
            _build_discount_row(discount) for discount in services.prices.discounts.list_all(at)
        ),
        json=_address_with("/v1/prices", exactly),
        discounts_json=_address_with("/v1/prices/discounts", {"at": exactly["at"]}),
    )


def address_of_price(price: Price, at: int) -> str:
    """The address of a price's row among the prices that were in force at that second."""
    listed = row_of(price)
    asked = {
        "at": to_rfc3339(at),
        "generation": listed.generation,
        "provisioning_model": listed.model,
        "region": listed.region,
    }
    return f"{_address_with('/prices', asked)}#{quote(_anchor_of(listed), safe='')}"


def _address_with(path: str, asked: Mapping[str, str]) -> str:
    return f"{path}?{urlencode({name: value for name, value in asked.items() if value})}"


def _anchor_of(price: Price) -> str:
    return f"price-{price.id}"


def _build_price_row(price: Price) -> PriceRow:
    taken = price.discount if isinstance(price, DiscountedPrice) else None
    listed = row_of(price)
    return PriceRow(
        anchor=_anchor_of(listed),
        generation=listed.generation,
        model=listed.model,
        region=listed.region,
        unit=_UNITS[listed.unit],
        listed=format_exact(listed.nanos),
        paid=format_exact(price.nanos) if taken else "",
        discount=f"{taken.percent} %" if taken else "",
        discount_source=taken.source if taken else "",
        since=to_moment(listed.effective_from),
        source=listed.source,
        confidence=listed.confidence,
    )


_UNITS = {CHIP_HOUR: "a chip-hour", DEVICE_HOUR: "a device-hour", VM_HOUR: "an hour"}


def _build_discount_row(discount: Discount) -> DiscountRow:
    until = discount.effective_until
    return DiscountRow(
        percent=f"{discount.percent} %",
        what=discount.what,
        since=to_moment(discount.effective_from),
        until=None if until is None else to_moment(until),
        source=discount.source,
    )
