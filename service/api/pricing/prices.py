"""The price book over HTTP: what a chip or a machine costs, where that is known from, and new
prices."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from fastapi import Query, Response
from pydantic import Field, field_validator

from service.api.http.deps import PricesDep
from service.api.http.idempotency import HIT, IdempotencyKey, key_of, mark_repeat
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Body,
    Instant,
    Line,
    Name,
    Page,
    PageQuery,
    Time,
    Usd,
    UsdText,
    View,
    schema_extra,
    whole_pattern,
)
from service.application.pricing.prices import PriceQuery
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.money import format_usd, parse_usd
from service.domain.pricing.discounts import PERCENT
from service.domain.pricing.price_book import DiscountedPrice, Price, row_of, without_reservation

router = Router(prefix="/v1/prices", tags=["costs"])

Unit = Literal["chip_hour", "device_hour", "vm_hour"]
Sold = Literal["on_demand", "spot", "preemptible", "reserved", "flex_start", "calendar"]
"""How something with a price is bought: as nodes are, or for a reservation by the calendar."""

Share = Annotated[str, schema_extra(pattern=whole_pattern(PERCENT))]
"""Percentage of a discount, as a decimal string."""

_UNITS: dict[str, Unit] = {unit: unit for unit in get_args(Unit)}


class PricesQuery(PageQuery):
    """Which prices to list."""

    at: Instant | None = Field(
        default=None,
        description="Those in force at this instant or on this date; now by default.",
        examples=["2026-11-01"],
    )
    generation: Name = Field(
        default="", description="Only this generation, or this machine type.", examples=["v5e"]
    )
    provisioning_model: Name = Field(
        default="", description="Only this model; spot covers preemptible.", examples=["spot"]
    )
    region: Name = Field(
        default="",
        description="Only this region, or what its group costs where it has no price of its own.",
        examples=["us-west4"],
    )

    def to_question(self) -> PriceQuery:
        """The question in terms of the application."""
        at = None if self.at is None else parse_instant_or_date(self.at)
        return PriceQuery(at, self.generation, self.provisioning_model, self.region)


class PriceRequest(Body):
    """A price that is known better than the price book does."""

    generation: Name = Field(
        description="A generation of TPUs, or with unit vm_hour a machine type: n1-standard-8.",
        examples=["v5e"],
    )
    provisioning_model: Sold = Field(
        description="Of a machine type on_demand or spot; calendar is the price of a calendar-"
        "mode reservation.",
        examples=["on_demand"],
    )
    region: Annotated[Name, Field(min_length=1)] = Field(
        description="A region of Google's, or whatever the price book knows.",
        examples=["us-west4"],
    )
    unit: Unit = Field(
        default="chip_hour",
        description="device_hour: one-host types of v2 and v3 alone. vm_hour: a machine type, such"
        " as drives a legacy TPU Node.",
    )
    usd: UsdText = Field(description="Dollars per unit, as a decimal string.", examples=["1.20"])
    currency: Name = Field(default="USD", description="Only USD is known.", examples=["USD"])
    effective_from: Instant | None = Field(
        default=None,
        description="Now by default; earlier only where no price was known.",
        examples=["2026-12-01"],
    )
    source: Annotated[Line, Field(min_length=1)] = Field(
        default="entered by hand", description="Where it is known from.", examples=["our contract"]
    )
    confidence: Line = Field(default="manual", examples=["contract"])

    @field_validator("currency")
    @classmethod
    def _check_currency(cls, text: str) -> str:
        if text != "USD":
            raise ValueError(f"prices are stored in USD; convert it, {text!r} is not known")
        return text

    def to_price(self) -> Price:
        """The price in terms of the domain. `effective_from` 0 is now."""
        return Price(
            id="",
            generation=self.generation,
            model=self.provisioning_model,
            unit=self.unit,
            region=self.region,
            nanos=parse_usd(self.usd),
            effective_from=0
            if self.effective_from is None
            else parse_instant_or_date(self.effective_from),
            source=self.source,
            confidence=self.confidence,
        )


class TakenOff(View):
    """A negotiated discount on a price, and what is paid with it."""

    id: str = Field(description="See GET /v1/prices/discounts.")
    percent: Share = Field(examples=["12.5"])
    usd: Usd = Field(description="Dollars per unit that are paid, with nine places.")
    source: str


class PriceView(View):
    """One row of the price book, and the discount on it, if one is in force."""

    id: str = Field(examples=["v5e/on_demand/chip_hour/us-west4/2024-06-11"])
    generation: str = Field(examples=["v5e"])
    provisioning_model: str = Field(examples=["on_demand"])
    unit: Unit
    region: str = Field(description="A region, or a group of them.", examples=["us-west4"])
    usd: Usd = Field(description="Dollars per unit at list price, with nine places.")
    discount: TakenOff | None = Field(description="Null where nothing is taken off.")
    effective_from: Time
    source: str = Field(description="Where it is known from.")
    confidence: str = Field(examples=["hand-copied"])

    @classmethod
    def from_price(cls, price: Price) -> PriceView:
        """The view of a price: its list price and the discount on it. For the price of a
        reservation, the price without the reservation."""
        listed, paid = row_of(price), without_reservation(price)
        discount = None
        if isinstance(paid, DiscountedPrice):
            off = paid.discount
            discount = TakenOff(
                id=off.id, percent=off.percent, usd=format_usd(paid.nanos), source=off.source
            )
        return cls(
            id=listed.id,
            generation=listed.generation,
            provisioning_model=listed.model,
            unit=_UNITS[listed.unit],
            region=listed.region,
            usd=format_usd(listed.nanos),
            discount=discount,
            effective_from=to_rfc3339(listed.effective_from),
            source=listed.source,
            confidence=listed.confidence,
        )


_ENTERED: dict[int | str, dict[str, Any]] = {201: {"model": PriceView, "headers": HIT}}


class PricePage(Page):
    """A page of prices."""

    prices: tuple[PriceView, ...]


@router.get("", operation_id="list_prices", responses=may_answer(422))
def list_prices(prices: PricesDep, query: Annotated[PricesQuery, Query()]) -> PricePage:
    """The list prices in force at a given time, by generation, model, unit and region, each with
    the negotiated discount that is in force then."""
    found, token = query.cut_page(prices.list_in_force(query.to_question()))
    return PricePage(prices=tuple(map(PriceView.from_price, found)), next_page_token=token)


@router.post(
    "",
    status_code=201,
    operation_id="add_price",
    responses=_ENTERED | may_answer(400, 409, 413, 415, 422),
)
def add_price(
    body: PriceRequest,
    prices: PricesDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> PriceView:
    """Enter a price by hand, for the time to come; it never rewrites the past.

    It stands until the price feed lists one that began after it, which then replaces it. What was
    negotiated on the list price, whatever that becomes, is a discount: `/v1/prices/discounts`.
    """
    entered = prices.add(body.to_price(), key_of(idempotency_key, body))
    mark_repeat(response, created=entered.created)
    return PriceView.from_price(entered.price)
