"""Route of costs, by calendar bucket and dimension, exact to the nano-dollar."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query, Response
from pydantic import AfterValidator, ConfigDict, Field

from service.api.http.deps import CostsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Body,
    Line,
    Time,
    Usd,
    View,
    WindowText,
    one_line,
    schema_extra,
    whole_pattern,
)
from service.application.costs.aggregation import CostRow
from service.application.costs.costs import CostQuestion, CostReport
from service.domain.clock import to_rfc3339
from service.domain.costs.csv_cell import format_cell
from service.domain.costs.dimensions import FILTER, GROUPS, only_of, words_of
from service.domain.money import format_hours, format_usd
from service.domain.time_window import Granularity

router = Router(prefix="/v1/costs", tags=["costs"])

Group = Annotated[Line, schema_extra(pattern=whole_pattern(GROUPS))]
Condition = Annotated[
    str,
    Field(max_length=500),
    AfterValidator(one_line),
    schema_extra(pattern=whole_pattern(FILTER)),
]
Conditions = Annotated[tuple[Condition, ...], Field(max_length=100)]


class CostQuery(Body):
    """Which costs are asked for."""

    window: WindowText = Field(
        default="7d",
        description="`7d`, `24h`, `today`, `mtd`, or two instants or dates: `A,B`.",
        examples=["mtd"],
    )
    aggregate: Annotated[tuple[Group, ...], Field(max_length=100)] = Field(
        default=(),
        description="What to group by, comma-separated or repeated: project, team, owner, job,"
        " node, generation, accelerator_type, provisioning_model, zone, region, activity,"
        " label:<key>.",
        examples=[["team"]],
    )
    step: Granularity = Field(default=Granularity.DAY, description="How long a bucket is.")
    tz: str = Field(default="UTC", max_length=80, description="The IANA time zone of the calendar.")
    filter: Conditions = Field(
        default=(),
        description="Only what matches, comma-separated or repeated: `team:vision`, or"
        " `label:run:17`. Of the same dimension, any of the values. A comma within one is `\\,`.",
        examples=[["team:vision"]],
    )
    format: Literal["json", "csv"] = Field(
        default="json",
        description="`csv` is the rows alone, with a line of headings; each says its currency and"
        " as of when it is.",
    )

    def to_question(self) -> CostQuestion:
        """The question in terms of the application. Raises Rejected for an invalid value."""
        aggregate = tuple(dict.fromkeys(words_of(self.aggregate)))
        return CostQuestion(self.window, aggregate, self.step, self.tz, only_of(self.filter))


class WindowView(View):
    """The half-open stretch [start, end)."""

    start: Time
    end: Time


class CostRowView(View):
    """One bucket of one group; it also has a field for each dimension that was grouped by."""

    model_config = ConfigDict(extra="allow")

    start: Time
    end: Time
    cost: Usd
    list_cost: Usd = Field(description="The same seconds on demand at list price.")
    chip_seconds: int
    chip_hours: Usd = Field(description="The same in hours, with nine places.")
    savings: Usd = Field(description="`list_cost` less `cost`.")
    uncertainty: Usd = Field(description="The part of `cost` that may not be true.")


class CostView(View):
    """The rows, by bucket and group; the totals are their sums, exactly."""

    window: WindowView
    aggregate: tuple[str, ...]
    step: Granularity
    tz: str
    rows: tuple[CostRowView, ...]
    total: Usd
    list_total: Usd
    savings: Usd = Field(description="`list_total` less `total`: what spot and discounts saved.")
    uncertainty: Usd = Field(
        description="The part of `total` that is charged for seconds which may not have been used."
    )
    chip_seconds: int
    chip_hours: Usd = Field(description="The same in hours, with nine places.")
    unpriced_seconds: int = Field(
        description="Seconds at an unknown price; they are in no figure, and not free."
    )
    currency: str = Field(examples=["USD"])
    as_of: Time
    estimated: bool = Field(description="Whether something that ran in the window still runs.")


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": CostView, "content": {"text/csv": {"schema": {"type": "string"}}}},
    **may_answer(422),
}


@router.get("", operation_id="get_costs", responses=_ANSWERS)
def get_costs(costs: CostsDep, query: Annotated[CostQuery, Query()]) -> Response:
    """What was spent in a window, by calendar bucket and by what it is grouped by.

    It is what is known now: a correction counts in the hours that it corrects, also in a month that
    is closed. What was billed for a month, and stays as it is, is its statement: `/v1/statements`,
    where such a correction is in the month in which it was posted.
    """
    question = query.to_question()
    report = costs.report(question)
    if query.format == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(("start", "end", *report.aggregate, *_FIGURES, "currency", "as_of"))
        known = _CURRENCY, to_rfc3339(report.as_of)
        for row in report.rows:
            writer.writerow(map(format_cell, (*_row_fields(report, row).values(), *known)))
        named = {"Content-Disposition": 'attachment; filename="costs.csv"'}
        return Response(text.getvalue(), media_type="text/csv", headers=named)
    fields = {
        "window": {"start": to_rfc3339(report.window.start), "end": to_rfc3339(report.window.end)},
        "aggregate": report.aggregate,
        "step": question.step,
        "tz": question.tz,
        "rows": [_row_fields(report, row) for row in report.rows],
        "total": format_usd(report.total),
        "list_total": format_usd(report.list_total),
        "savings": format_usd(report.list_total - report.total),
        "uncertainty": format_usd(report.uncertainty),
        "chip_seconds": report.chip_seconds,
        "chip_hours": format_hours(report.chip_seconds),
        "unpriced_seconds": report.unpriced_seconds,
        "currency": _CURRENCY,
        "as_of": to_rfc3339(report.as_of),
        "estimated": report.estimated,
    }
    return Response(msgspec.json.encode(fields), media_type="application/json")


_FIGURES = ("cost", "list_cost", "chip_seconds", "chip_hours", "savings", "uncertainty")
_CURRENCY = "USD"


def _row_fields(report: CostReport, row: CostRow) -> dict[str, object]:
    return {
        "start": to_rfc3339(row.bucket.start),
        "end": to_rfc3339(row.bucket.end),
        **dict(zip(report.aggregate, row.group, strict=True)),
        "cost": format_usd(row.cost),
        "list_cost": format_usd(row.list_cost),
        "chip_seconds": row.chip_seconds,
        "chip_hours": format_hours(row.chip_seconds),
        "savings": format_usd(row.list_cost - row.cost),
        "uncertainty": format_usd(row.uncertainty),
    }
