"""The routes of the dashboard: each reads from the services and renders a template."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from service.application.cleanup.links import LinkOffer, UnknownLink
from service.application.services import Services
from service.dashboard.actions import routes as actions
from service.dashboard.actions import several_nodes
from service.dashboard.actions.answers import status_of
from service.dashboard.actions.tokens import FormSeal, make_form_token, read_message
from service.dashboard.answers import PageRoute, build_static_app, digest_file
from service.dashboard.kit.cost_query import CostsAsked, parse_costs_query, parse_show
from service.dashboard.kit.navigation import build_navigation
from service.dashboard.kit.preferences import (
    COOKIE_SECONDS,
    build_preference_menus,
    find_changes,
    local_address,
    read_preferences,
)
from service.dashboard.kit.refresh import refresh_seconds
from service.dashboard.kit.series import GROUPINGS
from service.dashboard.kit.unknown import prefers_html, shorten_path
from service.dashboard.pages.attention import build_agenda_page
from service.dashboard.pages.capacity import PERIODS, build_capacity_page
from service.dashboard.pages.cleanup import build_cleanup_page
from service.dashboard.pages.costs.budgets import build_budgets_page
from service.dashboard.pages.costs.commitments import DEFAULT, build_commitments_page
from service.dashboard.pages.costs.ledger import build_ledger_page, build_unused_ledger_page
from service.dashboard.pages.costs.ledger_line import build_line_page
from service.dashboard.pages.costs.over_time.costs import CostsPage, build_costs_page
from service.dashboard.pages.costs.over_time.query_form import apply_form
from service.dashboard.pages.costs.prices import build_prices_page
from service.dashboard.pages.costs.recommended import build_recommended_page
from service.dashboard.pages.costs.reconcile import build_reconcile_page
from service.dashboard.pages.costs.reservation import build_reservation_page
from service.dashboard.pages.costs.reservations import build_reservations_page
from service.dashboard.pages.costs.spend_chart import WINDOWS
from service.dashboard.pages.costs.statements import build_statement_page, build_statements_page
from service.dashboard.pages.manual import (
    find_picture,
    get_manual_page,
    get_problem_address,
    search_manual,
)
from service.dashboard.pages.message_link import (
    build_failure_page,
    build_limit_page,
    build_link_page,
)
from service.dashboard.pages.nodes.job import build_job_page
from service.dashboard.pages.nodes.jobs import JobsAsked, build_jobs_page
from service.dashboard.pages.nodes.node import build_node_page
from service.dashboard.pages.nodes.nodes import NodesAsked, build_nodes_page
from service.dashboard.pages.nodes.orphans import build_orphans_page
from service.dashboard.pages.overview import OverviewQuery, build_overview_page
from service.dashboard.pages.reference import PATH as REFERENCE
from service.dashboard.pages.reference import Reference
from service.domain.errors import (
    BudgetExceeded,
    Conflict,
    NotFound,
    RateLimited,
    Rejected,
    StoreUnavailable,
)

_HERE = Path(__file__).parent
_STATIC = _HERE / "static"
_HEADERS = {"Cache-Control": "no-store"}
_HEADINGS = {422: "This page cannot be shown", 503: "The figures cannot be read now"}
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_ALL_NODES = "/nodes", "All nodes"
_ALL_JOBS = "/jobs", "All jobs"
_NO_RESERVATION: Mapping[str, Any] = {
    "missing": "There is no such reservation",
    "back": ("/reservations", "All reservations"),
}
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")

router = APIRouter(
    include_in_schema=False, default_response_class=HTMLResponse, route_class=PageRoute
)


async def parse_question(  # waits for nothing: a plain function would cost a thread
    window: str = "",
    aggregate: Annotated[list[str] | None, Query()] = None,
    step: str = "",
    tz: str = "",
    only: Annotated[list[str] | None, Query(alias="filter")] = None,
) -> CostsAsked:
    """The question of an address about the costs."""
    return parse_costs_query(window, aggregate, step, tz, only or ())


AskedFor = Annotated[CostsAsked, Depends(parse_question)]
"""The question of the address about the costs."""


def add_dashboard(app: FastAPI, form_key: bytes | None = None) -> None:
    """Add the pages to an app that has the services in `state.services`. `form_key` signs the
    forms; by default it is random, and known to this app only."""
    app.state.templates = _pages
    app.state.form_seal = FormSeal(form_key or secrets.token_bytes(32))
    app.mount("/static", build_static_app(_STATIC), name="static")
    app.router.routes += _build_routes()
    usual = app.exception_handlers[HTTPException]
    app.add_exception_handler(HTTPException, partial(_answer_unknown_address, usual))


@cache
def _build_routes() -> tuple[BaseRoute, ...]:
    """The routes, prepared once for all apps of a process, as FastAPI prepares those of the API."""
    found = FastAPI(openapi_url=None).router
    found.include_router(several_nodes.router)  # first: /nodes/several is no id of a node
    found.include_router(actions.router)  # first: /nodes/new is no id of a node
    found.include_router(router)
    return tuple(found.routes)


def asset_address(name: str) -> str:
    """The address of a static file with a digest of its content, so that a new version has a new
    address."""
    return f"/static/{name}?v={digest_file(_STATIC / name)}"


_environment = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(asset=asset_address, navigation=build_navigation)
_environment.globals.update(
    preferences=read_preferences, menus=build_preference_menus, refresh_seconds=refresh_seconds
)
_environment.globals.update(WINDOWS=WINDOWS, GROUPINGS=GROUPINGS, PERIODS=PERIODS)
_environment.globals.update(form_token=make_form_token)
_environment.globals.update(action_message=read_message)
_pages = Jinja2Templates(env=_environment)


@router.get("/")
def overview(request: Request, window: str = "", group: str = "") -> Response:
    """The current cost per hour, the spending so far, and the nodes."""
    view = OverviewQuery.from_query(window, group)

    def load_page(services: Services) -> dict[str, Any]:
        return {"page": build_overview_page(services, view), "command": first_command(request)}

    return _render_page(request, "overview.html", load_page)


@router.get("/nodes")
def nodes(request: Request) -> Response:
    """The nodes that match, sorted, with the end and the cost of each."""
    asked = NodesAsked.from_query(request.query_params)
    return _render_page(
        request, "node_list.html", lambda services: {"page": build_nodes_page(services, asked)}
    )


@router.get("/nodes/{node_id}")
def node(request: Request, node_id: str, before: str = "") -> Response:
    """One node: its facts, its cost and the reasons for it, and its timeline."""
    return _render_page(
        request, "node.html", lambda services: {"page": build_node_page(services, node_id, before)}
    )


@router.get("/nodes/{node_id}/ledger")
def ledger(request: Request, node_id: str, asked: AskedFor) -> Response:
    """The lines that add up to a node's cost: all of them, or those of a question."""
    question = asked if {"window", "filter"} & request.query_params.keys() else None
    return _render_page(
        request,
        "ledger.html",
        lambda services: {"page": build_ledger_page(services, node_id, question)},
    )


