"""The application: all routers, behind the middleware."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

from anyio import to_thread
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from service.api import fleet, orphans
from service.api.bodies import RequestBodies
from service.api.budgets import budgets
from service.api.catalog import capacity, catalog, quotas, runtimes
from service.api.cleanup import cleanup, heartbeats, policies
from service.api.costs import (
    commitments,
    costs,
    estimates,
    exports,
    forecasts,
    plans,
    recommendations,
    reconciliations,
    reservations,
    statements,
)
from service.api.http.auth import Auth, OpenAuth
from service.api.http.head import Head
from service.api.http.middleware import Guard
from service.api.http.problems import HANDLERS
from service.api.jobs import jobs
from service.api.jobs import logs as job_logs
from service.api.jobs.follow import LogFollowers
from service.api.nodes import connection, keeps, nodes
from service.api.openapi.openapi import correct_document
from service.api.pricing import discounts, prices
from service.api.system import health
from service.api.system.metrics import FleetCollector, OrphanCollector, RequestMetrics
from service.api.system.readiness import Readiness
from service.api.system.spend_metrics import (
    BuildCollector,
    SpendCollector,
    WasteCollector,
    read_version,
)
from service.application.services import Services

_SHARED_COUNTS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that prometheus_client reads at its import: the folder for the counts of processes."""

_WITH_ROUTES = (
    nodes,
    jobs,
    job_logs,
    orphans,
    connection,
    fleet,
    estimates,
    plans,
    prices,
    discounts,
    reservations,
    commitments,
    costs,
    budgets,
    statements,
    forecasts,
    exports,
    catalog,
    capacity,
    quotas,
    recommendations,
    reconciliations,
    runtimes,
    health,
    cleanup,
    heartbeats,
    keeps,
    policies,
)


def create_app(services: Services, admin_token: str | None, *, at_once: int = 16) -> FastAPI:
    """The API over these services. Without a token it answers to loopback names only.

    `at_once` is the number of threads for requests, each with a database connection. More of them
    would only wait for each other.

    FastAPI's own /docs is off: it loads scripts from other sites, which the content security policy
    forbids. The dashboard has a page at that path. The guard limits bodies, because FastAPI's
    answer to a body that is too large is no problem document.
    """
    registry = counting = CollectorRegistry()
    if _SHARED_COUNTS in os.environ:
        # With several processes on one socket, /metrics adds up the requests that each counts.
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        counting = CollectorRegistry()
    registry.register(FleetCollector(services.health))
    registry.register(OrphanCollector(services.orphans))
    registry.register(SpendCollector(services.costs, services.forecasts, services.budgets))
    registry.register(WasteCollector(services.attention))
    registry.register(BuildCollector())
    roomy = {reconciliations.PATH: services.reconciliations.max_bytes}
    app = FastAPI(
        title="TPU Steward",
        summary="Owns the life of every Cloud TPU in your projects.",
        version=read_version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=HANDLERS,
        lifespan=partial(_limit_threads, at_once),
        middleware=[  # the outermost first
            Middleware(RequestMetrics, registry=counting),
            Middleware(Head),
            Middleware(Guard, loopback_only=not admin_token, roomy=roomy),
            Middleware(Auth, token=admin_token) if admin_token else Middleware(OpenAuth),
        ],
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.services = services
    app.state.bodies = RequestBodies()
    app.state.log_followers = LogFollowers(services.job_logs)
    app.state.readiness = Readiness(services.readiness)
    app.state.registry = registry
    app.router.routes += _build_routes()
    plain = app.openapi
    app.openapi = cache(lambda: correct_document(plain(), guarded=bool(admin_token)))  # type: ignore[method-assign]
    return app


@cache
def _build_routes() -> tuple[BaseRoute, ...]:
    """The routes, the same for every app. FastAPI prepares them at the first request, which takes a
    fifth of a second. A process with several apps prepares them once."""
    router = FastAPI(openapi_url=None).router
    for module in _WITH_ROUTES:
        router.include_router(module.router)
    return tuple(router.routes)


@asynccontextmanager
async def _limit_threads(number: int, _app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = number
    yield
