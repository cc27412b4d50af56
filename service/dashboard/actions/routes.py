"""The routes of the forms: each has a page by GET, and acts by POST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from service.application.services import Services
from service.dashboard.actions import budgets, cleanup, jobs, new_node, nodes, orphans
from service.dashboard.actions.answers import Act, Build, answer_form, show_action
from service.dashboard.actions.bodies import Bodies, bodies_of
from service.dashboard.actions.form import Form, FormDep
from service.dashboard.actions.page import ActionPage, ActionResult
from service.dashboard.answers import HtmlRoute

router = APIRouter(
    include_in_schema=False, default_response_class=HTMLResponse, route_class=HtmlRoute
)


class FormAction(NamedTuple):
    """The page of an action, and the action itself."""

    build: Build
    act: Act


class ActionOn(NamedTuple):
    """The page of an action and the action itself, on a subject whose id is in the address."""

    build: Callable[[Services, Form, str], ActionPage]
    act: Callable[[Services, Form, str], ActionResult]


class ParsedActionOn(NamedTuple):
    """The same of an action whose form is parsed as a body of the API."""

    build: Callable[[Services, Form, str], ActionPage]
    act: Callable[[Services, Form, str, Bodies], ActionResult]


_ACTIONS = {
    "/cleanup/apply": FormAction(cleanup.build_apply_page, cleanup.apply_plan),
    "/cleanup/pause": FormAction(cleanup.build_pause_page, cleanup.pause_cleanup),
    "/cleanup/resume": FormAction(cleanup.build_resume_page, cleanup.resume_cleanup),
    "/cleanup/breaker": FormAction(cleanup.build_breaker_page, cleanup.close_breaker),
}
_ACTIONS_ON: Mapping[str, ActionOn | ParsedActionOn] = {
    "/nodes/{subject}/delete": ActionOn(nodes.build_delete_page, nodes.delete_node),
    "/nodes/{subject}/keep": ActionOn(nodes.build_keep_page, nodes.keep_node),
    "/nodes/{subject}/unkeep": ActionOn(nodes.build_unkeep_page, nodes.unkeep_node),
    "/nodes/{subject}/stop": ActionOn(nodes.build_stop_page, nodes.stop_node),
    "/nodes/{subject}/start": ActionOn(nodes.build_start_page, nodes.start_node),
    "/jobs/{subject}/cancel": ActionOn(jobs.build_cancel_page, jobs.cancel_job),
    "/budgets/{subject}/edit": ParsedActionOn(budgets.build_edit_page, budgets.change_budget),
    "/budgets/{subject}/delete": ActionOn(budgets.build_delete_page, budgets.delete_budget),
    "/orphans/{subject}/adopt": ParsedActionOn(orphans.build_adopt_page, orphans.adopt_orphan),
    "/orphans/{subject}/delete": ActionOn(orphans.build_delete_page, orphans.delete_orphan),
}


def _add_action(path: str, action: FormAction) -> None:
    @router.get(path)
    def show(request: Request) -> Response:
        return show_action(request, action.build)

    @router.post(path)
    def answer(request: Request, form: FormDep) -> Response:
        return answer_form(request, form, action.build, action.act)


def _add_action_on(path: str, action: ActionOn | ParsedActionOn) -> None:
    @router.get(path)
    def show(request: Request, subject: str) -> Response:
        return show_action(request, lambda services, form: action.build(services, form, subject))

    @router.post(path)
    def answer(request: Request, subject: str, form: FormDep) -> Response:
        def act(services: Services, sent: Form) -> ActionResult:
            if isinstance(action, ParsedActionOn):
                return action.act(services, sent, subject, bodies_of(request))
            return action.act(services, sent, subject)

        return answer_form(
            request, form, lambda services, sent: action.build(services, sent, subject), act
        )


@router.get(new_node.PATH)
def show_new_node(request: Request) -> Response:
    """The form for a new node, or the estimate of its request."""
    bodies = bodies_of(request)
    return show_action(
        request, lambda services, form: new_node.build_new_node_page(services, form, bodies)
    )


@router.post(new_node.PATH)
def create_node(request: Request, form: FormDep) -> Response:
    """Create the node whose estimate was shown."""
    bodies = bodies_of(request)
    return answer_form(
        request,
        form,
        lambda services, sent: new_node.build_new_node_page(services, sent, bodies),
        lambda services, sent: new_node.create_node(services, sent, bodies),
    )


@router.get(budgets.PATH)
def show_new_budget(request: Request) -> Response:
    """The form for a new budget."""
    return show_action(request, budgets.build_new_budget_page)


@router.post(budgets.PATH)
def create_budget(request: Request, form: FormDep) -> Response:
    """Create a budget."""
    bodies = bodies_of(request)
    return answer_form(
        request,
        form,
        budgets.build_new_budget_page,
        lambda services, sent: budgets.create_budget(services, sent, bodies),
    )


for _path, _action in _ACTIONS.items():
    _add_action(_path, _action)
for _path, _action_on in _ACTIONS_ON.items():
    _add_action_on(_path, _action_on)
