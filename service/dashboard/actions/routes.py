"""The routes of the forms: each has a page by GET, and acts by POST."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from service.application.services import Services
from service.dashboard.actions import nodes
from service.dashboard.actions.answers import answer_form, show_action
from service.dashboard.actions.form import Form, FormDep
from service.dashboard.actions.page import ActionPage, Outcome

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


class Action(NamedTuple):
    """The page of an action, and the action itself. Both take the id from the address."""

    build: Callable[[Services, Form, str], ActionPage]
    act: Callable[[Services, Form, str], Outcome]


_ACTIONS = {
    "/nodes/{subject}/delete": Action(nodes.build_delete_page, nodes.delete_node),
    "/nodes/{subject}/keep": Action(nodes.build_keep_page, nodes.keep_node),
    "/nodes/{subject}/unkeep": Action(nodes.build_unkeep_page, nodes.unkeep_node),
    "/nodes/{subject}/stop": Action(nodes.build_stop_page, nodes.stop_node),
    "/nodes/{subject}/start": Action(nodes.build_start_page, nodes.start_node),
}


def _add_action(path: str, action: Action) -> None:
    @router.get(path)
    def show(request: Request, subject: str) -> Response:
        return show_action(request, lambda services, form: action.build(services, form, subject))

    @router.post(path)
    def answer(request: Request, subject: str, form: FormDep) -> Response:
        return answer_form(
            request,
            form,
            lambda services, sent: action.build(services, sent, subject),
            lambda services, sent: action.act(services, sent, subject),
        )


for _path, _action in _ACTIONS.items():
    _add_action(_path, _action)
