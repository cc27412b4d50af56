"""Reconciliations over HTTP: the cloud's bill held against our ledger, in a stream."""

from __future__ import annotations

from functools import partial
from tempfile import TemporaryFile
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from service.api.deps import ReconciliationsDep
from service.api.problems import may_answer
from service.api.schemas import Body, Line, NumberedQuery, Page, PageQuery, Time, Usd, View
from service.application.reconciliations import DEFAULT_TOLERANCE, Kept, Outcome
from service.domain.bill import Tally
from service.domain.billfile import Shape
from service.domain.clock import rfc3339
from service.domain.comparison import Difference, Seen, Verdict
from service.domain.money import parse_usd, usd

PATH = "/v1/reconciliations"

router = APIRouter(prefix=PATH, tags=["costs"])

BillId = Annotated[
    str, Path(pattern=r"^[0-9a-f-]{36}$", description="Its id, from the list of reconciliations.")
]
_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself: Google's detailed billing export as CSV (`service.id` or"
        " `service_id`) or as JSON lines, or a FOCUS export.",
        "content": {"text/csv": _FILE, "application/x-ndjson": _FILE},
    }
}
_MADE: dict[int | str, dict[str, Any]] = {
    201: {"headers": {"Location": {"schema": {"type": "string"}}}}
}


class ReconcileQuery(Body):
    """How the file is called, and what is of no interest in it."""

    name: Line = Field(default="", description="What it is called.", examples=["november.csv"])
    tolerance: str = Field(
        default=usd(DEFAULT_TOLERANCE),
        max_length=30,
        description="Dollars that an hour of a node may differ by and be no more than `tolerated`.",
        examples=["0.01"],
    )

    @field_validator("tolerance")
    @classmethod
    def _is_an_amount(cls, text: str) -> str:
        if parse_usd(text) < 0:
            raise ValueError("should be zero or more")
        return text


class LinesQuery(NumberedQuery):
    """Which comparisons to list."""

    verdict: tuple[Verdict, ...] = Field(
        default=(), max_length=10, description="Only these; may be repeated."
    )


class TallyView(View):
    """Comparisons together. The variance is the bill less the ledger."""

    lines: int = Field(description="Hours of a node, by SKU.")
    billed: Usd
    credits: Usd = Field(description="What Google takes off; never more than zero.")
    net: Usd = Field(description="What is billed, with its credits.")
    charged: Usd = Field(description="What our ledger says.")
    variance: Usd
    more: Usd = Field(description="What the bill says more, over all hours in which it does.")
    less: Usd = Field(description="What the bill says less; never more than zero.")
    variance_percent: str | None = Field(
        description="Of what matched; null where nothing did.", examples=["0.0213"]
    )

    @classmethod
    def of(cls, tally: Tally) -> TallyView:
        """The view of a sum."""
        return cls(**_tally(tally))


class SkuView(TallyView):
    """The comparisons of one SKU; the id is empty where nothing of it is on the bill."""

    sku_id: str = Field(examples=["2549-F208-72FA"])
    generation: str = Field(examples=["v6e"])
    provisioning_model: str = Field(examples=["on_demand"])


class ProjectView(TallyView):
    """The comparisons of one project."""

    project: str = Field(examples=["lab"])


class ApartView(View):
    """Rows of one cost type that are no usage: in none of the sums."""

    rows: int
    cost: Usd


class RowsView(View):
    """The rows of the file. A duplicate equals another one in every column, and counts once."""

    read: int
    duplicates: int
    other_projects: int = Field(description="Ignored: not of a project of this service.")
    not_tpu: int = Field(description="Ignored: no TPU.")


