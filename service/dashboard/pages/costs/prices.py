"""The page of prices: the list price and the paid price of a chip or machine, and their sources.

Without a question in the address, the page shows the prices of what is in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from service.application.costs.costs import CostQuestion
from service.application.pricing.prices import PriceQuery
from service.application.services import Services
from service.dashboard.kit.figures import Moment, format_exact, to_moment
from service.dashboard.kit.links import FilterLink
from service.domain.catalog import catalog
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.errors import Rejected
from service.domain.pricing.price_book import (
    CHIP_HOUR,
    DEVICE_HOUR,
    VM_HOUR,
    DiscountedPrice,
    Price,
    row_of,
)
from service.domain.time_window import Granularity

SHOWN = 50
"""The most prices on one page."""

ALL = "all"
"""The value of `show` in the address that stands for every price, in use or not."""

_QUESTIONS = ("at", "generation", "provisioning_model", "region")
_USED_IN = "30d"


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
    """Everything on the page. `now` is True if the address names no other instant, `in_use` if the
    page shows only the prices of what is in use. `total` counts the prices of all pages.
    `discounts_json` is empty if no discount is in force."""

    at: Moment
    now: bool
    in_use: bool
    asked: Mapping[str, str]
    generations: tuple[FilterLink, ...]
    rows: tuple[PriceRow, ...]
    first: int
    total: int
    pages: Sequence[FilterLink]
    discounts: tuple[DiscountRow, ...]
    json: str
    discounts_json: str


def build_prices_page(services: Services, asked: Mapping[str, str]) -> PricesPage:
    """The prices in force at an instant. `asked` has the parameters of the address: those of the
    API, `show`, and `page`. Raises Rejected for an invalid instant or an unknown generation."""
    if asked["at"]:
        try:
            at = parse_instant_or_date(asked["at"])
        except ValueError as error:
            raise Rejected(f"{asked['at'][:80]!r} is no date: {error}", field="at") from None
    else:
        at = services.health.read_fleet().as_of
    question = {name: asked[name] for name in _QUESTIONS}
    in_use = asked.get("show") != ALL and not any(question.values())
    generation = question["generation"]
    query = PriceQuery(at, generation, question["provisioning_model"], question["region"])
    found = services.prices.list_in_force(query)
    if in_use:
        # The prices in force of all hardware that ran in the last 30 days.
        by = ("generation", "provisioning_model", "region")
        used = {
            price.id
            for row in services.costs.report(CostQuestion(_USED_IN, by, Granularity.ALL)).rows
            for price in services.prices.list_in_force(PriceQuery(at, *row.group))
        }
        found = [price for price in found if price.id in used]
    page, last = asked.get("page", ""), max(1, -(-len(found) // SHOWN))
    # The first page if the text is no number, the last page if the number is too high.
    number = min(last, max(1, int(page))) if page.isdecimal() and len(page) < 6 else 1
    first = (number - 1) * SHOWN
    exactly = {**question, "at": to_rfc3339(at)}
    discounts = tuple(
        DiscountRow(
            percent=f"{discount.percent} %",
            what=discount.what,
            since=to_moment(discount.effective_from),
            until=None if discount.effective_until is None else to_moment(discount.effective_until),
            source=discount.source,
        )
        for discount in services.prices.discounts.list_all(at)
    )
    return PricesPage(
        at=to_moment(at),
        now=not asked["at"],
        in_use=in_use,
        asked=question,
        generations=_list_choices(question, in_use=in_use),
        rows=tuple(map(_build_price_row, found[first : first + SHOWN])),
        first=first + 1,
        total=len(found),
        pages=_list_pages(question, number, len(found), in_use=in_use),
        discounts=discounts,
        json=_address_with("/v1/prices", exactly),
        discounts_json=_address_with("/v1/prices/discounts", {"at": exactly["at"]})
        if discounts
        else "",
    )


def _list_choices(question: Mapping[str, str], *, in_use: bool) -> tuple[FilterLink, ...]:
    """The menu: what is in use, everything, and each generation."""
    generation = question["generation"]
    known = dict.fromkeys((*catalog.load_catalog().generations, *filter(None, (generation,))))
    everything = _address_with("/prices", {**question, "generation": "", "show": ALL})
    return (
        FilterLink("in use", "/prices", in_use),
        FilterLink("all", everything, not in_use and not generation),
        *(
            FilterLink(
                choice,
                _address_with("/prices", {**question, "generation": choice}),
                choice == generation,
            )
            for choice in known
        ),
    )


def _list_pages(
    question: Mapping[str, str], number: int, total: int, *, in_use: bool
) -> Sequence[FilterLink]:
    """Links to the pages; none if there is only one."""
    show = "" if in_use else ALL
    pages = range(1, -(-total // SHOWN) + 1)
    if len(pages) < 2:
        return ()
    return tuple(
        FilterLink(
            str(page),
            _address_with("/prices", {**question, "show": show, "page": str(page)}),
            page == number,
        )
        for page in pages
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
        confidence="" if listed.confidence in listed.source else listed.confidence,
    )


_UNITS = {CHIP_HOUR: "a chip-hour", DEVICE_HOUR: "a device-hour", VM_HOUR: "an hour"}
