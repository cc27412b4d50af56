"""Forms in a real browser: they work without JavaScript, and not from a page of another origin."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.sync_api import Browser, expect

from service.api.app import create_app
from service.dashboard.routes import add_dashboard
from service.domain.nodes.node import Asked
from tests.dashboard.actions.sending import hidden_fields
from tests.dashboard.browsing import CHROMIUM, served
from tests.dashboard.lab import Lab
from tests.hands import NOON

TOKEN = "s3cret-t0ken"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium is installed: no form was sent by one"
    ),
]


def test_a_node_is_deleted_by_its_own_page_and_by_no_other_origin(
    lab: Lab, chromium: Browser
) -> None:
    node = lab.ran(NOON - 60, name="trainer")
    app, other = create_app(lab.services, TOKEN), FastAPI()
    add_dashboard(app)
    stolen: dict[str, str] = {}
    path = f"/nodes/{node.id}/delete"

    with served(lab, app) as ours, served(lab, other) as theirs:

        @other.get("/")
        def show_trap() -> HTMLResponse:
            fields = "".join(f'<input name="{name}" value="{stolen[name]}">' for name in stolen)
            return HTMLResponse(f'<form method="post" action="{ours}{path}">{fields}<button>')

        context = chromium.new_context(
            java_script_enabled=False, http_credentials={"username": "ada", "password": TOKEN}
        )
        page = context.new_page()
        page.goto(f"{ours}/nodes/{node.id}")
        page.get_by_role("link", name=re.compile("Delete")).click()
        stolen.update(hidden_fields(page.content()), confirm="trainer")
        assert stolen["form_token"]

        trap = context.new_page()
        trap.goto(theirs)
        trap.get_by_role("button").click()
        expect(trap.get_by_text("cross-site-request")).to_be_visible()
        assert lab.services.nodes.get(node.id).asked is Asked.PRESENT

        page.get_by_label("Type the name of the node").fill("trainer")
        page.get_by_role("button", name="Delete the node").click()
        expect(page.get_by_text("The deletion of node trainer is requested.")).to_be_visible()
        assert lab.services.nodes.get(node.id).asked is Asked.ABSENT
        context.close()
