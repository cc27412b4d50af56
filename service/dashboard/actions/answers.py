"""Answers to forms: the page of an action, a redirect after it, or the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from fastapi.templating import Jinja2Templates

from service.application.services import Services
from service.dashboard.actions.form import Form
from service.dashboard.actions.page import CONFIRM, ActionPage, ActionResult
from service.dashboard.actions.tokens import (
    find_forgery,
    is_from_this_site,
    seal_of,
)
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.errors import (
    BudgetExceeded,
    Conflict,
    NotFound,
    RateLimited,
    Rejected,
    StewardError,
    StoreUnavailable,
    TokenRefused,
)

Build = Callable[[Services, Form], ActionPage]
"""Builds the page of an action, from the fields of the address or of the form."""

Act = Callable[[Services, Form], ActionResult]
"""Does what the form requests, by a method of the same service that the API calls."""

NOTHING = "Nothing was changed"
HEADERS = {"Cache-Control": "no-store"}
_LONGEST = 600
_STATUSES: Mapping[type[StewardError], int] = {
    NotFound: 404,
    Conflict: 409,
    Rejected: 422,
    BudgetExceeded: 403,
    TokenRefused: 403,
    RateLimited: 429,
    StoreUnavailable: 503,
}


def show_action(request: Request, build: Build, template: str = "action.html") -> Response:
    """The page of an action, opened by GET. Its form has the fields of the address. Changes
    nothing."""
    fields: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        fields.setdefault(name, []).append(value)
    try:
        page = build(request.app.state.services, Form(fields))
    except StewardError as error:
        return _render_failure(request, error, "The page cannot be shown")
    return _render_action(request, page, template, page.status)


def answer_form(
    request: Request, form: Form, build: Build, act: Act, template: str = "action.html"
) -> Response:
    """The answer to a form that was sent: a redirect after the action, or the page again with what
    was typed and the reason why nothing was changed. A form without its typed confirmation gets the
    page that requests it."""
    refusal = _check_sender(request, form)
    if refusal is not None:
        return refusal
    services: Services = request.app.state.services
    try:
        page = build(services, form).with_typed(form)
    except StewardError as error:
        return _render_failure(request, error, NOTHING)
    obstacle = _find_obstacle(request, form, page)
    if obstacle is not None:
        return _render_action(request, obstacle[0], template, obstacle[1])
    try:
        outcome = act(services, form)
    except StewardError as error:
        again = page.with_problem(f"{NOTHING}: {sentence_of(error)}", list_field_errors(error))
        return _render_action(request, again, template, status_of(error))
    return redirect_to(request, outcome)


def _find_obstacle(request: Request, form: Form, page: ActionPage) -> tuple[ActionPage, int] | None:
    """The page and its status if the form is out of date, not possible now, or not confirmed. None
    if the action may begin."""
    if forgery := find_forgery(request, form):
        reason = forgery[:1].lower() + forgery[1:]
        problem = f"{NOTHING}: {reason} Check the form, and send it again."
        return page.with_problem(problem), 403
    if page.refusal or page.is_question:
        return page, 409 if page.refusal else page.status
    if page.confirmation is None or page.confirmation.is_met(page.typed):
        return None
    if CONFIRM not in form:
        return page, 200
    return page.with_problem(f"{NOTHING}: type {page.confirmation.what} to confirm."), 422


def redirect_to(request: Request, outcome: ActionResult) -> Response:
    """A redirect to the page that shows the result, with a signed message."""
    text = outcome.full_message[:_LONGEST]
    message = urlencode({"told": text, "seal": seal_of(request).sign_message(outcome.path, text)})
    joint = "&" if "?" in outcome.address else "?"
    address = quote(f"{outcome.address}{joint}{message}", safe="/?&=%#+:~.,_-")
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, HEADERS)


def status_of(error: StewardError) -> int:
    """The status of an error, as the API answers it."""
    return next(
        (_STATUSES[base] for base in type(error).__mro__ if base in _STATUSES),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )


def list_field_errors(error: StewardError) -> Mapping[str, str]:
    """The messages of an error by field. The message of `scope.team` is that of `scope` and of
    `scope_team`."""
    found: dict[str, str] = {}
    complaints = error.facts.get("errors")
    said = [(str(error.facts["field"]), str(error))] if "field" in error.facts else []
    if isinstance(complaints, list | tuple):
        said = [(str(each["field"]), str(each["message"])) for each in complaints] + said
    for name, message in said:
        found.setdefault(name.partition(".")[0], message)
        found.setdefault(name.replace(".", "_"), message)
    return found


def _check_sender(request: Request, form: Form) -> Response | None:
    """The refusal of a form that cannot be read, and of a form that no page of ours can have sent.
    None for any other form."""
    if form.fault is not None:
        status, reason = form.fault
        return _render_error(request, status, NOTHING, reason)
    forgery = find_forgery(request, form)
    if forgery and not is_from_this_site(request.headers):
        return _render_error(request, 403, NOTHING, forgery)
    return None


def _render_failure(request: Request, error: StewardError, heading: str) -> Response:
    return _render_error(request, status_of(error), heading, sentence_of(error))


def _render_action(request: Request, page: ActionPage, template: str, status: int) -> Response:
    return _templates_of(request).TemplateResponse(
        request, template, {"page": page}, status_code=status, headers=HEADERS
    )


def _render_error(request: Request, status: int, heading: str, message: str) -> Response:
    facts: dict[str, Any] = {"heading": heading, "message": message, "back": ("/", "Overview")}
    return _templates_of(request).TemplateResponse(
        request, "error.html", facts, status_code=status, headers=HEADERS
    )


def _templates_of(request: Request) -> Jinja2Templates:
    found: Jinja2Templates = request.app.state.templates
    return found


def sentence_of(error: StewardError) -> str:
    """The message of an error as a sentence."""
    text = str(error)
    return escape_invisible(text if text.endswith((".", "!", "?")) else f"{text}.")
