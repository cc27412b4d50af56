"""Routes of the probes and of Prometheus."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import Field

from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import View
from service.api.system.readiness import Readiness

router = Router(tags=["health"])


class AliveView(View):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadyView(View):
    """The service can do its work."""

    status: Literal["ready"] = "ready"
    warnings: Annotated[
        list[str] | None,
        Field(
            description="Problems that do not stop the service: projects that no daemon looks"
            " after, or a machine whose clock differs from the database's. Left out if there are"
            " none."
        ),
    ] = None


@router.get("/healthz", operation_id="get_health", responses=may_answer(500))
async def get_health() -> AliveView:
    """Whether the process answers; it says nothing of the database."""
    # Answered in the event loop, because all threads may be busy.
    return AliveView()


@router.get(
    "/readyz",
    operation_id="get_readiness",
    responses=may_answer(503),
    response_model_exclude_none=True,
)
async def get_readiness(request: Request) -> ReadyView:
    """Whether the service can do its work: 503, saying why, when the database cannot be read or
    written. Also shows which projects have no daemon."""
    readiness: Readiness = request.app.state.readiness
    return ReadyView(warnings=list(await readiness.read_warnings()) or None)


@router.get(
    "/metrics",
    operation_id="get_metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **may_answer(503)},
)
def get_metrics(request: Request) -> Response:
    """The fleet in aggregated gauges, and the requests by route, for Prometheus."""
    registry: CollectorRegistry = request.app.state.registry
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
