"""Routes of quotas: usage of the projects, and the limits that Google has named."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from service.api.http.deps import QuotasDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Name, Page, PageQuery, Time, View
from service.application.placement import quotas
from service.domain.clock import to_rfc3339
from service.domain.placement.quota import LimitStanding, QuotaStock, QuotaTally, Size, Tier

router = Router(prefix="/v1/catalog", tags=["catalog"])

QuotaId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{32}$", description="Its id, from the list of quotas.")
]


class QuotasQuery(PageQuery):
    """Which limits and which hardware to list."""

    project: Name = Field(default="", description="Only of this project.", examples=["lab"])
    region: Name = Field(
        default="", description="Only of this region and its zones.", examples=["us-east5"]
    )
    generation: Name = Field(default="", description="Only of this generation.", examples=["v6e"])


class QuotaView(View):
    """The known use and holds, and the limit that Google named in a refusal.

    Google has no call that reads a limit. Before the first refusal, its fields are null.
    A limit is a number of chips or of cores, which differ on v2, v3, v4 and v5p, so use is shown in
    both.
    """

    id: str | None = Field(
        description="By which it is forgotten.", examples=["5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"]
    )
    project: str = Field(examples=["lab"])
    limit: str = Field(
        description="Google's name of it; empty where it said none.",
        examples=["TPUV6EPreemptiblePerProjectPerRegionForTPUAPI"],
    )
    where: str = Field(description="The region or the zone that it is for.", examples=["us-east5"])
    generation: str = Field(examples=["v6e"])
    tier: Tier = Field(description="Spot, preemptible and flex_start share preemptible.")
    size: Size = Field(description="Whether it is for single hosts or for pods alone.")
    allowed: int | None = Field(
        description="So many chips or cores; null where Google named no limit of the whole region"
        " yet.",
        examples=[0],
    )
    used_chips: int = Field(description="Of nodes that work.", examples=[8])
    used_cores: int = Field(examples=[8])
    held_chips: int = Field(
        description="Of all else that is in the cloud: queued, coming up, stopped, taken away.",
        examples=[0],
    )
    held_cores: int = Field(examples=[0])
    dead_chips: int = Field(
        description="The part of `held_chips` that will never work again: nodes that were taken"
        " away, queued resources that failed or were suspended. Delete them to free the quota.",
        examples=[0],
    )
    dead_cores: int = Field(examples=[0])
    observed_at: Time | None = Field(description="When Google said it.")
    standing: LimitStanding | None = Field(
        description="Only a `fresh` one refuses. An `old` one may have been raised, and of a"
        " `contradicted` one more was granted since."
    )
    believed_until: Time | None = Field(description="It refuses until then; null: it does not.")
    said: str = Field(description="Google's own words.")

    @classmethod
    def from_any(cls, counted: QuotaTally | QuotaStock) -> QuotaView:
        """The view of a limit, or of what there is without a known one."""
        return (
            cls.from_stock(counted) if isinstance(counted, QuotaStock) else cls.from_tally(counted)
        )

    @classmethod
    def from_stock(cls, stock: QuotaStock) -> QuotaView:
        """The view of hardware whose limit nobody knows."""
        return cls(
            id=None,
            project=stock.project,
            limit="",
            where=stock.place,
            generation=stock.generation,
            tier=stock.tier,
            size=Size.ANY,
            allowed=None,
            used_chips=stock.used.chips,
            used_cores=stock.used.cores,
            held_chips=stock.held.chips,
            held_cores=stock.held.cores,
            dead_chips=stock.dead.chips,
            dead_cores=stock.dead.cores,
            observed_at=None,
            standing=None,
            believed_until=None,
            said="",
        )

    @classmethod
    def from_tally(cls, tally: QuotaTally) -> QuotaView:
        """The view of a limit."""
        limit, is_fresh = tally.limit, tally.standing is LimitStanding.FRESH
        return cls(
            id=limit.id,
            project=limit.project,
            limit=limit.name,
            where=limit.place,
            generation=limit.generation,
            tier=limit.tier,
            size=limit.size,
            allowed=limit.allowed,
            used_chips=tally.used.chips,
            used_cores=tally.used.cores,
            held_chips=tally.held.chips,
            held_cores=tally.held.cores,
            dead_chips=tally.dead.chips,
            dead_cores=tally.dead.cores,
            observed_at=to_rfc3339(limit.observed_at),
            standing=tally.standing,
            believed_until=to_rfc3339(limit.believed_until) if is_fresh else None,
            said=limit.said,
        )


class QuotaPage(Page):
    """A page of what there is and may be, by project, place and generation."""

    quotas: tuple[QuotaView, ...]


@router.get("/quotas", operation_id="list_quotas", responses=may_answer(422))
def list_quotas(service: QuotasDep, query: Annotated[QuotasQuery, Query()]) -> QuotaPage:
    """List what the projects use and hold, by region, generation and tier. A limit is known once
    Google has named it in a refusal."""
    asked = quotas.QuotaQuery(query.project, query.region, query.generation)
    found, token = query.cut_page(service.report(asked))
    return QuotaPage(quotas=tuple(map(QuotaView.from_any, found)), next_page_token=token)


@router.post(
    "/quotas/{quota_id}:forget", operation_id="forget_quota", responses=may_answer(404, 422)
)
def forget_quota(quota_id: QuotaId, service: QuotasDep) -> QuotaView:
    """Forget a limit, for instance after Google raised it. Nodes that wait for the limit try again
    within half an hour. The next refusal by Google teaches the limit again."""
    return QuotaView.from_tally(service.delete(quota_id))
