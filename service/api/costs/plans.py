"""Route of plans: hardware that fits a need, with its duration and cost."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from service.api.http.deps import EstimatesDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Instant, Name, Seconds, Time, Usd, View, usd_or_none
from service.api.nodes.node_request import Places
from service.application.pricing.estimates import HardwarePlan, PlanTerms
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.errors import Rejected
from service.domain.money import parse_usd
from service.domain.pricing.sizing import Need, Option

router = Router(tags=["costs"])

_LARGE = re.compile(r"\d{1,40}(\.\d{1,40})?([eE]\+?\d{1,2})?")


def _parse_large(value: object) -> object:
    """`1.8e18`, as text or as a number, as 1800000000000000000. Decimals keep every digit."""
    text = "" if isinstance(value, bool) else str(value)
    if not isinstance(value, str | int | float) or not _LARGE.fullmatch(text):
        raise ValueError('write a whole number, as in "1.8e18"')
    number = Decimal(text)
    if number != number.to_integral_value() or number <= 0:
        raise ValueError("write a whole number of at least 1")
    return int(number)


Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Large = Annotated[
    int, BeforeValidator(_parse_large, json_schema_input_type=str | int), Field(ge=1, le=10**60)
]


class PlanRequest(Body):
    """What is needed, by when, and for how much. At least one of chips, hbm_gib, flops_per_second,
    or flops with a deadline."""

    chips: Count | None = Field(default=None, description="At least so many.", examples=[None])
    hbm_gib: Count | None = Field(
        default=None, description="Memory of all chips together, in GiB.", examples=[512]
    )
    flops_per_second: Large | None = Field(
        default=None,
        description="Peak speed of all chips in bfloat16, exact as text or as a number.",
        examples=[None],
    )
    flops: Large | None = Field(
        default=None,
        description="The whole work; with it the duration is computed.",
        examples=["1.8e20"],
    )
    utilisation_percent: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=40, description="How much of the peak the work gets.", examples=[40]
    )
    duration_seconds: Seconds | None = Field(
        default=None, description="Instead of flops: how long it runs.", examples=[None]
    )
    deadline: Instant | None = Field(
        default=None, description="When it has to be over.", examples=[None]
    )
    deadline_seconds: Seconds | None = Field(
        default=None, description="Instead: in how many seconds from now.", examples=[86_400]
    )
    max_spend: Annotated[str, Field(max_length=40)] | None = Field(
        default=None, description="Dollars, as a decimal string.", examples=["500"]
    )
    global_batch: Count | None = Field(
        default=None, description="Examples in one step of training.", examples=[1024]
    )
    per_chip_batch: Count | None = Field(
        default=None, description="Examples that fit on one chip at a time.", examples=[8]
    )
    generation: Name | None = Field(
        default=None, description="Only this generation.", examples=[None]
    )
    provisioning_model: ProvisioningModel | None = Field(
        default=None, description="Every one but preemptible by default.", examples=[None]
    )
    regions: Places | None = Field(default=None, description="Only there.", examples=[None])

    @field_validator("max_spend")
    @classmethod
    def _check_amount(cls, text: str | None) -> str | None:
        if text is not None and parse_usd(text) <= 0:
            raise ValueError("the amount to spend must be more than zero")
        return text

    def to_need(self) -> Need:
        """The need in terms of the domain. Raises Rejected for two deadlines."""
        if self.deadline is not None and self.deadline_seconds is not None:
            raise Rejected("give deadline or deadline_seconds, not both", field="deadline")
        return Need(
            chips=self.chips or 0,
            hbm_gib=self.hbm_gib or 0,
            flops_per_second=self.flops_per_second or 0,
            flops=self.flops or 0,
            utilisation=self.utilisation_percent,
            seconds=self.duration_seconds,
            available=self.deadline_seconds,
            spend=None if self.max_spend is None else parse_usd(self.max_spend),
            global_batch=self.global_batch,
            per_chip_batch=self.per_chip_batch,
        )

    def to_terms(self) -> PlanTerms:
        """Of what it may be made, in the words of the application."""
        return PlanTerms(
            self.generation,
            self.provisioning_model,
            tuple(self.regions or ()),
            None if self.deadline is None else parse_instant_or_date(self.deadline),
        )


class OptionView(View):
    """One accelerator type bought one way, at the cheapest place where it is sold that way."""

    accelerator_type: str = Field(examples=["v5litepod-32"])
    generation: str = Field(examples=["v5e"])
    chips: int = Field(examples=[32])
    hosts: int = Field(examples=[8])
    hbm_gib: int = Field(description="Memory of all chips, in GiB.", examples=[512])
    flops_per_second: str = Field(
        description="Peak of all chips in bfloat16, in digits.", examples=["6304000000000000"]
    )
    provisioning_model: ProvisioningModel
    zone: str = Field(examples=["us-west4-a"])
    region: str = Field(examples=["us-west4"])
    hourly_cost: Usd | None = Field(description="Null where no price is known, which is not free.")
    duration_seconds: int | None = Field(
        description="From the work and the speed, or as it was given; null where neither was.",
        examples=[71_384],
    )
    cost: Usd | None = Field(description="For the whole duration.")
    affords_seconds: int | None = Field(
        description="For how long max_spend would do.", examples=[None]
    )
    meets_deadline: bool | None = Field(description="Null where there is none.", examples=[True])
    meets_max_spend: bool | None = Field(
        description="Null where there is none, or where it is unknown.", examples=[True]
    )
    meets_everything: bool = Field(description="As far as is known.", examples=[True])
    accumulation_steps: int | None = Field(
        description="How often each chip works before the weights change once.", examples=[4]
    )
    divides_evenly: bool | None = Field(
        description="Whether the last of these steps is full as well.", examples=[True]
    )
    note: str = Field(description="What to mind.", examples=[""])

    @classmethod
    def from_option(cls, option: Option) -> OptionView:
        """The view of an option."""
        fit, offer, hardware = option.fit, option.offer, option.fit.accelerator
        return cls(
            accelerator_type=hardware.name,
            generation=hardware.generation,
            chips=hardware.chips,
            hosts=hardware.hosts,
            hbm_gib=fit.hbm_gib,
            flops_per_second=str(fit.flops_per_second),
            provisioning_model=ProvisioningModel(offer.model),
            zone=offer.zone,
            region=region_of(offer.zone),
            hourly_cost=usd_or_none(offer.hourly),
            duration_seconds=fit.seconds,
            cost=usd_or_none(option.cost),
            affords_seconds=option.lasts,
            meets_deadline=fit.in_time,
            meets_max_spend=option.within,
            meets_everything=option.is_all_right,
            accumulation_steps=None if fit.batch is None else fit.batch.steps,
            divides_evenly=None if fit.batch is None else fit.batch.even,
            note="the price is unknown; the usage is not free" if offer.hourly is None else "",
        )


class PlanView(View):
    """What fits: what meets everything first and the cheapest of it before the others, what has
    no known price last."""

    plans: tuple[OptionView, ...]
    as_of: Time

    @classmethod
    def from_plan(cls, found: HardwarePlan) -> PlanView:
        """The view of a plan."""
        return cls(
            plans=tuple(map(OptionView.from_option, found.options)), as_of=to_rfc3339(found.as_of)
        )


@router.post(
    "/v1/estimates:plan", operation_id="plan_hardware", responses=may_answer(400, 413, 415, 422)
)
def plan_hardware(body: PlanRequest, estimates: EstimatesDep) -> PlanView:
    """Find hardware that fits a need, its cost, and whether it meets the limits."""
    return PlanView.from_plan(estimates.plan_hardware(body.to_need(), body.to_terms()))
