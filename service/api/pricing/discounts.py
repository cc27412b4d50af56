"""Routes of negotiated discounts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
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
    View,
    time_or_none,
)
from service.api.pricing.prices import Share, Sold
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.pricing.discounts import Discount, parse_percent

router = Router(prefix="/v1/prices/discounts", tags=["costs"])

DiscountId = Annotated[
    str, Path(pattern=r"^[0-9a-f-]{36}$", description="Its id, from the list of discounts.")
]


class DiscountsQuery(PageQuery):
    """Which discounts to list."""

    at: Instant | None = Field(
        default=None,
        description="Only those in force at this instant, or at the first one of this date; all by"
        " default, also those that are over and those to come.",
        examples=["2026-11-01"],
    )


class DiscountRequest(Body):
    """A discount that was negotiated."""

    percent: Share = Field(
        max_length=20,
        description="What is taken off the list price, as a decimal string with at most four"
        " places: more than 0, less than 100.",
        examples=["12.5"],
    )
    generation: Name = Field(
        default="",
        description="A generation of TPUs, or a machine type; empty is any of TPUs.",
        examples=["v5e"],
    )
    provisioning_model: Sold | None = Field(
        default=None,
        description="Null is any; spot and preemptible are the same.",
        examples=["on_demand"],
    )
    effective_from: Instant | None = Field(
        default=None, description="Now by default, never earlier.", examples=["2026-12-01"]
    )
    effective_until: Instant | None = Field(
        default=None,
        description="When it ends, exclusive; without end by default.",
        examples=["2027-12-01"],
    )
    source: Annotated[Line, Field(min_length=1)] = Field(
        default="entered by hand", description="Where it is known from.", examples=["our contract"]
    )

    @field_validator("percent")
    @classmethod
    def _check_percent(cls, text: str) -> str:
        parse_percent(text)
        return text

    def to_discount(self) -> Discount:
        """The discount in terms of the domain. `effective_from` 0 is now."""
        return Discount(
            id="",
            generation=self.generation,
            model=self.provisioning_model or "",
            ppm=parse_percent(self.percent),
            effective_from=0
            if self.effective_from is None
            else parse_instant_or_date(self.effective_from),
            effective_until=_parse_instant(self.effective_until),
            source=self.source,
        )


class EndRequest(Body):
    """When a discount is to end."""

    effective_until: Instant | None = Field(
        default=None, description="Now by default, never earlier.", examples=["2026-12-01"]
    )


class DiscountView(View):
    """A discount: what it is for, how much it is, and from when until when."""

    id: str
    percent: Share = Field(examples=["12.5"])
    generation: str = Field(description="Empty is any of TPUs.", examples=["v5e"])
    provisioning_model: str = Field(
        description="Empty is any; spot covers preemptible.", examples=["on_demand"]
    )
    effective_from: Time
    effective_until: Time | None = Field(
        description="When it ends, exclusive; null is without end."
    )
    source: str = Field(description="Where it is known from.")
    recorded_at: Time

    @classmethod
    def from_discount(cls, discount: Discount) -> DiscountView:
        """The view of a discount."""
        until = discount.effective_until
        return cls(
            id=discount.id,
            percent=discount.percent,
            generation=discount.generation,
            provisioning_model=discount.model,
            effective_from=to_rfc3339(discount.effective_from),
            effective_until=time_or_none(until),
            source=discount.source,
            recorded_at=to_rfc3339(discount.recorded_at),
        )


_ENTERED: dict[int | str, dict[str, Any]] = {201: {"model": DiscountView, "headers": HIT}}


class DiscountPage(Page):
    """A page of discounts, the latest to begin first."""

    discounts: tuple[DiscountView, ...]


@router.get("", operation_id="list_discounts", responses=may_answer(422))
def list_discounts(prices: PricesDep, query: Annotated[DiscountsQuery, Query()]) -> DiscountPage:
    """The negotiated discounts: all of them, or those in force at a given time."""
    found, token = query.cut_page(prices.discounts.list_all(_parse_instant(query.at)))
    return DiscountPage(
        discounts=tuple(map(DiscountView.from_discount, found)), next_page_token=token
    )


@router.post(
    "",
    status_code=201,
    operation_id="add_discount",
    responses=_ENTERED | may_answer(400, 409, 413, 415, 422),
)
def add_discount(
    body: DiscountRequest,
    prices: PricesDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> DiscountView:
    """Enter a discount for the time to come; it never rewrites the past.

    Two never apply to the same price at the same second, also not a general and a special one: the
    second is refused with 409, and names the first.
    """
    agreed = prices.discounts.add(body.to_discount(), key_of(idempotency_key, body))
    mark_repeat(response, created=agreed.created)
    return DiscountView.from_discount(agreed.discount)


@router.post(
    "/{discount_id}:end",
    operation_id="end_discount",
    responses=may_answer(400, 404, 409, 413, 415, 422),
)
def end_discount(
    discount_id: DiscountId, prices: PricesDep, body: EndRequest | None = None
) -> DiscountView:
    """End a discount sooner than it would; what was charged with it stays as it was charged."""
    until = None if body is None else _parse_instant(body.effective_until)
    return DiscountView.from_discount(prices.discounts.end_early(discount_id, until))


def _parse_instant(text: str | None) -> int | None:
    return None if text is None else parse_instant_or_date(text)