class ReconciliationView(View):
    """A bill held against the ledger. `pending` is in none of the sums but its own."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["november.csv"])
    known: bool = Field(description="Whether the very same file had been sent before.")
    shape: Shape
    created_at: Time
    start: Time | None = Field(description="The first hour that the bill speaks of.")
    end: Time | None
    newest: Time | None = Field(description="When its newest row was written.")
    tolerance: Usd
    rows: RowsView
    apart: dict[str, ApartView] = Field(description="Tax, adjustments, commitments and the like.")
    total: TallyView
    verdicts: dict[Verdict, TallyView]
    skus: tuple[SkuView, ...]
    projects: tuple[ProjectView, ...]
    currency: str = Field(examples=["USD"])

    @classmethod
    def of(cls, outcome: Outcome) -> ReconciliationView:
        """The view of an outcome."""
        bill, found = outcome.bill, outcome.headline
        counts = bill.counts
        return cls(
            id=bill.id,
            name=bill.name,
            known=outcome.known,
            shape=bill.shape,
            created_at=rfc3339(bill.created_at),
            start=_time(counts.start),
            end=_time(counts.end),
            newest=_time(counts.newest),
            tolerance=usd(bill.tolerance),
            rows=RowsView(
                read=counts.rows,
                duplicates=bill.duplicates,
                other_projects=counts.other_projects,
                not_tpu=counts.not_tpu,
            ),
            apart={
                kind: ApartView(rows=one.rows, cost=usd(one.cost))
                for kind, one in bill.apart.items()
            },
            total=TallyView.of(found.total),
            verdicts={verdict: TallyView.of(one) for verdict, one in found.verdicts.items()},
            skus=tuple(
                SkuView(sku_id=key[0], generation=key[1], provisioning_model=key[2], **_tally(one))
                for key, one in found.skus.items()
            ),
            projects=tuple(
                ProjectView(project=project, **_tally(one))
                for project, one in found.projects.items()
            ),
            currency="USD",
        )


class ReconciliationPage(Page):
    """A page of reconciliations, the newest first."""

    reconciliations: tuple[ReconciliationView, ...]


class ComparisonView(View):
    """One hour of one resource, by SKU: what the bill says, what the ledger says, who saw it."""

    id: int
    verdict: Verdict
    project: str = Field(examples=["lab"])
    resource: str = Field(
        description="The bill's name of it; empty where the bill has none.",
        examples=["//tpu.googleapis.com/projects/lab/locations/us-west4-a/nodes/somebodys"],
    )
    node_id: str = Field(description="Empty where it is no node of ours.")
    sku_id: str = Field(examples=["2549-F208-72FA"])
    description: str = Field(examples=["TpuV6e running in Dallas"])
    generation: str = Field(examples=["v6e"])
    provisioning_model: str = Field(examples=["on_demand"])
    hour: Time
    billed: Usd
    credits: Usd
    billed_at_list: Usd | None
    billed_chip_seconds: int | None
    charged: Usd
    charged_at_list: Usd | None = Field(description="On demand, at list price.")
    charged_chip_seconds: int
    variance: Usd
    variance_by_seconds: Usd | None = Field(
        description="What the seconds account for, at our price; the rest is the price. Null where"
        " the bill does not say how long."
    )
    difference: Difference
    seen: Seen = Field(description="Whether our inventory ever saw it, and as what.")
    reason: str

    @classmethod
    def of(cls, kept: Kept) -> ComparisonView:
        """The view of a comparison."""
        line = kept.line
        return cls(
            id=kept.id,
            verdict=line.verdict,
            project=line.project,
            resource=line.resource,
            node_id=line.node_id,
            sku_id=line.sku_id,
            description=line.description,
            generation=line.generation,
            provisioning_model=line.model,
            hour=rfc3339(line.hour),
            billed=usd(line.billed),
            credits=usd(line.credits),
            billed_at_list=_usd(line.billed_at_list),
            billed_chip_seconds=line.billed_chip_seconds,
            charged=usd(line.charged),
            charged_at_list=_usd(line.charged_at_list),
            charged_chip_seconds=line.charged_chip_seconds,
            variance=usd(line.variance),
            variance_by_seconds=_usd(line.by_seconds),
            difference=line.difference,
            seen=line.seen,
            reason=line.reason,
        )


class ComparisonPage(Page):
    """A page of comparisons."""

    lines: tuple[ComparisonView, ...]


@router.post(
    "",
    status_code=201,
    operation_id="reconcile_bill",
    openapi_extra=_BODY,
    responses={**_MADE, **may_answer(413, 422, 429)},
)
async def reconcile_bill(
    request: Request,
    reconciliations: ReconciliationsDep,
    query: Annotated[ReconcileQuery, Query()],
    response: Response,
) -> ReconciliationView:
    """Hold a billing export against the ledger, three ways: ledger, inventory and bill.

    The very same file a second time, with the same tolerance, changes nothing and is told by
    `known`, so it can be sent again whenever the answer was lost.
    """
    with reconciliations.receiving(), TemporaryFile() as file:
        try:
            async for chunk in request.stream():
                await to_thread.run_sync(file.write, chunk)
        except ClientDisconnect:
            raise HTTPException(400) from None
        file.seek(0)
        work = partial(
            reconciliations.reconcile,
            file,
            name=query.name,
            tolerance=parse_usd(query.tolerance),
        )
        outcome = await to_thread.run_sync(work)
    response.headers["Location"] = f"{PATH}/{outcome.bill.id}"
    return ReconciliationView.of(outcome)


@router.get("", operation_id="list_reconciliations", responses=may_answer(422))
def list_reconciliations(
    reconciliations: ReconciliationsDep, query: Annotated[PageQuery, Query()]
) -> ReconciliationPage:
    """The bills that were held against the ledger, the newest first."""
    start = int(query.page_token or 0)
    found = reconciliations.all(query.page_size + 1, start)
    page, more = found[: query.page_size], len(found) > query.page_size
    return ReconciliationPage(
        reconciliations=tuple(map(ReconciliationView.of, page)),
        next_page_token=str(start + query.page_size) if more else "",
    )


@router.get("/{bill_id}", operation_id="get_reconciliation", responses=may_answer(404, 422))
def get_reconciliation(bill_id: BillId, reconciliations: ReconciliationsDep) -> ReconciliationView:
    """The headline of one: the variance in both directions, by verdict, by SKU and by project."""
    return ReconciliationView.of(reconciliations.outcome(bill_id))


@router.get(
    "/{bill_id}/lines", operation_id="list_reconciliation_lines", responses=may_answer(404, 422)
)
def list_reconciliation_lines(
    bill_id: BillId, reconciliations: ReconciliationsDep, query: Annotated[LinesQuery, Query()]
) -> ComparisonPage:
    """Its comparisons, hour by hour."""
    found = reconciliations.lines(bill_id, query.verdict, query.after, query.one_more)
    page, token = query.cut(found, [one.id for one in found])
    return ComparisonPage(lines=tuple(map(ComparisonView.of, page)), next_page_token=token)


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "lines": tally.lines,
        "billed": usd(tally.billed),
        "credits": usd(tally.credits),
        "net": usd(tally.net),
        "charged": usd(tally.charged),
        "variance": usd(tally.variance),
        "more": usd(tally.more),
        "less": usd(tally.less),
        "variance_percent": tally.percent,
    }


def _usd(nanos: int | None) -> str | None:
    return None if nanos is None else usd(nanos)


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
