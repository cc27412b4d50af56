"""Routes of monthly statements."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response
from pydantic import Field

from service.api.http.deps import StatementsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Month, Page, PageQuery, Time, Usd, View, usd_or_none
from service.application.costs import statements as months
from service.domain.billing_period import PeriodState
from service.domain.clock import to_rfc3339
from service.domain.costs.csv_cell import format_cell
from service.domain.money import format_hours, format_usd
from service.store.statements import StatementLine

router = Router(prefix="/v1/statements", tags=["costs"])


class MonthView(View):
    """What is billed in a month; of one that is open, what is posted so far."""

    period: Month
    start: Time
    end: Time
    state: PeriodState = Field(
        description="`open` until it ends, `provisional` for 72 hours, then `closed`, which is"
        " final: corrections of a closed month are lines of the month in which they"
        " are made."
    )
    amount: Usd
    chip_seconds: int
    chip_hours: Usd
    vm_seconds: int = Field(description="Of the VMs that users drive legacy TPU Nodes with.")
    vm_hours: Usd
    currency: str = Field(default="USD", examples=["USD"])

    @classmethod
    def from_month(cls, month: months.MonthToDate) -> MonthView:
        """The view of a month."""
        return cls(
            period=month.period.name,
            start=to_rfc3339(month.period.start),
            end=to_rfc3339(month.period.end),
            state=month.state,
            amount=format_usd(month.amount),
            chip_seconds=month.chip_seconds,
            chip_hours=format_hours(month.chip_seconds),
            vm_seconds=month.vm_seconds,
            vm_hours=format_hours(month.vm_seconds),
        )


class MonthPage(Page):
    """A page of months, the latest first."""

    statements: tuple[MonthView, ...]


class StatementLineView(View):
    """One line: what one owner used of one type in one zone at one price; or what of a reservation
    nobody used, whose type is its generation."""

    project: str
    team: str
    owner: str
    generation: str
    accelerator_type: str
    provisioning_model: str
    zone: str
    corrects: str = Field(description="The closed month that it corrects; empty elsewhere.")
    usd_per_chip_hour: Usd = Field(description="Of a VM: per hour of that.")
    list_usd_per_chip_hour: Usd | None
    chip_seconds: int
    chip_hours: Usd
    amount: Usd
    list_amount: Usd | None
    vm_seconds: int = Field(
        description="Those of the VM that drives a legacy TPU Node, where it is a line of that."
    )
    vm_hours: Usd
    reservation: str = Field(
        description="The name of the calendar-mode reservation that it used; empty where none is"
        " recorded.",
        examples=["march"],
    )
    reservation_status: Literal["", "used", "unused"] = Field(
        description="Whether nodes used that, or nobody did; empty without a reservation."
    )

    @classmethod
    def from_line(cls, line: StatementLine) -> StatementLineView:
        """The view of a line."""
        return cls(
            project=line.project,
            team=line.team,
            owner=line.owner,
            generation=line.generation,
            accelerator_type=line.accelerator_type,
            provisioning_model=line.model,
            zone=line.zone,
            corrects=line.corrects,
            usd_per_chip_hour=format_usd(line.price),
            list_usd_per_chip_hour=usd_or_none(line.list_price),
            chip_seconds=line.chip_seconds,
            chip_hours=format_hours(line.chip_seconds),
            amount=format_usd(line.amount),
            list_amount=usd_or_none(line.list_amount),
            vm_seconds=line.vm_seconds,
            vm_hours=format_hours(line.vm_seconds),
            reservation=line.reservation,
            reservation_status=line.reservation_status,
        )


class StatementView(MonthView):
    """A month with its lines; they sum to its amount, exactly."""

    lines: tuple[StatementLineView, ...]


class StatementQuery(Body):
    """How it is written."""

    format: Literal["json", "csv"] = Field(
        default="json", description="`csv` is the lines alone: the same bytes for the same month."
    )


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": StatementView, "content": {"text/csv": {"schema": {"type": "string"}}}},
    **may_answer(422),
}


@router.get("", operation_id="list_statements", responses=may_answer(422))
def list_statements(statements: StatementsDep, query: Annotated[PageQuery, Query()]) -> MonthPage:
    """Every month since the first charge, the latest first, with what is billed in it."""
    found, token = query.cut_page(statements.list_months())
    return MonthPage(statements=tuple(map(MonthView.from_month, found)), next_page_token=token)


@router.get("/{period}", operation_id="get_statement", responses=_ANSWERS)
def get_statement(
    period: Annotated[Month, Path()],
    statements: StatementsDep,
    query: Annotated[StatementQuery, Query()],
) -> Response:
    """One month, line by line."""
    found = statements.get_statement(period)
    if query.format == "csv":
        text = io.StringIO()  # the same bytes for the same month, whenever the request is
        writer = csv.writer(text)
        writer.writerow(StatementLineView.model_fields)
        for line in found.lines:
            writer.writerow(
                map(format_cell, StatementLineView.from_line(line).model_dump().values())
            )
        name = f'attachment; filename="statement-{found.month.period.name}.csv"'
        return Response(
            text.getvalue(), media_type="text/csv", headers={"Content-Disposition": name}
        )
    view = StatementView(
        **MonthView.from_month(found.month).model_dump(),
        lines=tuple(map(StatementLineView.from_line, found.lines)),
    )
    return Response(view.model_dump_json(), media_type="application/json")
