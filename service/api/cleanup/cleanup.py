"""Routes of the cleanup: its state, plan, pause, coverage and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from service.api.cleanup.views import (
    CleanupPlanView,
    CleanupProjectView,
    CleanupView,
    CoverageReport,
    CoverageView,
    EndedView,
    HistoryPage,
    NodeIdleView,
)
from service.api.http.deps import CleanupDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Line, Name, PageQuery, View
from service.application.cleanup.cleanup import CleanupService
from service.domain.idle.cleanup import Cleanup

router = Router(prefix="/v1", tags=["cleanup"])

CALLER = "caller"


class CleanupPlanRequest(Body):
    """Which project to plan for."""

    project: Name = Field(
        default="", description="The project; may be left out if there is only one."
    )


class ApplyRequest(Body):
    """Which plan to apply."""

    plan_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] = Field(
        description="The `plan_id` that `POST /v1/cleanup:plan` answered.",
        examples=["5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"],
    )


class PauseRequest(Body):
    """What to pause, and why."""

    project: Name = Field(default="", description="The project; every project if it is left out.")
    reason: Line = Field(description="Why the cleanup is paused; shown to everybody.")


class ResumeRequest(Body):
    """What to resume."""

    project: Name = Field(default="", description="The project; every project if it is left out.")
    breaker: bool = Field(
        default=False,
        description="Close the breaker of the project, in place of ending a pause.",
    )
    reason: Line = Field(
        default="", description="Why the breaker is closed; required with `breaker`."
    )


class PausedView(View):
    """The projects as they stand now."""

    projects: tuple[CleanupProjectView, ...]


@router.get("/cleanup", operation_id="get_cleanup", responses=may_answer(503))
def get_cleanup(service: CleanupDep) -> CleanupView:
    """Get the mode of the cleanup, the rails that hold it, and the nodes that wait."""
    return CleanupView.from_standings(tuple(service.list_statuses()), service.mode)


@router.post("/cleanup:plan", operation_id="plan_cleanup", responses=may_answer(404, 422))
def plan_cleanup(service: CleanupDep, body: CleanupPlanRequest) -> CleanupPlanView:
    """Make a plan: what would be stopped or deleted now, why, and what that saves. No node is
    changed. Nodes whose policy only observes or notifies are not in the plan."""
    return CleanupPlanView.from_plan(service.make_plan(body.project, CALLER))


@router.post("/cleanup:apply", operation_id="apply_cleanup", responses=may_answer(409, 422))
def apply_cleanup(service: CleanupDep, body: ApplyRequest) -> CleanupPlanView:
    """Apply a plan, all of it. The plan is refused as stale, and nothing is done, if anything has
    changed since it was made. Rails, grace and mode do not hold it back, because a person requested
    it.
    """
    return CleanupPlanView.from_plan(service.apply_plan(body.plan_id, CALLER))


@router.post("/cleanup:pause", operation_id="pause_cleanup", responses=may_answer(404, 409, 422))
def pause_cleanup(service: CleanupDep, body: PauseRequest) -> PausedView:
    """Pause the cleanup. Until a resume, no node is ended for idleness or its time to live."""
    return _build_paused(service, service.pause(body.project, CALLER, body.reason))


@router.post("/cleanup:resume", operation_id="resume_cleanup", responses=may_answer(404, 409, 422))
def resume_cleanup(service: CleanupDep, body: ResumeRequest) -> PausedView:
    """End a pause of the cleanup, or close the breaker of a project."""
    if body.breaker:
        rows = [service.close_breaker(body.project, CALLER, body.reason)]
    else:
        rows = list(service.resume(body.project))
    return _build_paused(service, rows)


def _build_paused(service: CleanupService, rows: Sequence[Cleanup]) -> PausedView:
    names = service.names_of_waiting(rows)
    return PausedView(projects=tuple(CleanupProjectView.from_cleanup(row, names) for row in rows))


@router.get("/cleanup/coverage", operation_id="get_cleanup_coverage", responses=may_answer(503))
def get_coverage(service: CleanupDep) -> CoverageReport:
    """Get which metrics have data, for how many nodes, how old it is, and which nodes have none."""
    return CoverageReport(projects=tuple(map(CoverageView.from_coverage, service.read_coverage())))


@router.get("/cleanup/history", operation_id="list_cleanup_history", responses=may_answer(422))
def list_history(service: CleanupDep, query: Annotated[PageQuery, Query()]) -> HistoryPage:
    """List the nodes that were stopped or deleted for idleness, newest first, with the evidence."""
    found, token = query.cut_page(service.list_ended())
    return HistoryPage(history=tuple(map(EndedView.from_ended, found)), next_page_token=token)


@router.get("/nodes/{node_id}/idle", operation_id="get_node_idle", responses=may_answer(404, 422))
def get_idle(node_id: Annotated[str, Path()], service: CleanupDep) -> NodeIdleView:
    """Get the idle state of a node, every signal of every worker, what holds its end back, and when
    it is due. After the end of the node, the evidence is shown too."""
    return NodeIdleView.from_node(service.get_node(node_id), service.current_time())
