"""A form changes something only if one of our own pages sent it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http.problems import KINDS
from service.dashboard.actions.answers import status_of
from service.dashboard.actions.form import MAX_FIELDS, MAX_FORM_BYTES, MEDIA_TYPE
from service.dashboard.actions.tokens import LIFETIME
from service.dashboard.routes import add_dashboard
from service.domain.errors import CloudError, RateLimited
from service.domain.nodes.node import Asked, Node
from tests.dashboard.actions.sending import BROWSER, hidden_fields, send_form
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON

TOKEN = "s3cret"


@pytest.fixture
def node(lab: Lab) -> Node:
    """A node that costs money."""
    return lab.ran(NOON - 3_600, name="trainer")


@pytest.fixture
def guarded(lab: Lab) -> FastAPI:
    """The app of a service with an admin token."""
    app = create_app(lab.services, TOKEN)
    add_dashboard(app, b"a key that two processes share")
    return app


def _asked(lab: Lab, node: Node) -> Asked:
    return lab.services.nodes.get(node.id).asked


def test_a_form_of_our_page_deletes_a_node_and_leads_to_its_page(lab, caller, node):
    answer = send_form(caller, f"/nodes/{node.id}/delete", confirm="trainer")
    assert answer.status_code == 303
    assert _asked(lab, node) is Asked.ABSENT
    page = caller.get(answer.headers["location"])
    assert "The deletion of node trainer is requested." in text_of(page)
    event = lab.services.nodes.list_events(node.id, 0, 100)[-1][1]
    assert (event.message, event.actor) == ("deletion requested", "caller")


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Origin": "https://evil.example"}, ""),
        ({"Origin": "null"}, ""),
        ({"Sec-Fetch-Site": "cross-site"}, ""),
        ({"Sec-Fetch-Site": "same-site"}, "A page of another site sent this form."),
        ({"Sec-Fetch-Site": "none"}, "A page of another site sent this form."),
    ],
)
def test_a_form_of_another_site_changes_nothing_even_with_a_token(lab, caller, node, headers, said):
    answer = send_form(caller, f"/nodes/{node.id}/delete", headers=headers, confirm="trainer")
    assert answer.status_code == 403
    assert said in text_of(answer)
    assert "form_token" not in answer.text
    assert _asked(lab, node) is Asked.PRESENT


@pytest.mark.parametrize("token", ["", "0.0", "zz", "1.é", "." * 500, "-1.x"])
def test_a_form_without_a_token_of_ours_changes_nothing(lab, caller, node, token):
    sent = {"form_token": token, "confirm": "trainer"}
    bare = caller.post(f"/nodes/{node.id}/delete", data=sent, follow_redirects=False)
    assert bare.status_code == 403
    assert "form_token" not in bare.text
    browser = caller.post(
        f"/nodes/{node.id}/delete", data=sent, headers=BROWSER, follow_redirects=False
    )
    assert browser.status_code == 403
    assert _asked(lab, node) is Asked.PRESENT


def test_an_old_form_keeps_what_was_typed_and_can_be_sent_again(lab, caller, node):
    path = f"/nodes/{node.id}/keep"
    fields = hidden_fields(caller.get(path).text)
    lab.clock.pass_(LIFETIME)
    typed = {"for_seconds": "3600", "reason": "demo <b>"}
    answer = caller.post(path, data=fields | typed, headers=BROWSER, follow_redirects=False)
    assert answer.status_code == 403
    assert 'value="demo &lt;b&gt;"' in answer.text
    assert '<option value="3600" selected>' in answer.text
    assert lab.services.nodes.get(node.id).kept_until is None
    fresh = hidden_fields(answer.text) | typed
    sent = caller.post(path, data=fresh, headers=BROWSER, follow_redirects=False)
    assert sent.status_code == 303
    assert lab.services.nodes.get(node.id).kept_because == "demo <b>"


def test_a_token_is_valid_for_its_caller_only_and_in_every_process(lab, guarded, node):
    path = f"/nodes/{node.id}/delete"
    other = create_app(lab.services, TOKEN)
    add_dashboard(other, b"a key that two processes share")
    stranger = create_app(lab.services, TOKEN)
    add_dashboard(stranger)
    with (
        TestClient(guarded, base_url="http://localhost") as first,
        TestClient(other, base_url="http://localhost") as second,
        TestClient(stranger, base_url="http://localhost") as third,
    ):
        fields = hidden_fields(first.get(path, auth=("ada", TOKEN)).text) | {"confirm": "trainer"}

        def post(client: TestClient, user: str) -> int:
            sent: Any = {"data": fields, "headers": BROWSER, "follow_redirects": False}
            return client.post(path, auth=(user, TOKEN), **sent).status_code

        assert post(second, "grace") == 403
        assert post(third, "ada") == 403
        assert _asked(lab, node) is Asked.PRESENT
        assert first.post(path, data=fields, headers=BROWSER).status_code == 401
        assert post(second, "ada") == 303
        assert _asked(lab, node) is Asked.ABSENT


def test_a_body_that_is_no_form_is_refused_in_html(lab, caller, node):
    path, media_type = f"/nodes/{node.id}/delete", {"Content-Type": MEDIA_TYPE}
    fields = urlencode(hidden_fields(caller.get(path).text) | {"confirm": "trainer"})
    bodies = {
        "&pad=" + "x" * MAX_FORM_BYTES: 413,
        "&x=1" * MAX_FIELDS: 400,
        "&x=%ff%fe": 400,
        "&x=%00": 400,
        "&x=é": 400,
    }
    for more, status in bodies.items():
        answer = caller.post(path, content=(fields + more).encode(), headers=BROWSER | media_type)
        assert (answer.status_code, "<h1>Nothing was changed</h1>" in answer.text) == (status, True)
    answer = caller.post(path, json={"confirm": "trainer"}, headers=BROWSER)
    assert answer.status_code == 415
    assert caller.put(path, content=fields.encode(), headers=media_type).status_code == 405
    assert _asked(lab, node) is Asked.PRESENT


@pytest.mark.parametrize("typed", ["", "Trainer", "trainer2", HOSTILE])
def test_another_name_does_not_confirm(lab, caller, node, typed):
    answer = send_form(caller, f"/nodes/{node.id}/delete", confirm=typed)
    assert answer.status_code == 422
    assert "type the name of the node to confirm" in text_of(answer)
    assert HOSTILE not in answer.text
    assert _asked(lab, node) is Asked.PRESENT


@pytest.mark.parametrize("name", ["\u202enekot", HOSTILE, "🦀-node", "e\u0301" * 20, "a" * 63])
def test_a_name_is_shown_as_text_and_confirms_as_it_is_shown(lab, caller, name):
    node = lab.ran(NOON - 60, name=name)
    path = f"/nodes/{node.id}/delete"
    page = caller.get(path)
    assert HOSTILE not in page.text
    assert "\u202e" not in page.text
    shown = text_of(page).partition("to confirm: ")[2].partition(" ▲ Delete")[0]
    shown = shown.partition(" Delete the node")[0].strip()
    assert send_form(caller, path, confirm=f" {shown} ").status_code == 303
    assert _asked(lab, node) is Asked.ABSENT


def test_a_message_is_shown_only_on_the_page_that_it_was_signed_for(lab, caller, node):
    other = lab.ran(NOON - 60, name="other")
    location = send_form(caller, f"/nodes/{node.id}/delete", confirm="trainer").headers["location"]
    said = "The deletion of node trainer is requested."
    assert said in text_of(caller.get(location))
    assert said not in text_of(caller.get(location.replace(node.id, other.id)))
    assert "is+requested" in location
    assert "is kept" not in text_of(caller.get(location.replace("is+requested", "is+kept")))
    assert caller.get(f"/nodes/{node.id}?told=x&seal=é").status_code == 200


def test_a_form_answers_an_error_with_the_status_of_the_api():
    reached = {kind for kind in KINDS if not issubclass(kind, CloudError)} | {RateLimited}
    assert len(reached) > 10
    for kind in reached:
        assert status_of(kind("why")) == KINDS[kind].status, kind
