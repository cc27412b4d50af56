"""With a token, every route asks for it but those of the probes."""

from __future__ import annotations

from base64 import b64encode

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http.auth import PUBLIC

TOKEN = "s3cret-t0ken"


@pytest.fixture
def guarded(services):
    with TestClient(create_app(services, TOKEN)) as client:
        yield client


def basic(user, password):
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def test_every_route_is_public_or_refused_without_the_token(guarded):
    walked = set()
    for route in iter_route_contexts(guarded.app.routes):
        assert route.path is not None
        for method in route.methods or {"GET"}:
            answer = guarded.request(method, route.path.replace("{node_id}", "x"))
            assert (answer.status_code == 401) != (route.path in PUBLIC), route.path
            walked.add(route.path)
    assert walked > PUBLIC | {"/v1/nodes", "/v1/nodes/{node_id}:stop", "/metrics", "/openapi.json"}


def test_what_is_nowhere_is_refused_as_well(guarded):
    assert guarded.get("/v1/nope").status_code == 401
    assert guarded.get("/healthz/../v1/nodes").status_code == 401
    assert guarded.get("/healthz/").status_code == 401


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        (TOKEN, 401),
        ("Bearer \u00e9", 401),
        (basic("admin", TOKEN), 401),
        (None, 401),
    ],
)
def test_what_changes_something_takes_the_bearer_token_and_nothing_else(guarded, given, status):
    """A browser sends a password unasked, also when a page of somebody else's made it ask."""
    headers = [] if given is None else [("Authorization", given.encode("latin-1"))]
    answer = guarded.post(
        "/v1/estimates", json={"accelerator_type": "v5litepod-8"}, headers=headers
    )
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"] == 'Bearer realm="tpu-steward"'
        assert answer.headers["content-type"] == "application/problem+json"
        assert "x-request-id" in answer.headers
        assert TOKEN not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/nodes/x", "/v1/cleanup/policies/default", "/v1/budgets/x"])
def test_a_password_changes_nothing_by_any_method(guarded, method, path):
    answer = guarded.request(method, path, headers={"Authorization": basic("admin", TOKEN)})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (basic("anyone", TOKEN), 200),
        (basic("", TOKEN), 200),
        (f"Bearer {TOKEN}", 200),
        (basic("admin", "wrong"), 401),
        (basic(TOKEN, ""), 401),
        ("Basic !!!", 401),
        ("Basic ", 401),
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/v1/costs?format=csv"])
def test_a_browser_may_send_it_as_a_password_where_it_only_reads(guarded, path, given, status):
    answer = guarded.get(path, headers={"Authorization": given})
    assert answer.status_code == status
    if status == 401:
        scheme = "Bearer" if path.startswith("/v1") else "Basic"
        assert answer.headers["www-authenticate"] == f'{scheme} realm="tpu-steward"'


def test_the_token_is_never_taken_from_the_address_or_a_cookie(guarded):
    guarded.cookies.set("token", TOKEN)
    assert guarded.get(f"/v1/nodes?token={TOKEN}").status_code == 401


def test_an_empty_token_is_no_token(services):
    client = TestClient(create_app(services, ""), base_url="http://localhost")
    assert client.get("/v1/nodes").status_code == 200
    assert client.get("/v1/nodes", headers={"Host": "evil.example"}).status_code == 421