@router.get("/nodes/{node_id}/ledger/{number}")
def line(request: Request, node_id: str, number: str) -> Response:
    """One line of the ledger, explained down to its price and to the evidence for its seconds."""

    def load_page(services: Services) -> dict[str, Any]:
        if not _NUMBER.fullmatch(number):
            raise services.explanations.describe_missing_line(node_id, number)
        return {"page": build_line_page(services, node_id, int(number))}

    return _render_page(request, "line.html", load_page, missing="There is no such line")


@router.get("/jobs")
def jobs(  # noqa: PLR0913, PLR0917 - each is a parameter of the address
    request: Request,
    state: str = "",
    team: str = "",
    owner: str = "",
    node_id: str = "",
    project: str = "",
    after: str = "",
) -> Response:
    """The jobs that match, the newest first, with the state and the cost of each."""

    def load_page(services: Services) -> dict[str, Any]:
        wanted = JobsAsked.from_query(
            state, after, team=team, owner=owner, node_id=node_id, project=project
        )
        return {"page": build_jobs_page(services, wanted)}

    return _render_page(request, "jobs.html", load_page, back=_ALL_JOBS)


@router.get("/jobs/{job_id}")
def job(request: Request, job_id: str) -> Response:
    """One job: its request, its state, its cost, and its last output."""
    return _render_page(
        request,
        "job.html",
        lambda services: {"page": build_job_page(services, job_id)},
        missing="There is no such job",
        back=_ALL_JOBS,
    )


