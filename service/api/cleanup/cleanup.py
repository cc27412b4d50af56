"""How the cleanup stands, its plan, its history and its pause, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from service.api.cleanup.views import (
    CleanupView,
    CoverageReport,
    CoverageView,
    EndedView,
    HistoryPage,
    IdleView,
    PlanView,
    ProjectView,
)
from service.api.deps import CleanupDep
from service.api.problems import may_answer
from service.api.schemas import Body, Line, Name, PageQuery, View

router = APIRouter(prefix="/v1", tags=["cleanup"])

CALLER = "caller"


class PlanRequest(Body):
    """Which project to plan for."""

    project: Name = Field(default="", description="May be left out where there is one alone.")


class ApplyRequest(Body):
    """Which plan to apply."""

    plan_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] = Field(
        description="The `plan_id` of the plan that was looked at.",
        examples=["5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"],
    )


class PauseRequest(Body):
    """What to pause, and why."""

    project: Name = Field(default="", description="Every project where it is left out.")
    reason: Line = Field(description="Shown to everybody who asks why nothing happens.")


class ResumeRequest(Body):
    """What to resume."""

    project: Name = Field(default="", description="Every project where it is left out.")
    breaker: bool = Field(
        default=False,
        description="Close the breaker of the project by hand, rather than end a pause.",
    )
    reason: Line = Field(default="", description="Why the breaker is closed; needed for that.")


class PausedView(View):
    """The projects as they stand now."""

    projects: tuple[ProjectView, ...]


@router.get("/cleanup", operation_id="get_cleanup", responses=may_answer(503))
def get_cleanup(service: CleanupDep) -> CleanupView:
    """What the cleanup daemon may do, which rails hold it, and which nodes wait."""
    return CleanupView.of(tuple(service.standings()), service.mode)


@router.post("/cleanup:plan", operation_id="plan_cleanup", responses=may_answer(404, 422))
def plan_cleanup(service: CleanupDep, body: PlanRequest) -> PlanView:
    """Show exactly what would be stopped or deleted now, why, and what that saves. Nothing is
    changed by it, and nodes of policies that only observe or notify are not in it."""
    return PlanView.of(service.plan(body.project, CALLER))


@router.post("/cleanup:apply", operation_id="apply_cleanup", responses=may_answer(409, 422))
def apply_cleanup(service: CleanupDep, body: ApplyRequest) -> PlanView:
    """Do what a plan says, all of it and nothing else. Where anything has changed since it was
    made, it is refused as stale, and nothing is done. Rails, grace and mode do not hold a person.
    """
    return PlanView.of(service.apply(body.plan_id, CALLER))


@router.post("/cleanup:pause", operation_id="pause_cleanup", responses=may_answer(404, 409, 422))
def pause_cleanup(service: CleanupDep, body: PauseRequest) -> PausedView:
    """Have the daemon end nothing for idleness until it is resumed."""
    rows = service.pause(body.project, CALLER, body.reason)
    return PausedView(projects=tuple(map(ProjectView.of, rows)))


@router.post("/cleanup:resume", operation_id="resume_cleanup", responses=may_answer(404, 409, 422))
def resume_cleanup(service: CleanupDep, body: ResumeRequest) -> PausedView:
    """Have the daemon go on after a pause, or close the breaker by hand."""
    if body.breaker:
        rows = [service.close_breaker(body.project, CALLER, body.reason)]
    else:
        rows = list(service.resume(body.project))
    return PausedView(projects=tuple(map(ProjectView.of, rows)))


@router.get("/cleanup/coverage", operation_id="get_cleanup_coverage", responses=may_answer(503))
def get_coverage(service: CleanupDep) -> CoverageReport:
    """Which metrics have data for how many nodes, how old they are, and which nodes nobody sees."""
    return CoverageReport(projects=tuple(map(CoverageView.of, service.coverage())))


@router.get("/cleanup/history", operation_id="list_cleanup_history", responses=may_answer(422))
def list_history(service: CleanupDep, query: Annotated[PageQuery, Query()]) -> HistoryPage:
    """What was stopped or deleted for idleness, the newest first, with the evidence."""
    found, token = query.cut(service.history())
    return HistoryPage(history=tuple(map(EndedView.of, found)), next_page_token=token)


@router.get("/nodes/{node_id}/idle", operation_id="get_node_idle", responses=may_answer(404, 422))
def get_idle(node_id: Annotated[str, Path()], service: CleanupDep) -> IdleView:
    """How far a node has come, every signal of every worker, what blocks its end, and when it would
    be; also after its end, with the evidence."""
    return IdleView.of(service.node(node_id), service.now())
