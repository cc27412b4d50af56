"""Routes of jobs and their attempts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import Field

from service.api.http.deps import JobsDep
from service.api.http.idempotency import HIT, IdempotencyKey, key_of, mark_repeat
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Line
from service.api.jobs.request import JobRequest
from service.api.jobs.views import AttemptPage, AttemptView, JobPage, JobView, SubmittedView
from service.application.jobs.jobs import JobFilter
from service.domain.jobs.job import JobState

router = Router(prefix="/v1/jobs", tags=["jobs"])

_CREATED: dict[int | str, dict[str, Any]] = {
    200: {"model": SubmittedView, "description": "A dry run: what would be recorded."},
    201: {
        "model": SubmittedView,
        "headers": {"Location": {"schema": {"type": "string"}}, **HIT},
    },
}


class JobQuery(Body):
    """Which jobs are listed."""

    state: JobState | None = Field(default=None)
    owner: Line | None = Field(default=None)
    team: Line | None = Field(default=None)
    node_id: Line | None = Field(default=None)
    project: Line | None = Field(default=None)
    page_size: int = Field(default=100, ge=1, le=1000, description="The most items to return.")
    page_token: str = Field(
        default="",
        pattern=r"^[0-9a-f-]{0,36}$",
        description="The `next_page_token` of the previous page.",
    )


@router.post(
    "",
    status_code=201,
    operation_id="submit_job",
    responses=_CREATED | may_answer(400, 403, 404, 409, 413, 415, 422),
)
def submit_job(
    body: JobRequest, jobs: JobsDep, response: Response, idempotency_key: IdempotencyKey = None
) -> SubmittedView:
    """Record a job and answer at once; the daemon runs it on every worker of its node."""
    if body.dry_run:
        response.status_code = 200
        return SubmittedView.from_submission(jobs.try_out(body.to_submission()), dry_run=True)
    found = jobs.submit(body.to_submission(), key=key_of(idempotency_key, body))
    response.headers["Location"] = f"/v1/jobs/{found.shown.job.id}"
    mark_repeat(response, created=found.created)
    return SubmittedView.from_submission(found, dry_run=False)


@router.get("", operation_id="list_jobs", responses=may_answer(422, 503))
def list_jobs(jobs: JobsDep, query: Annotated[JobQuery, Query()]) -> JobPage:
    """The jobs that match, the newest first, with what they cost so far."""
    only = JobFilter(query.state, query.owner, query.team, query.node_id, query.project)
    found, token = jobs.list_page(only, query.page_size, query.page_token)
    return JobPage(jobs=tuple(map(JobView.from_status, found)), next_page_token=token)


@router.get("/{job_id}", operation_id="get_job", responses=may_answer(404, 422))
def get_job(job_id: str, jobs: JobsDep) -> JobView:
    """One job."""
    return JobView.from_status(jobs.get(job_id))


@router.post(
    "/{job_id}:cancel",
    status_code=202,
    operation_id="cancel_job",
    responses=may_answer(404, 409, 422),
)
def cancel_job(job_id: str, jobs: JobsDep) -> JobView:
    """Request the end of a job: SIGTERM, the grace period, then SIGKILL. The job is over when its
    state is CANCELLED, or another final state that it reached first."""
    return JobView.from_status(jobs.cancel(job_id))


@router.get("/{job_id}/attempts", operation_id="list_job_attempts", responses=may_answer(404, 422))
def list_job_attempts(job_id: str, jobs: JobsDep) -> AttemptPage:
    """The attempts of the job with their nodes, exit codes, reasons and what each phase cost."""
    found = jobs.list_attempts(job_id)
    return AttemptPage(attempts=tuple(map(AttemptView.from_attempt, found)), next_page_token="")
