"""Route of estimates: cost of hardware by zone and provisioning model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.deps import EstimatesDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Line,
    Name,
    Seconds,
    Text,
    Time,
    Usd,
    View,
    schema_extra,
    usd_or_none,
)
from service.api.nodes.node_request import HardwareRequest, Slices
from service.api.pricing.prices import PriceView
from service.application.pricing.estimates import Caller, Estimate, OfferShare
from service.domain.budgets.budget import OnExceeded
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR, to_rfc3339
from service.domain.errors import Rejected
from service.domain.money import format_usd, half_even
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.estimate import PriceOffer

router = Router(prefix="/v1/estimates", tags=["costs"])


class EstimateRequest(HardwareRequest):
    """The hardware, where, how it is bought, and for how long."""

    provisioning_model: ProvisioningModel | None = Field(
        default=None, description="Every one by default.", examples=[None]
    )
    slices: Slices | None = Field(
        default=None,
        description="How many equal slices it is made of; 1 by default.",
        examples=[None],
    )
    duration_seconds: Seconds | None = Field(
        default=None, description="One hour by default.", examples=[14_400]
    )
    ttl_seconds: Seconds | None = Field(
        default=None, description="The same, in the words of POST /v1/nodes.", examples=[None]
    )
    project: Name = Field(
        default="",
        description="Whose budgets are checked; the first of STEWARD_PROJECTS by default.",
        examples=[""],
    )
    team: Line = Field(default="", description="The same.", examples=["vision"])
    owner: Line = Field(default="", description="The same.", examples=["ada"])
    labels: dict[Text, Text] | None = Field(
        default=None, description="The same.", examples=[{"run": "17"}]
    )

    def to_request(self) -> RequestedNode:
        """The hardware and the places in the words of the domain."""
        hardware = {*HardwareRequest.model_fields, "slices"}
        return RequestedNode(**self.model_dump(exclude_none=True, include=hardware))

    def to_caller(self) -> Caller:
        """The caller whose budgets are checked, in terms of the application."""
        return Caller(self.project, self.team, self.owner, dict(self.labels or {}))

    @property
    def seconds(self) -> int:
        """Duration in seconds. Raises Rejected for two durations."""
        if self.duration_seconds is not None and self.ttl_seconds is not None:
            raise Rejected(
                "give duration_seconds or ttl_seconds, not both", field="duration_seconds"
            )
        return self.duration_seconds or self.ttl_seconds or HOUR


class OfferView(View):
    """One zone and model; the figures are null where no price is known, which is not free."""

    zone: str = Field(examples=["us-west4-a"])
    region: str = Field(examples=["us-west4"])
    provisioning_model: ProvisioningModel
    hourly_cost: Usd | None = Field(description="At the present price.")
    cost: Usd | None = Field(
        description="For the whole duration, with every price and discount that is known to begin"
        " or end in it; what is reserved ends with its reservation."
    )
    price: PriceView | None

    @classmethod
    def from_offer(cls, offer: PriceOffer) -> OfferView:
        """The view of an offer."""
        return cls(
            zone=offer.zone,
            region=region_of(offer.zone),
            provisioning_model=ProvisioningModel(offer.model),
            hourly_cost=usd_or_none(offer.hourly),
            cost=usd_or_none(offer.cost),
            price=None if offer.price is None else PriceView.from_price(offer.price),
        )


class ShareView(View):
    """What the cheapest offer would take of one budget in its present period."""

    budget_id: str
    name: str = Field(examples=["vision, monthly"])
    on_exceeded: OnExceeded = Field(
        description="`notify` refuses nothing, whether it fits or not.", examples=["refuse"]
    )
    ends_at: Time = Field(description="Of its present period.")
    amount: Usd = Field(description="What the budget has for its present period.")
    used: Usd | None = Field(
        description="What is spent and set aside of it; null where a price in it is not known."
    )
    cost: Usd = Field(description="What the cheapest offer would add, until the period ends.")
    left: Usd | None = Field(description="What would be left; below zero where it does not fit.")
    percent: Annotated[int, schema_extra(minimum=0)] = Field(
        description="The cost in whole percent of the amount.", examples=[12]
    )
    fits: bool | None = Field(
        description="Whether a budget that refuses would accept it, in that zone, by that model"
        " and for that long. A minute for its deletion is counted as well. Null where"
        " that is unknown.",
        examples=[True],
    )

    @classmethod
    def from_share(cls, share: OfferShare) -> ShareView:
        """The view of a share."""
        return cls(
            budget_id=share.budget.id,
            name=share.budget.name,
            on_exceeded=share.budget.on_exceeded,
            ends_at=to_rfc3339(share.ends),
            amount=format_usd(share.budget.amount),
            used=usd_or_none(share.used),
            cost=format_usd(share.cost),
            left=usd_or_none(share.left),
            percent=half_even(100 * share.cost, share.budget.amount),
            fits=share.fits,
        )


class EstimateView(View):
    """What it would cost, the cheapest place first, those without a known price last."""

    accelerator_type: str = Field(examples=["v5litepod-16"])
    slices: int = Field(description="Of how many equal slices it is made.", examples=[1])
    chips: int = Field(description="Of all slices together.", examples=[16])
    duration_seconds: int = Field(examples=[14_400])
    estimates: tuple[OfferView, ...]
    budgets: tuple[ShareView, ...] = Field(
        description="What the cheapest offer would take of each budget that the caller spends,"
        " the tightest first."
    )
    as_of: Time

    @classmethod
    def from_estimate(cls, found: Estimate) -> EstimateView:
        """The view of an estimate."""
        return cls(
            accelerator_type=found.accelerator.name,
            slices=found.slices,
            chips=found.accelerator.chips * found.slices,
            duration_seconds=found.seconds,
            estimates=tuple(map(OfferView.from_offer, found.offers)),
            budgets=tuple(map(ShareView.from_share, found.shares)),
            as_of=to_rfc3339(found.as_of),
        )


@router.post("", operation_id="estimate", responses=may_answer(400, 413, 415, 422))
def estimate(body: EstimateRequest, estimates: EstimatesDep) -> EstimateView:
    """Estimate what the hardware would cost in each zone, cheapest first."""
    return EstimateView.from_estimate(
        estimates.estimate(
            body.to_request(), body.provisioning_model, body.seconds, body.to_caller()
        )
    )