@router.get("/reservations")
def reservations(request: Request) -> Response:
    """Calendar-mode reservations: how far each has come, and how much of it is used."""
    return _render_page(
        request, "reservations.html", lambda services: {"page": build_reservations_page(services)}
    )


@router.get("/reservations/{reservation_id}")
def reservation(request: Request, reservation_id: str) -> Response:
    """One reservation: its cost, and the nodes that used it."""
    return _render_page(
        request,
        "reservation.html",
        lambda services: {"page": build_reservation_page(services, reservation_id)},
        **_NO_RESERVATION,
    )


@router.get("/reservations/{reservation_id}/ledger")
def unused_ledger(request: Request, reservation_id: str, asked: AskedFor) -> Response:
    """The lines of the unused part of a reservation: all of them, or those of a question."""
    question = asked if {"window", "filter"} & request.query_params.keys() else None
    return _render_page(
        request,
        "ledger.html",
        lambda services: {"page": build_unused_ledger_page(services, reservation_id, question)},
        **_NO_RESERVATION,
    )


@router.get("/reservations/{reservation_id}/ledger/{number}")
def unused_line(request: Request, reservation_id: str, number: str) -> Response:
    """One line of the unused part of a reservation, explained."""

    def load_page(services: Services) -> dict[str, Any]:
        if not _NUMBER.fullmatch(number):
            raise services.explanations.describe_missing_line(reservation_id, number)
        services.reservations.get_record(reservation_id)
        return {"page": build_line_page(services, reservation_id, int(number))}

    return _render_page(request, "line.html", load_page, missing="There is no such line")


@router.get("/commitments")
def commitments(request: Request, window: str = DEFAULT) -> Response:
    """Committed-use discounts: how much of each is used in a window, and what it saves."""
    return _render_page(
        request,
        "commitments.html",
        lambda services: {"page": build_commitments_page(services, window[:200])},
    )


@router.get("/costs")
def costs(request: Request, asked: AskedFor, show: str = "", exact: str = "") -> Response:
    """The spending in any window, by any dimension, each figure with a link to its details. A sent
    form leads to the address of its question."""
    page: list[CostsPage] = []
    question = replace(asked, show=parse_show(show), exact=exact == "1")
    if "dated" in request.query_params:
        address = apply_form(question, request.query_params).page
        return RedirectResponse(address, 303, headers=_HEADERS)

    def load_page(services: Services) -> dict[str, Any]:
        page.append(build_costs_page(services, question))
        return {"page": page[0]}

    answer = _render_page(request, "costs.html", load_page)
    if page and page[0].found is None:
        answer.status_code = 422
    return answer


@router.get("/statements")
def statements(request: Request) -> Response:
    """Every month, the amount that is billed in it, and whether that may still change."""
    return _render_page(
        request, "statements.html", lambda services: {"page": build_statements_page(services)}
    )


@router.get("/statements/{period}")
def statement(request: Request, period: str) -> Response:
    """One month, line by line."""
    return _render_page(
        request,
        "statement.html",
        lambda services: {"page": build_statement_page(services, period)},
        back=("/statements", "All months"),
    )


