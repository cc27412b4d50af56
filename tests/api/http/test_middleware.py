"""What no route should ever see is stopped before it, and every answer carries its headers."""

from __future__ import annotations

import anyio
import pytest
import structlog
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.costs.reconciliations import PATH as BILLS
from service.api.http.middleware import Guard
from service.application.costs.exports import AT_ONCE
from tests.api.conftest import NODE_REQUEST

TOKEN = "t0ken"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("path", ["/healthz", "/v1/nodes", "/v1/nodes/x", "/nope", "/openapi.json"])
def test_every_answer_carries_the_security_headers(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (headers.get("cache-control") == "no-store") == path.startswith("/v1")
    assert "access-control-allow-origin" not in headers


def test_a_request_keeps_the_id_that_it_came_with(client, app):
    seen = {}

    @app.get("/seen")
    def look() -> None:
        seen.update(structlog.contextvars.get_contextvars())

    answer = client.get("/seen", headers={"X-Request-Id": "run-17.a:b"})
    assert answer.headers["x-request-id"] == "run-17.a:b"
    assert seen == {"request_id": "run-17.a:b"}


@pytest.mark.parametrize("unfit", ["a b", "", "x" * 101, '"', "a\tb"])
def test_an_id_that_is_unfit_for_a_log_is_replaced(client, unfit):
    given = client.get("/healthz", headers={"X-Request-Id": unfit}).headers["x-request-id"]
    assert given != unfit
    assert len(given) == 16


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1].evil.example", 421),
        ("localhost:x", 421),
        ("10.0.0.1", 421),
        ("testserver", 421),
        ("", 421),
    ],
)
def test_without_a_token_only_loopback_names_are_answered(client, host, status):
    answer = client.get("/v1/nodes", headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or "STEWARD_ADMIN_TOKEN" in answer.json()["detail"]


def test_with_a_token_any_name_is_answered(services):
    client = TestClient(create_app(services, TOKEN))
    answer = client.get("/v1/nodes", headers=BEARER | {"Host": "steward.example"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "HTTP://LOCALHOST"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({"Origin": ""}, 403),
    ],
)
def test_a_page_of_another_site_can_change_nothing(client, headers, status):
    answer = client.post("/v1/nodes", json=NODE_REQUEST, headers=headers)
    assert answer.status_code == status
    assert len(client.get("/v1/nodes").json()["nodes"]) == (status == 201)


def test_a_page_of_another_site_may_link_here(client):
    assert client.get("/healthz", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("length", ["0" * 20 + "5000000", "5", "0", "-1", "many", "\u00b2", ""])
def test_a_body_is_counted_as_it_comes_whatever_its_length_was_said_to_be(client, length):
    headers = {"Content-Length": length.encode("latin-1"), "Content-Type": "application/json"}
    answer = client.post("/v1/nodes", content=b" " * 5_000_000, headers=headers)
    assert answer.status_code == 413
    assert answer.json()["limit_bytes"] == 1_048_576


HURRIED = 0.01, 0.01
"""Seconds: whoever does nothing at all does not have to be waited for."""


def scope_of(method, path):
    return {
        "type": "http",
        "asgi": {"spec_version": "2.3"},
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }


def talk(app, scope, receive, send):
    """One exchange with a guard that has no patience; other callers are held up by nothing."""
    anyio.run(Guard(app, loopback_only=True, patience=HURRIED), scope, receive, send)


class Stalled:
    """A caller that sends the beginning of a body, and then nothing any more."""

    def __init__(self, first):
        self.first = first
        self.told = []

    async def receive(self):
        if not self.first:
            await anyio.sleep_forever()
        piece, self.first = self.first, b""
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message):
        self.told.append(message)


@pytest.mark.parametrize("path", [BILLS, "/v1/nodes"])
@pytest.mark.parametrize("first", [b"", b"{"])
def test_a_body_that_stalls_is_given_up_and_the_connection_closed(app, services, path, first):
    for _ in range(AT_ONCE + 1):
        caller = Stalled(first)
        talk(app, scope_of("POST", path), caller.receive, caller.send)
        assert caller.told[0]["status"] == 408
        assert (b"connection", b"close") in caller.told[0]["headers"]
        assert b"send the request again" in caller.told[1]["body"]
    with services.reconciliations.take_place():
        pass


class Unread:
    """A caller that takes the beginning of an answer, and then nothing any more."""

    def __init__(self, pieces):
        self.pieces = pieces
        self.asked = False
        self.told = []

    async def receive(self):
        if self.asked:
            await anyio.sleep_forever()
        self.asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message):
        if len(self.told) > self.pieces:
            await anyio.sleep_forever()
        self.told.append(message)


@pytest.mark.parametrize("pieces", [0, 1])
def test_a_file_that_nobody_reads_on_makes_place_for_another(app, client, pieces):
    for _ in range(AT_ONCE + 1):
        caller = Unread(pieces)
        talk(app, scope_of("GET", "/v1/exports/focus"), caller.receive, caller.send)
        assert [message.get("status") for message in caller.told] == [200, *[None] * pieces]
    assert client.get("/v1/exports/focus").status_code == 200


def test_a_caller_may_be_silent_for_as_long_as_it_is_answered(app):
    caller, finished = Unread(9), []

    async def answers_late(_scope, receive, send):
        await receive()
        with anyio.move_on_after(5 * HURRIED[0]):
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        finished.append(True)

    talk(answers_late, scope_of("GET", "/"), caller.receive, caller.send)
    assert finished == [True]
