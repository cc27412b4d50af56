"""Route of recommended commitments."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from service.api.http.deps import RecommendationsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Time, Usd, View, schema_extra, usd_or_none, whole_pattern
from service.application.pricing.recommendations import CommitmentAdvice, CommitmentAdvices
from service.domain.clock import to_rfc3339
from service.domain.commitments.recommendation import (
    CAUTION,
    FEWEST_DAYS,
    MOST_DAYS,
    Recommendation,
    hours_a_day,
)
from service.domain.money import format_usd
from service.domain.pricing.discounts import MILLION

router = Router(prefix="/v1/commitments", tags=["costs"])

Ratio = Annotated[str, schema_extra(pattern=whole_pattern(r"[0-9]+\.[0-9]{4}"))]


class RecommendedQuery(BaseModel):
    """How much of the past counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: int = Field(
        default=MOST_DAYS,
        ge=FEWEST_DAYS,
        le=MOST_DAYS,
        description="The last so many full UTC days, or all there are where there are fewer.",
    )


class CommitmentRecommendationView(View):
    """What to commit to for one term: one term or the other, not both. The number of chips pays in
    nine of ten draws of whole weeks of the past; it is 0 where none does, and `reason` says why."""

    generation: str = Field(examples=["v6e"])
    region: str = Field(examples=["us-east5"])
    term_years: int = Field(description="1 or 3.", examples=[1])
    chips: int = Field(description="How many to commit to.", examples=[64])
    chips_best: int = Field(
        description="How many would have been the cheapest in these days.", examples=[72]
    )
    chips_low: int = Field(
        description="In nine of ten draws the cheapest number is at least this one.", examples=[64]
    )
    chips_high: int = Field(
        description="In nine of ten draws the cheapest number is at most this one.", examples=[80]
    )
    on_demand_price: Usd | None = Field(
        description="Of a chip-hour, less discounts; null where the price book has none."
    )
    commitment_price: Usd | None = Field(
        description="Of a chip-hour of the term; null where the price book has none."
    )
    break_even_percent: Ratio | None = Field(
        description="A committed chip pays where it is in use for more of the time.",
        examples=["70.0000"],
    )
    break_even_of_a_day: str | None = Field(
        description="The same in hours of a day.", examples=["16 h 48 min"]
    )
    utilisation_percent: Ratio | None = Field(
        description="For how much of the time `chips` were in use; null where there are none.",
        examples=["97.2500"],
    )
    fee_per_month: Usd = Field(description="Of `chips`, for a month of 730 hours.")
    saving_per_month: Usd = Field(
        description="Of `chips`, as in these days, for a month of 730 hours."
    )
    saving_per_month_low: Usd = Field(description="In nine of ten draws it is at least this.")
    saving_per_month_high: Usd = Field(description="In nine of ten draws it is at most this.")
    saving_per_month_best: Usd = Field(description="Of `chips_best`, as in these days.")
    cost_if_unused: Usd = Field(
        description="The whole fee of `chips` to the end of the term: it is due if all use stops."
    )
    days: int = Field(description="Full days that it stands on.", examples=[90])
    reason: str = Field(
        description="Why there is nothing to commit to; else empty.",
        examples=["no chip was in use for long enough to save money"],
    )

    @classmethod
    def from_recommendation(
        cls, advice: CommitmentAdvice, recommended: Recommendation
    ) -> CommitmentRecommendationView:
        """The view of a term."""
        rates, break_even = recommended.rates, recommended.rates.break_even
        return cls(
            generation=advice.generation,
            region=advice.region,
            term_years=rates.years,
            chips=recommended.chips,
            chips_best=recommended.best,
            chips_low=recommended.low,
            chips_high=recommended.high,
            on_demand_price=usd_or_none(rates.on_demand),
            commitment_price=usd_or_none(rates.committed),
            break_even_percent=_format_percent(break_even),
            break_even_of_a_day=None if break_even is None else hours_a_day(break_even),
            utilisation_percent=_format_percent(recommended.utilisation),
            fee_per_month=format_usd(recommended.monthly_fee),
            saving_per_month=format_usd(recommended.saving),
            saving_per_month_low=format_usd(recommended.saving_low),
            saving_per_month_high=format_usd(recommended.saving_high),
            saving_per_month_best=format_usd(recommended.best_saving),
            cost_if_unused=format_usd(recommended.cost_if_unused),
            days=recommended.days,
            reason=recommended.reason,
        )


class CommitmentRecommendationsView(View):
    """What to commit to of all that was used on demand, by generation, region and term."""

    recommendations: tuple[CommitmentRecommendationView, ...]
    start: Time = Field(description="The first of the full UTC days that count.")
    end: Time
    days: int = Field(description="How many there are; with fewer than 28 nothing is recommended.")
    caution: str = Field(description="What no figure of the past can show.", examples=[CAUTION])
    as_of: Time

    @classmethod
    def from_advices(cls, advised: CommitmentAdvices) -> CommitmentRecommendationsView:
        """The view of all."""
        return cls(
            recommendations=tuple(
                CommitmentRecommendationView.from_recommendation(advice, term)
                for advice in advised.places
                for term in advice.terms
            ),
            start=to_rfc3339(advised.start),
            end=to_rfc3339(advised.end),
            days=advised.days,
            caution=CAUTION,
            as_of=to_rfc3339(advised.as_of),
        )


def _format_percent(ppm: int | None) -> str | None:
    """`700000` parts per million as `70.0000`."""
    if ppm is None:
        return None
    percent, rest = divmod(ppm * 100, MILLION)
    return f"{percent}.{rest * 10_000 // MILLION:04d}"


@router.get("/recommended", operation_id="recommend_commitments", responses=may_answer(422))
def recommend_commitments(
    recommendations: RecommendationsDep, query: Annotated[RecommendedQuery, Query()]
) -> CommitmentRecommendationsView:
    """How many chips to commit to for one and for three years, from our own use on demand."""
    return CommitmentRecommendationsView.from_advices(recommendations.list_advices(query.days))
