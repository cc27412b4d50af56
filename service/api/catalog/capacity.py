"""Routes of recent capacity."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from service.api.http.deps import CapacityDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Name, Page, PageQuery, Time, View, WindowText, time_or_none
from service.application.placement import capacity
from service.application.placement.capacity import CapacityRow
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import to_rfc3339

router = Router(prefix="/v1/catalog", tags=["catalog"])


class CapacityQuery(PageQuery):
    """Which attempts count."""

    window: WindowText = Field(
        default="7d",
        description="Those that began in it: `7d` (today included), `24h`, `today`, `mtd`, or two"
        " instants or dates with a comma between them.",
        examples=["24h"],
    )
    zone: Name = Field(default="", description="Only this zone.", examples=["us-west4-a"])
    accelerator_type: Name = Field(
        default="", description="Only this accelerator type.", examples=["v5litepod-16"]
    )
    generation: Name = Field(default="", description="Only this generation.", examples=["v5e"])
    provisioning_model: ProvisioningModel | None = Field(
        default=None, description="Only this model.", examples=["spot"]
    )
    project: Name = Field(default="", description="Only this project.", examples=["lab"])

    def to_question(self) -> capacity.AttemptQuery:
        """The same in the words of the application."""
        return capacity.AttemptQuery(
            self.window,
            self.project,
            self.zone,
            self.accelerator_type,
            self.generation,
            self.provisioning_model or "",
        )


class CapacityView(View):
    """The outcomes of attempts at one kind of hardware in one zone, of nodes of this service
    alone."""

    project: str = Field(examples=["lab"])
    zone: str = Field(examples=["us-west4-a"])
    accelerator_type: str = Field(examples=["v5litepod-16"])
    generation: str = Field(examples=["v5e"])
    provisioning_model: str = Field(examples=["spot"])
    attempts: int = Field(description="So many began in the window.", examples=[9])
    ready: int = Field(description="Came up.", examples=[4])
    stock_outs: int = Field(description="Ended because there was no hardware.", examples=[3])
    quota_refusals: int = Field(description="Ended because the quota was used up.", examples=[1])
    denied: int = Field(description="Ended because a permission was missing.", examples=[0])
    failed: int = Field(description="Ended for other reasons.", examples=[0])
    median_seconds_to_ready: int | None = Field(
        description="From the attempt to READY, in the middle of those that came up.",
        examples=[142],
    )
    preempted: int = Field(description="Of those that came up, preempted.", examples=[2])
    median_seconds_lived: int | None = Field(
        description="From READY to the preemption, the median of the preempted ones alone. The"
        " others live still or were ended here.",
        examples=[10_800],
    )
    last_attempt_at: Time
    back_off_until: Time | None = Field(
        description="The cooldown ends then; null when there is none."
    )
    reason: str = Field(description="The reason of the cooldown.", examples=["ran out 40 s ago"])

    @classmethod
    def from_row(cls, row: CapacityRow) -> CapacityView:
        """The view of a row."""
        tried, until = row.tried, row.back_off_until
        return cls(
            project=tried.project,
            zone=tried.key.zone,
            accelerator_type=tried.key.accelerator_type,
            generation=tried.key.generation,
            provisioning_model=tried.key.model,
            attempts=tried.attempts,
            ready=tried.ready,
            stock_outs=tried.stock_outs,
            quota_refusals=tried.quota_refusals,
            denied=tried.denied,
            failed=tried.failed,
            median_seconds_to_ready=tried.seconds_to_ready,
            preempted=tried.preempted,
            median_seconds_lived=tried.seconds_lived,
            last_attempt_at=to_rfc3339(tried.last_attempt_at),
            back_off_until=time_or_none(until),
            reason=row.reason,
        )


class CapacityPage(Page):
    """A page of the outcomes of attempts, by zone, type, model and project."""

    capacity: tuple[CapacityView, ...]


@router.get("/capacity", operation_id="list_capacity", responses=may_answer(422))
def list_capacity(service: CapacityDep, query: Annotated[CapacityQuery, Query()]) -> CapacityPage:
    """List where hardware was available lately, how long it took and lasted, and which places are
    in cooldown."""
    found, token = query.cut_page(service.report(query.to_question()))
    return CapacityPage(capacity=tuple(map(CapacityView.from_row, found)), next_page_token=token)
