"""The page of prices: what a chip or a machine costs at an instant, what is paid of it, and who
says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from service.application.pricing.prices import PriceQuery
from service.application.services import Services
from service.dashboard.kit.figures import Moment, exact, moment
from service.dashboard.kit.links import FilterLink
from service.domain.catalog import catalog
from service.domain.clock import instant, rfc3339
from service.domain.errors import Rejected
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import (
    CHIP_HOUR,
    DEVICE_HOUR,
    VM_HOUR,
    DiscountedPrice,
    Price,
)
from service.domain.pricing.sellable import row_of


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price in words; `paid` and `discount` are empty where nothing is taken off."""

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
    """Everything on the page. `now` says that nobody asked for another instant."""

    at: Moment
    now: bool
    asked: Mapping[str, str]
    generations: tuple[FilterLink, ...]
    rows: tuple[PriceRow, ...]
    discounts: tuple[DiscountRow, ...]
    json: str
    discounts_json: str


def prices_of(services: Services, asked: Mapping[str, str]) -> PricesPage:
    """The prices in force at an instant. `asked` has the parameters of the address, those of the
    API. Raises Rejected for what is no instant and no generation."""
    at = _instant(asked["at"]) if asked["at"] else services.health.fleet().as_of
    query = PriceQuery(at, asked["generation"], asked["provisioning_model"], asked["region"])
    exactly = {**asked, "at": rfc3339(at)}
    return PricesPage(
        at=moment(at),
        now=not asked["at"],
        asked=asked,
        generations=tuple(_choices(asked)),
        rows=tuple(_row(price) for price in services.prices.in_force(query)),
        discounts=tuple(_discount(one) for one in services.prices.discounts.all(at)),
        json=_address("/v1/prices", exactly),
        discounts_json=_address("/v1/prices/discounts", {"at": exactly["at"]}),
    )


def address_of(price: Price, at: int) -> str:
    """Where the row of a price stands among those that were in force at that second."""
    listed = row_of(price)
    asked = {
        "at": rfc3339(at),
        "generation": listed.generation,
        "provisioning_model": listed.model,
        "region": listed.region,
    }
    return f"{_address('/prices', asked)}#{quote(_anchor(listed), safe='')}"


def _address(path: str, asked: Mapping[str, str]) -> str:
    return f"{path}?{urlencode({name: value for name, value in asked.items() if value})}"


def _instant(text: str) -> int:
    try:
        return instant(text)
    except ValueError as error:
        raise Rejected(f"{text[:80]!r} is no date: {error}", field="at") from None


def _choices(asked: Mapping[str, str]) -> Iterable[FilterLink]:
    known = ("", *catalog.load().generations)
    asked_too = () if asked["generation"] in known else (asked["generation"],)
    for generation in (*known, *asked_too):
        address = _address("/prices", {**asked, "generation": generation})
        yield FilterLink(generation or "all", address, generation == asked["generation"])


def _anchor(price: Price) -> str:
    return f"price-{price.id}"


def _row(price: Price) -> PriceRow:
    taken = price.discount if isinstance(price, DiscountedPrice) else None
    listed = row_of(price)
    return PriceRow(
        anchor=_anchor(listed),
        generation=listed.generation,
        model=listed.model,
        region=listed.region,
        unit=_UNITS[listed.unit],
        listed=exact(listed.nanos),
        paid=exact(price.nanos) if taken else "",
        discount=f"{taken.percent} %" if taken else "",
        discount_source=taken.source if taken else "",
        since=moment(listed.effective_from),
        source=listed.source,
        confidence=listed.confidence,
    )


_UNITS = {CHIP_HOUR: "a chip-hour", DEVICE_HOUR: "a device-hour", VM_HOUR: "an hour"}


def _discount(one: Discount) -> DiscountRow:
    return DiscountRow(
        percent=f"{one.percent} %",
        what=one.what,
        since=moment(one.effective_from),
        until=None if one.effective_until is None else moment(one.effective_until),
        source=one.source,
    )
