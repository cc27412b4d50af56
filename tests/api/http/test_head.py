"""HEAD is answered wherever GET is: with the same headers, without a body, without an effect."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http.head import Head
from service.application.costs.exports import AT_ONCE
from service.dashboard.routes import add_dashboard
from tests.api.conftest import NODE_REQUEST
from tests.linking import tokens_of, told_of

CHANGES_BY_ITSELF = {"x-request-id"}
"""Headers that differ from one answer to the next."""

PLACES = [
    "/",
    "/jobs",
    "/costs?window=7d",
    "/nodes/none",
    "/manual",
    "/manual/api",
    "/manual/none",
    "/docs",
    "/problems/not-found",
    "/static/steward.css",
    "/static/none",
    "/healthz",
    "/openapi.json",
    "/v1/nodes",
    "/v1/nodes?page_size=0",
    "/v1/nodes/none",
    "/v1/costs?format=csv",
    "/v1/exports/focus",
    "/v1/catalog/zones",
    "/nowhere",
    "/v1/nowhere",
]


@pytest.fixture
def whole(app):
    """A caller of the API and the dashboard, as they are served."""
    add_dashboard(app)
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as made:
        yield made


def headers_of(answer):
    return {k: v for k, v in answer.headers.items() if k not in CHANGES_BY_ITSELF}


@pytest.mark.parametrize("place", PLACES)
def test_head_has_the_status_and_headers_of_get_and_no_body(whole, place):
    got = whole.get(place)
    answer = whole.head(place)
    assert answer.status_code == got.status_code
    assert headers_of(answer) == headers_of(got)
    assert answer.content == b""


def test_head_of_the_metrics_has_the_headers_of_get(whole):
    got, answer = whole.get("/metrics"), whole.head("/metrics")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == got.headers["content-type"]
    assert int(answer.headers["content-length"]) > 0


def test_every_get_of_the_api_answers_head(whole, document):
    for path, methods in document["paths"].items():
        filled = re.sub(r"{\w+}", "none", path)
        if "get" in methods:
            assert whole.head(filled).status_code == whole.get(filled).status_code != 405, path


@pytest.mark.parametrize("path", ["/v1/runtimes:resolve", "/v1/cleanup:plan"])
def test_head_is_refused_where_there_is_no_get(whole, path):
    answer = whole.head(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.content == b""


def test_head_asks_for_the_token_like_get(services):
    client = TestClient(create_app(services, "t0ken"), base_url="http://localhost")
    refused = client.head("/v1/nodes")
    assert (refused.status_code, refused.content) == (401, b"")
    assert client.head("/v1/nodes", auth=("", "t0ken")).status_code == 200


def test_head_of_an_export_takes_no_place_of_an_export(whole):
    for _ in range(AT_ONCE + 1):
        assert whole.head("/v1/exports/focus").status_code == 200
    assert whole.get("/v1/exports/focus").status_code == 200


def test_head_of_a_link_does_not_use_it(whole, units):
    node = told_of(units)
    for token in tokens_of(units, node).values():
        before = whole.get(f"/links/{token}").text
        assert whole.head(f"/links/{token}").status_code == 200
        assert whole.get(f"/links/{token}").text == before


def test_head_is_counted_as_head_by_its_route(whole):
    whole.post("/v1/nodes", json=NODE_REQUEST)
    whole.head("/v1/nodes/none")
    counted = 'requests_total{method="HEAD",route="/v1/nodes/{node_id}",status="404"} 1.0'
    assert counted in whole.get("/metrics").text


def test_a_stream_without_an_end_is_not_begun_for_head():
    told, produced = [], []

    async def endless(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await anyio.lowlevel.checkpoint()
            produced.append(1)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async def send(message):
        told.append(message)

    async def receive():
        await anyio.sleep_forever()

    anyio.run(Head(endless), {"type": "http", "method": "HEAD", "path": "/"}, receive, send)
    assert [message["type"] for message in told] == ["http.response.start", "http.response.body"]
    assert (told[1]["body"], produced) == (b"", [])


def test_only_head_is_changed():
    seen = []

    async def app(scope, _receive, send):
        seen.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"kept"})

    for method in ("GET", "POST", "OPTIONS"):
        told: list[dict[str, Any]] = []

        async def send(message, told=told):
            told.append(message)

        async def receive():
            await anyio.sleep_forever()

        anyio.run(Head(app), {"type": "http", "method": method, "path": "/"}, receive, send)
        assert told[-1]["body"] == b"kept"
    assert seen == ["GET", "POST", "OPTIONS"]
