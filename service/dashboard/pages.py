"""The routes of the dashboard: each asks the services, and hands what it got to a template."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.application.services import Services
from service.dashboard.budgets import budgets_of
from service.dashboard.capacity import PERIODS, capacity_of
from service.dashboard.orphans import orphans_of
from service.dashboard.overview import View, overview_of
from service.dashboard.reconcile import reconcile_of
from service.dashboard.series import GROUPINGS
from service.dashboard.spending import WINDOWS
from service.dashboard.story import story_of
from service.domain.errors import NotFound, StewardError, StoreUnavailable

_HERE = Path(__file__).parent
_STATIC = _HERE / "static"
_HEADERS = {"Cache-Control": "no-store"}
_STATUS: dict[type[StewardError], int] = {NotFound: 404, StoreUnavailable: 503}
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


def add_dashboard(app: FastAPI) -> None:
    """Put the pages into an app whose `state.services` are what they ask."""
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    app.include_router(router)


def _templates() -> Jinja2Templates:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(asset=_asset, WINDOWS=WINDOWS, GROUPINGS=GROUPINGS, PERIODS=PERIODS)
    return Jinja2Templates(env=environment)


@cache
def _asset(name: str) -> str:
    """The address of a static file, with a mark of its content: a new version is a new address."""
    digest = sha256((_STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


_pages = _templates()


@router.get("/")
def overview(request: Request, window: str = "", group: str = "", after: str = "") -> Response:
    """What is costing me now, what have I spent, and what is it that runs."""
    view = View.asked(window, group, after)

    def context(services: Services) -> dict[str, Any]:
        return {"page": overview_of(services, view), "command": first_command(request)}

    return _answer(request, "overview.html", context)


@router.get("/nodes/{node_id}")
def node(request: Request, node_id: str) -> Response:
    """One node: what it is, what it cost and why, and what happened to it."""
    return _answer(request, "node.html", lambda services: {"page": story_of(services, node_id)})


@router.get("/orphans")
def orphans(request: Request) -> Response:
    """What is in the cloud and in no record of ours, and what can be typed about it."""
    return _answer(request, "orphans.html", lambda services: {"page": orphans_of(services)})


@router.get("/budgets")
def budgets(request: Request) -> Response:
    """What may be spent, what is, what is set aside, and what was refused."""
    return _answer(request, "budgets.html", lambda services: {"page": budgets_of(services)})


@router.get("/capacity")
def capacity(request: Request, window: str = "") -> Response:
    """Where hardware was to be had lately, and what is left alone until when."""
    return _answer(
        request, "capacity.html", lambda services: {"page": capacity_of(services, window)}
    )


@router.get("/reconcile")
def reconcile(request: Request, bill: str = "", verdict: str = "") -> Response:
    """Google's bill held against our ledger: the headline of the last one, and who disagrees."""
    return _answer(
        request,
        "reconcile.html",
        lambda services: {"page": reconcile_of(services, bill, verdict)},
    )


def _answer(
    request: Request, template: str, context: Callable[[Services], dict[str, Any]]
) -> Response:
    """The page, or one that says in plain words why there is none."""
    try:
        found = context(request.app.state.services)
    except (NotFound, StoreUnavailable) as error:
        told = {"message": str(error), "missing": isinstance(error, NotFound)}
        return _pages.TemplateResponse(
            request, "error.html", told, status_code=_STATUS[type(error)], headers=_HEADERS
        )
    return _pages.TemplateResponse(request, template, found, headers=_HEADERS)


def first_command(request: Request) -> str:
    """What to type to get a first node: to the address that was just used, if it is a plain one."""
    host = request.headers.get("host", "")
    address = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else "http://127.0.0.1:8080"
    lines = [
        f"curl {address}/v1/nodes",
        "-H 'Content-Type: application/json'",
        """-d '{"accelerator_type": "v5litepod-8"}'""",
    ]
    if "authorization" in request.headers:
        lines.insert(1, '-H "Authorization: Bearer $STEWARD_ADMIN_TOKEN"')
    return " \\\n  ".join(lines)
