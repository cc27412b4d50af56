"""Route of forecasts: the expected cost of a period at its end."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from service.api.costs.costs import Conditions, CostQuery
from service.api.http.deps import ForecastsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Time, Usd, View, schema_extra, whole_pattern
from service.application.costs.forecasts import ForecastOutlook
from service.domain.budgets.budget import Period
from service.domain.clock import to_rfc3339
from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.money import format_usd

router = Router(prefix="/v1/forecasts", tags=["costs"])


class ForecastQuery(Body):
    """Which forecast is asked for."""

    period: Literal["day", "week", "month", "quarter", "year"] = Field(
        default="month", description="The present one, by the calendar of the time zone."
    )
    tz: str = Field(default="UTC", max_length=80, description="The IANA time zone of the calendar.")
    filter: Conditions = Field(
        default=(),
        description="Only what matches, as in GET /v1/costs.",
        examples=[["team:vision"]],
    )


class BandView(View):
    """A forecast with its band: of ten times, the cost is meant to exceed `low` nine times, `mid`
    five times, and `high` once."""

    low: Usd
    mid: Usd
    high: Usd

    @classmethod
    def from_band(cls, band: Band) -> BandView:
        """The view of a band."""
        return cls(low=format_usd(band.low), mid=format_usd(band.mid), high=format_usd(band.high))


class LastErrorView(View):
    """How wrong the forecast of half time was, for the last UTC month that is over."""

    start: Time
    end: Time
    made_at: Time
    forecast: BandView
    actual: Usd = Field(description="The actual cost.")
    error: Usd = Field(description="Forecast less actual: above zero where it was too high.")
    error_percent: (
        Annotated[str, schema_extra(pattern=whole_pattern(r"-?[0-9]+\.[0-9]"))] | None
    ) = Field(
        description="The same in percent of the actual cost; null where that was zero.",
        examples=["-3.2"],
    )
    within_band: bool

    @classmethod
    def from_snapshot(cls, last: Snapshot | None) -> LastErrorView | None:
        """The view of a forecast that can be judged; None of any other."""
        if last is None or last.actual is None or last.error is None:
            return None
        percent = None
        if last.permille is not None:  # -32 thousandths are -3.2 percent
            whole, tenths = divmod(abs(last.permille), 10)
            percent = f"{'-' if last.permille < 0 else ''}{whole}.{tenths}"
        return cls(
            start=to_rfc3339(last.window.start),
            end=to_rfc3339(last.window.end),
            made_at=to_rfc3339(last.made_at),
            forecast=BandView.from_band(last.band),
            actual=format_usd(last.actual),
            error=format_usd(last.error),
            error_percent=percent,
            within_band=last.band.low <= last.actual <= last.band.high,
        )


class ForecastView(View):
    """What the period will have cost. The middle of `total` is the sum of `spent` and of those of
    `running` and `new_launches`. Bands do not add up, as two parts seldom err alike."""

    period: str = Field(examples=["month"])
    tz: str = Field(examples=["UTC"])
    start: Time
    end: Time
    spent: Usd = Field(description="So far.")
    committed: Usd = Field(
        description="What runs now, until its TTL or else the end of the period, at known prices."
    )
    committed_without_ttl: Usd = Field(
        description="The part of it that is of nodes without a TTL, if nobody ends them."
    )
    running: BandView = Field(
        description="What runs now will cost, if nodes go on for as long as earlier ones of their"
        " kind did that had got as old, and never beyond a TTL."
    )
    without_ttl: BandView = Field(
        description="The part of it that is of nodes without a TTL. 0 in a run-rate, which contains"
        " them."
    )
    new_launches: BandView = Field(description="What is launched from now on, by the end.")
    total: BandView
    currency: str = Field(examples=["USD"])
    method: Method
    explanation: str = Field(description="The method in a sentence.")
    history_days: int = Field(description="Full days of history that it stands on.", examples=[28])
    unpriced_nodes: int = Field(
        description="Nodes that run at an unknown price: they are in no figure.", examples=[0]
    )
    last_error: LastErrorView | None = Field(
        description="Null where nothing was forecast then, or the question is neither everything"
        " nor one team."
    )
    as_of: Time = Field(
        description="The last full minute. With 500 running nodes or more, the last full five"
        " minutes."
    )

    @classmethod
    def from_outlook(cls, outlook: ForecastOutlook, query: ForecastQuery) -> ForecastView:
        """The view of a forecast."""
        found = outlook.forecast
        basis = found.basis
        return cls(
            period=query.period,
            tz=query.tz,
            start=to_rfc3339(basis.window.start),
            end=to_rfc3339(basis.window.end),
            spent=format_usd(basis.spent),
            committed=format_usd(basis.committed),
            committed_without_ttl=format_usd(basis.endless_cost),
            running=BandView.from_band(found.running),
            without_ttl=BandView.from_band(found.endless),
            new_launches=BandView.from_band(found.launches),
            total=BandView.from_band(found.total),
            currency="USD",
            method=found.method,
            explanation=found.method_sentence,
            history_days=basis.history.days,
            unpriced_nodes=basis.unpriced,
            last_error=LastErrorView.from_snapshot(outlook.last),
            as_of=to_rfc3339(basis.now),
        )


@router.get("", operation_id="get_forecast", responses=may_answer(422))
def get_forecast(forecasts: ForecastsDep, query: Annotated[ForecastQuery, Query()]) -> ForecastView:
    """What the present period will have cost at its end, with a band and the method."""
    only = CostQuery(filter=query.filter).to_question().only
    return ForecastView.from_outlook(
        forecasts.read_outlook(only, Period(query.period), query.tz), query
    )
