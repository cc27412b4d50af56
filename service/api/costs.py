"""What was spent, over HTTP: by calendar bucket and any grouping, exact to the nano-dollar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from service.api.deps import CostsDep
from service.api.problems import may_answer
from service.api.schemas import Body, Line, Time, Usd, View
from service.application.costs import CostReport, Question, check_dimensions
from service.domain.clock import rfc3339
from service.domain.errors import Rejected
from service.domain.money import usd
from service.domain.window import Granularity

router = APIRouter(prefix="/v1/costs", tags=["costs"])

Words = Annotated[tuple[Line, ...], Field(max_length=100)]


class CostQuery(Body):
    """Which costs are asked for."""

    window: str = Field(
        default="7d",
        max_length=100,
        description="`7d`, `24h`, `today`, `mtd`, or two instants or dates: `A,B`.",
        examples=["mtd"],
    )
    aggregate: Words = Field(
        default=(),
        description="What to group by, comma-separated or repeated: project, team, owner, job,"
        " node, generation, accelerator_type, provisioning_model, zone, region, activity,"
        " label:<key>.",
        examples=[["team"]],
    )
    step: Granularity = Field(default=Granularity.DAY, description="How long a bucket is.")
    tz: str = Field(default="UTC", max_length=80, description="The IANA time zone of the calendar.")
    filter: Words = Field(
        default=(),
        description="Only what matches, comma-separated or repeated: `team:vision`, or"
        " `label:run:17`. Of the same dimension, any of the values.",
        examples=[["team:vision"]],
    )

    def to_question(self) -> Question:
        """The same in the words of the application; raises Rejected."""
        only: dict[str, list[str]] = {}
        for text in _words(self.filter):
            name, value = _condition(text)
            only.setdefault(name, []).append(value)
        aggregate = tuple(dict.fromkeys(_words(self.aggregate)))
        return Question(self.window, aggregate, self.step, self.tz, only)


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
    chip_seconds: int


class CostView(View):
    """The rows, by bucket and group; the total is their sum, exactly."""

    window: WindowView
    aggregate: tuple[str, ...]
    step: Granularity
    tz: str
    rows: tuple[CostRowView, ...]
    total: Usd
    chip_seconds: int
    currency: str = Field(examples=["USD"])
    as_of: Time
    estimated: bool = Field(description="Whether some of it still runs, or is not yet posted.")


@router.get("", operation_id="get_costs", responses={200: {"model": CostView}, **may_answer(422)})
def get_costs(costs: CostsDep, query: Annotated[CostQuery, Query()]) -> Response:
    """What was spent in a window, by calendar bucket and by what it is grouped by."""
    question = query.to_question()
    document = _view(costs.report(question), question)
    return Response(msgspec.json.encode(document), media_type="application/json")


def _view(report: CostReport, question: Question) -> dict[str, object]:
    return {
        "window": {"start": rfc3339(report.window.start), "end": rfc3339(report.window.end)},
        "aggregate": report.aggregate,
        "step": question.step,
        "tz": question.tz,
        "rows": [
            {
                "start": rfc3339(row.bucket.start),
                "end": rfc3339(row.bucket.end),
                **dict(zip(report.aggregate, row.group, strict=True)),
                "cost": usd(row.cost),
                "chip_seconds": row.chip_seconds,
            }
            for row in report.rows
        ],
        "total": usd(report.total),
        "chip_seconds": report.chip_seconds,
        "currency": "USD",
        "as_of": rfc3339(report.as_of),
        "estimated": report.estimated,
    }


def _words(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _condition(text: str) -> tuple[str, str]:
    """`team:vision` and `label:run:17` as (dimension, value)."""
    name, colon, value = text.partition(":")
    if name == "label":
        key, colon, value = value.partition(":")
        name = f"label:{key}"
    if not colon:
        raise Rejected(
            f"{text[:80]!r} is not a filter; write dimension:value, as in team:vision",
            field="filter",
        )
    try:
        check_dimensions((name,))
    except Rejected as error:
        raise Rejected(
            f"{name[:80]!r} is not something costs can be filtered by",
            **{**error.facts, "field": "filter"},
        ) from None
    return name, value
