"""Routes of reconciliations: Google's bill compared with the ledger."""

from __future__ import annotations

from functools import partial
from tempfile import TemporaryFile
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Path, Query, Request, Response
from pydantic import Field, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from service.api.costs.reconciliation_views import (
    ComparisonPage,
    ComparisonView,
    ReconciliationPage,
    ReconciliationView,
    RemovedReconciliationsView,
)
from service.api.http.deps import ReconciliationsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Line, NumberedQuery, PageQuery
from service.application.reconciliations import DEFAULT_TOLERANCE
from service.domain.money import format_usd, parse_usd
from service.domain.reconciliation.variance import Verdict

PATH = "/v1/reconciliations"

router = Router(prefix=PATH, tags=["costs"])

BillId = Annotated[
    str, Path(pattern=r"^[0-9a-f-]{36}$", description="Its id, from the list of reconciliations.")
]
_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself: Google's detailed billing export as CSV (`service.id` or"
        " `service_id`) or as JSON lines, or a FOCUS export. Any media type will do.",
        "content": {"application/octet-stream": _FILE},
    }
}
_MADE: dict[int | str, dict[str, Any]] = {
    201: {"headers": {"Location": {"schema": {"type": "string"}}}}
}


class ReconcileQuery(Body):
    """How the file is called, and what is of no interest in it."""

    name: Line = Field(default="", description="What it is called.", examples=["november.csv"])
    tolerance: str = Field(
        default=format_usd(DEFAULT_TOLERANCE),
        max_length=30,
        description="Dollars that an hour of a node may differ by and be no more than `tolerated`.",
        examples=["0.01"],
    )
    alone: bool = Field(
        default=False,
        description="Compare this file without the earlier files of its months, and keep it out of"
        " later ones: for a trial, or a file that holds only part of a bill.",
    )

    @field_validator("tolerance")
    @classmethod
    def _check_amount(cls, text: str) -> str:
        if parse_usd(text) < 0:
            raise ValueError("should be zero or more")
        return text


class LinesQuery(NumberedQuery):
    """Which comparisons to list."""

    verdict: tuple[Verdict, ...] = Field(
        default=(), max_length=10, description="Only these; may be repeated."
    )


@router.post(
    "",
    status_code=201,
    operation_id="reconcile_bill",
    openapi_extra=_BODY,
    responses={**_MADE, **may_answer(400, 409, 413, 422, 429)},
)
async def reconcile_bill(
    request: Request,
    reconciliations: ReconciliationsDep,
    query: Annotated[ReconcileQuery, Query()],
    response: Response,
) -> ReconciliationView:
    """Hold a billing export against the ledger, three ways: ledger, inventory and bill.

    A later file of the same invoice month joins the files that were sent before. Rows that both
    files have count once, late rows and corrections add up, and the answer is about the whole
    month. With `alone`, the answer is about this file, and no other file joins it.

    The same file with the same tolerance changes nothing (`known` is true), so it can be sent again
    if the answer was lost.
    """
    with reconciliations.take_place(), TemporaryFile() as file:
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
            alone=query.alone,
        )
        outcome = await to_thread.run_sync(work)
    response.headers["Location"] = f"{PATH}/{outcome.bill.id}"
    return ReconciliationView.from_reconciliation(outcome)


@router.get("", operation_id="list_reconciliations", responses=may_answer(422))
def list_reconciliations(
    reconciliations: ReconciliationsDep, query: Annotated[PageQuery, Query()]
) -> ReconciliationPage:
    """List the bills that were reconciled with the ledger, newest first."""
    start = int(query.page_token or 0)
    found = reconciliations.list_newest(query.page_size + 1, start)
    page, more = found[: query.page_size], len(found) > query.page_size
    return ReconciliationPage(
        reconciliations=tuple(map(ReconciliationView.from_reconciliation, page)),
        next_page_token=str(start + query.page_size) if more else "",
    )


@router.get("/{bill_id}", operation_id="get_reconciliation", responses=may_answer(404, 422))
def get_reconciliation(bill_id: BillId, reconciliations: ReconciliationsDep) -> ReconciliationView:
    """The headline of one: the variance in both directions, by verdict, by SKU and by project."""
    return ReconciliationView.from_reconciliation(reconciliations.get_outcome(bill_id))


@router.delete(
    "/{bill_id}", operation_id="delete_reconciliation", responses=may_answer(404, 409, 422)
)
def delete_reconciliation(
    bill_id: BillId, reconciliations: ReconciliationsDep
) -> RemovedReconciliationsView:
    """Delete a reconciliation, for instance of a wrong file, with its rows and comparisons.

    The earlier files of its months are deleted as well, because their rows have become part of it.
    The answer names all of them. Send those that are right again. The ledger does not change.
    """
    return RemovedReconciliationsView.from_bills(reconciliations.delete(bill_id))


@router.get(
    "/{bill_id}/lines", operation_id="list_reconciliation_lines", responses=may_answer(404, 422)
)
def list_reconciliation_lines(
    bill_id: BillId, reconciliations: ReconciliationsDep, query: Annotated[LinesQuery, Query()]
) -> ComparisonPage:
    """Its comparisons, hour by hour."""
    found = reconciliations.list_lines(bill_id, query.verdict, query.after_number, query.one_more)
    page, token = query.cut_page(found, [comparison.id for comparison in found])
    return ComparisonPage(
        lines=tuple(map(ComparisonView.from_comparison, page)), next_page_token=token
    )
