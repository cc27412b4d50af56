"""Route of the FOCUS export of the ledger, a stream of any length."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import chain
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

from service.api.http.deps import ExportsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, WindowText
from service.domain.clock import to_rfc3339
from service.domain.costs.focus import Version

router = Router(prefix="/v1/exports", tags=["costs"])

_CSV: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One row for each entry of the ledger",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }
}


class FocusQuery(Body):
    """Which charges are asked for, and in which edition of FOCUS."""

    version: Version = Field(
        default=Version.V1_2, description="The edition of FOCUS.", examples=["1.4"]
    )
    window: WindowText = Field(
        default="mtd",
        description="`7d`, `24h`, `today`, `mtd`, or two instants or dates: `A,B`; in UTC. What"
        " corrects a closed month is billed at the beginning of the month in which it was found.",
        examples=["2026-10-01,2026-11-01"],
    )


@router.get(
    "/focus",
    operation_id="export_focus",
    response_class=StreamingResponse,
    responses={**_CSV, **may_answer(422, 429)},
)
def export_focus(exports: ExportsDep, query: Annotated[FocusQuery, Query()]) -> StreamingResponse:
    """What was billed, as FOCUS cost and usage rows in CSV; only what is posted, never a guess."""
    export = exports.export_focus(query.version, query.window)
    stamp = "-".join(
        to_rfc3339(instant).replace("-", "").replace(":", "")
        for instant in (export.window.start, export.window.end)
    )
    name = f"focus-{query.version}-{stamp}.csv"
    return _Pieces(
        export.pieces,
        media_type="text/csv; charset=utf-8; header=present",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


class _Pieces(StreamingResponse):
    """Sends pieces of text, and closes their generator at the end of the answer, also when the
    client disconnects. The place of the export is free again then.

    The first piece is made before the status is sent, so that an unreadable database is answered
    with a problem.
    """

    def __init__(self, pieces: Generator[str], **settings: Any) -> None:
        self._pieces = pieces
        super().__init__(chain([next(pieces)], pieces), **settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        with closing(self._pieces):
            await super().__call__(scope, receive, send)