@router.get("/prices")
def prices(  # noqa: PLR0913, PLR0917 - each is a parameter of the address
    request: Request,
    at: str = "",
    generation: str = "",
    provisioning_model: str = "",
    region: str = "",
    show: str = "",
    page: str = "",
) -> Response:
    """The list price of a chip, the price that is paid, and the source of both."""
    asked = {
        "at": at.strip(),
        "generation": generation.strip(),
        "provisioning_model": provisioning_model.strip(),
        "region": region.strip(),
        "show": show.strip(),
        "page": page.strip(),
    }
    return _render_page(
        request,
        "prices.html",
        lambda services: {"page": build_prices_page(services, asked)},
        back=("/prices", "All prices"),
    )


@router.get("/agenda")
def agenda(request: Request) -> Response:
    """Everything that needs a person, and everything that happens by itself within a day."""
    return _render_page(
        request, "agenda.html", lambda services: {"page": build_agenda_page(services)}
    )


@router.get("/orphans")
def orphans(request: Request) -> Response:
    """Cloud resources without a record, and the commands that a reader can type about them."""
    return _render_page(
        request, "orphans.html", lambda services: {"page": build_orphans_page(services)}
    )


@router.get("/budgets")
def budgets(request: Request) -> Response:
    """The amount of each budget, what is spent and held, and the refused requests."""
    return _render_page(
        request, "budgets.html", lambda services: {"page": build_budgets_page(services)}
    )


@router.get("/capacity")
def capacity(request: Request, window: str = "") -> Response:
    """Recent results of attempts by zone and hardware, and the hardware in a cooldown."""
    return _render_page(
        request, "capacity.html", lambda services: {"page": build_capacity_page(services, window)}
    )


@router.get("/cleanup")
def cleanup(request: Request) -> Response:
    """The cleanup of idle nodes: its mode, its plan, what holds it, and its history."""
    return _render_page(
        request, "cleanup.html", lambda services: {"page": build_cleanup_page(services)}
    )


@router.get("/commitments/recommended")
def recommended(request: Request) -> Response:
    """The recommended commitments for one and for three years, from our own use on demand."""
    return _render_page(
        request, "recommended.html", lambda services: {"page": build_recommended_page(services)}
    )


@router.get("/reconcile")
def reconcile(request: Request, bill: str = "", verdict: str = "") -> Response:
    """A bill compared with the ledger: the totals, and where the two disagree."""
    return _render_page(
        request,
        "reconcile.html",
        lambda services: {"page": build_reconcile_page(services, bill, verdict)},
        missing="There is no such bill",
        back=("/reconcile", "The newest bill"),
    )


