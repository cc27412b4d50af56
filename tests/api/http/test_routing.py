"""A request takes a thread once, and its answer is what FastAPI would make of it."""

from __future__ import annotations

from collections import deque
from typing import Annotated

import anyio.to_thread
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Response
from fastapi.exceptions import ResponseValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field

from service.api.http.routing import OneThreadRoute
from service.dashboard.routes import add_dashboard
from tests.api.conftest import NODE_REQUEST

ESTIMATE = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "duration_seconds": 3_600}


@pytest.fixture
def turns(monkeypatch):
    """What was handed to a thread, in order."""
    found, run_sync = [], anyio.to_thread.run_sync

    async def counted(work, *rest, **how):
        found.append(work)
        return await run_sync(work, *rest, **how)

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    return found


def test_a_request_that_writes_takes_a_thread_once(client, turns):
    answer = client.post("/v1/nodes", json=NODE_REQUEST)
    assert (answer.status_code, len(turns)) == (201, 1)
    assert answer.headers["location"] == f"/v1/nodes/{answer.json()['id']}"
    turns.clear()
    assert (client.post("/v1/estimates", json=ESTIMATE).status_code, len(turns)) == (200, 1)


@pytest.mark.deep
def test_no_path_that_is_read_takes_a_thread_twice(app, turns):
    add_dashboard(app)
    client = TestClient(app, base_url="http://localhost")
    paths = {
        route.path
        for route in iter_route_contexts(app.routes)
        if route.path and route.methods and "GET" in route.methods and "{" not in route.path
    }
    counts = {}
    for path in sorted(paths - {"/v1/exports/focus"}):  # its pieces take a thread each
        turns.clear()
        if client.get(path, follow_redirects=False).status_code == 200:
            counts[path] = len(turns)
    assert len(counts) > 25
    assert {path: count for path, count in counts.items() if count > 1} == {}


def test_every_route_of_the_api_is_of_that_kind(app):
    routes = [context.original_route for context in iter_route_contexts(app.routes)]
    ours = [route for route in routes if isinstance(route, APIRoute)]
    assert len(ours) > 70
    assert {type(route) for route in ours} == {OneThreadRoute}


class Shown(BaseModel):
    """What the routes of these tests answer."""

    name: str = Field(serialization_alias="shownName")
    count: int | None = None


class Row:
    """A thing with attributes, as rows of a database are."""

    name = "row"
    count = 3


done: deque[str] = deque(maxlen=1)


async def _marked(response: Response) -> None:
    response.headers["X-Marked"] = "yes"


def as_model() -> Shown:
    """The model itself."""
    return Shown(name="one")


def with_headers(response: Response, number: int) -> Shown:
    """A status and a header that the function sets."""
    response.status_code = 202
    response.headers["X-Number"] = str(number)
    return Shown(name="one", count=number)


def as_rows() -> list[Shown]:
    """Things that have the attributes."""
    return [Row(), Row()]  # type: ignore[list-item]


def in_background(tasks: BackgroundTasks) -> Shown:
    """Work that is left for later."""
    tasks.add_task(done.append, "done")
    return Shown(name="later")


def nothing() -> None:
    """No body."""


def as_response() -> Response:
    """Ready bytes."""
    return Response(b"bytes", 418, {"X-Own": "1"}, "text/plain")


def wrong() -> Shown:
    """Not what it says."""
    return {"count": "many"}  # type: ignore[return-value]


async def by_the_loop() -> Shown:
    """A coroutine."""
    return Shown(name="loop")


def made(route_class: type[APIRoute]) -> FastAPI:
    """An app with all of these routes."""
    app = FastAPI()
    app.router.route_class = route_class
    app.get("/model")(as_model)
    app.get("/model-without-none", response_model_exclude_none=True)(as_model)
    app.get("/model-by-name", response_model_by_alias=False)(as_model)
    app.get("/headers/{number}")(with_headers)
    app.post("/created", status_code=201, dependencies=[Depends(_marked)])(as_model)
    app.get("/rows")(as_rows)
    app.get("/other-model", response_model=Annotated[list[Shown], Field(max_length=5)])(as_rows)
    app.get("/background")(in_background)
    app.delete("/nothing", status_code=204)(nothing)
    app.get("/null")(nothing)
    app.get("/response")(as_response)
    app.get("/loop")(by_the_loop)
    app.get("/wrong")(wrong)
    return app


def test_the_openapi_document_is_the_same():
    assert made(OneThreadRoute).openapi() == made(APIRoute).openapi()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/model"),
        ("GET", "/model-without-none"),
        ("GET", "/model-by-name"),
        ("GET", "/headers/7"),
        ("GET", "/headers/many"),
        ("POST", "/created"),
        ("GET", "/rows"),
        ("GET", "/other-model"),
        ("GET", "/background"),
        ("DELETE", "/nothing"),
        ("GET", "/null"),
        ("GET", "/response"),
        ("GET", "/loop"),
    ],
)
def test_an_answer_is_the_same_to_the_byte(method, path):
    ours, plain = (
        TestClient(made(kind)).request(method, path) for kind in (OneThreadRoute, APIRoute)
    )
    assert (ours.status_code, ours.content) == (plain.status_code, plain.content)
    assert sorted(ours.headers.items()) == sorted(plain.headers.items())


def test_work_for_later_is_done():
    done.clear()
    assert TestClient(made(OneThreadRoute)).get("/background").status_code == 200
    assert list(done) == ["done"]


def test_an_answer_that_is_not_what_the_route_says_is_a_fault_of_ours():
    with pytest.raises(ResponseValidationError):
        TestClient(made(OneThreadRoute)).get("/wrong")
