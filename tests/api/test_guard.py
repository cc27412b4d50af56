"""What no route should ever see is stopped before it, and every answer carries its headers."""

from __future__ import annotations

import pytest
import structlog
from fastapi.testclient import TestClient

from service.api.app import create_app
from tests.api.conftest import WISH

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
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "HTTP://TESTSERVER"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://testserver:3000"}, 403),
        ({"Origin": "http://testserver.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({"Origin": ""}, 403),
    ],
)
def test_a_page_of_another_site_can_change_nothing(client, headers, status):
    answer = client.post("/v1/nodes", json=WISH, headers=headers)
    assert answer.status_code == status
    assert len(client.get("/v1/nodes").json()["nodes"]) == (status == 201)


def test_a_page_of_another_site_may_link_here(client):
    assert client.get("/healthz", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200
