"""Route of the output of a job: the present output, or a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from pydantic import Field

from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body
from service.api.jobs.follow import LogFollowers, line_of, note_of
from service.application.jobs.logs import JobLogService, LogRead
from service.domain.errors import StewardError

router = Router(prefix="/v1/jobs", tags=["jobs"])

JSON_LINES = "application/jsonl"
MAX_PAGES = 1_000

_OUTPUT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One JSON object a line: `at`, `worker`, `attempt`, `text`. A line with"
        " `note` says why output is missing.",
        "content": {
            JSON_LINES: {"schema": {"type": "string"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
}


class LogQuery(Body):
    """Which output is wanted."""

    follow: bool = Field(
        default=False,
        description="Stay and send what comes, as server-sent events, until the job has ended.",
    )
    worker: int | None = Field(default=None, ge=0, description="Of one worker alone.")


@router.get(
    "/{job_id}/logs",
    operation_id="get_job_logs",
    response_class=Response,
    responses=_OUTPUT | may_answer(404, 422, 429, 502, 503),
)
async def get_job_logs(
    request: Request, job_id: str, query: Annotated[LogQuery, Query()]
) -> Response:
    """What the containers of the job have printed, by time, of all workers and attempts."""
    logs: LogFollowers = request.app.state.log_followers
    begin = await run_in_threadpool(logs.service.start_cursor, job_id)
    if query.follow:
        events = logs.follow_job(job_id, begin, query.worker)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)
    first = await run_in_threadpool(logs.service.read_next, job_id, begin)
    return StreamingResponse(
        _stream_pages(logs.service, job_id, first, query.worker), media_type=JSON_LINES
    )


def _stream_pages(
    service: JobLogService, job_id: str, read: LogRead, worker: int | None
) -> Iterator[bytes]:
    """The lines of all present pages. A failed read ends them with a note."""
    for _ in range(MAX_PAGES):
        yield from (line_of(line) for line in read.lines if worker in {None, line.worker})
        if not read.more:
            break
        try:
            read = service.read_next(job_id, read.cursor)
        except StewardError as error:
            yield note_of(f"the log could not be read completely: {error}")
            return
    for line in service.list_tails(job_id):
        if worker in {None, line.worker}:
            yield line_of(line)
    for note in read.notes:
        yield note_of(note)