@router.get("/view")
def view(request: Request, back: str = "/") -> Response:
    """Keep what the reader chose about all pages, and lead back to the page."""
    answer = RedirectResponse(local_address(back), status_code=303, headers=_HEADERS)
    for cookie, value in find_changes(request.query_params).items():
        answer.set_cookie(
            cookie,
            value,
            max_age=COOKIE_SECONDS,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
    return answer


@router.get("/manual")
def manual(request: Request, q: str = "") -> Response:
    """The contents of the manual, or the sections that match a search."""
    return _render_page(
        request,
        "manual.html",
        lambda _: {"page": search_manual(q) if q.strip() else get_manual_page()},
    )


@router.get("/manual/{name}")
def page_of_manual(request: Request, name: str) -> Response:
    """One page of the manual, or one of its pictures."""
    if (picture := find_picture(name)) is not None:
        return FileResponse(picture, headers={"Cache-Control": "max-age=3600"})
    return _render_page(
        request,
        "manual.html",
        lambda _: {"page": get_manual_page(name)},
        missing="There is no such page",
        back=("/manual", "The manual"),
    )


@router.get("/docs")
def docs(request: Request, q: str = "") -> Response:
    """All operations of the API, or the entries that match a search."""
    return _render_page(
        request, "docs.html", lambda _: {"page": _get_reference(request.app).build_search_page(q)}
    )


@router.get("/docs/{name}")
def group_of_docs(request: Request, name: str) -> Response:
    """The operations of one group, with their parameters, bodies, answers and objects."""
    return _render_page(
        request,
        "docs.html",
        lambda _: {"page": _get_reference(request.app).get_group_page(name)},
        missing="There is no such group",
        back=(REFERENCE, "API reference"),
    )


def _get_reference(app: FastAPI) -> Reference:
    """The API reference of the app, made when it is first requested."""
    known: Reference | None = getattr(app.state, "reference", None)
    if known is None:
        known = app.state.reference = Reference(app.openapi())
    return known


@router.get("/problems/{slug}")
def problem(request: Request, slug: str) -> Response:
    """The manual's entry for a kind of problem: `help` of a problem document leads here."""
    try:
        return RedirectResponse(get_problem_address(slug), headers=_HEADERS)
    except NotFound as error:
        return _render_error(
            request, error, "There is no such problem", ("/manual/problems", "Problems")
        )


@router.get("/links/{token}")
def link(request: Request, token: str) -> Response:
    """The action of a link in a message. Changes nothing, because mail programs open links too."""
    return _answer_link(
        request, lambda services, address: services.links.read_offer(token, address)
    )


@router.post("/links/{token}")
def use_link(request: Request, token: str) -> Response:
    """Perform the action of a link in a message, once."""
    return _answer_link(request, lambda services, address: services.links.use_link(token, address))


def _answer_link(
    request: Request, ask: Callable[[Services, str], LinkOffer | UnknownLink]
) -> Response:
    """The page of a link. `ask` takes the services and the address of the client."""
    address = "" if request.client is None else request.client.host
    try:
        page = build_link_page(ask(request.app.state.services, address))
    except RateLimited as error:
        page = build_limit_page(error)
    except (BudgetExceeded, Conflict, Rejected, StoreUnavailable) as error:
        page = build_failure_page(error)
    return _pages.TemplateResponse(
        request, "link.html", {"page": page}, status_code=page.status, headers=page.headers
    )


def _render_page(
    request: Request,
    template: str,
    context: Callable[[Services], dict[str, Any]],
    *,
    missing: str = "There is no such node",
    back: tuple[str, str] = _ALL_NODES,
) -> Response:
    """The page, or the page that says why there is none."""
    try:
        found = context(request.app.state.services)
    except (NotFound, Rejected, StoreUnavailable) as error:
        return _render_error(request, error, missing, back)
    return _pages.TemplateResponse(request, template, found, headers=_HEADERS)


def _render_error(
    request: Request,
    error: NotFound | Rejected | StoreUnavailable,
    missing: str,
    back: tuple[str, str],
) -> Response:
    """The page that says why there is no page, with a link to another one."""
    status = status_of(error)
    facts = {"message": str(error), "heading": _HEADINGS.get(status, missing), "back": back}
    return _pages.TemplateResponse(
        request, "error.html", facts, status_code=status, headers=_HEADERS
    )


_NOWHERE = {
    404: ("Page not found", "There is nothing at"),
    405: ("Method not allowed", "This method is not possible at"),
}


async def _answer_unknown_address(
    usual: Callable[[Request, Exception], Any], request: Request, error: Exception
) -> Response:
    """A page for a browser that asks for an unknown address. Other callers, and other errors, get
    the answer of `usual`."""
    answer: Response = await usual(request, error)
    if answer.status_code not in _NOWHERE:
        return answer
    if prefers_html(request.headers.get("accept", "")):
        heading, message = _NOWHERE[answer.status_code]
        facts = {"heading": heading, "message": message, "path": shorten_path(request.url.path)}
        allowed = {name: value for name, value in answer.headers.items() if name == "allow"}
        answer = _pages.TemplateResponse(
            request, "unknown.html", facts, status_code=answer.status_code, headers=allowed
        )
    answer.headers.add_vary_header("Accept")
    return answer


def first_command(request: Request) -> str:
    """The command that creates a first node. It uses the address of the request if that is a plain
    one."""
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
