"""Resolving a runtime version over HTTP."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from service.api.catalog import runtimes
from service.domain.errors import Rejected


async def refuse(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Rejected)
    return JSONResponse({"type": type(error).__name__, **error.facts}, status_code=422)


@pytest.fixture(scope="module")
def client():
    app = FastAPI(exception_handlers={Rejected: refuse})
    app.include_router(runtimes.router)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def resolve(client, accelerator_type, framework, **more):
    body = {"accelerator_type": accelerator_type, "framework": framework, **more}
    return client.post("/v1/runtimes:resolve", json=body)


def test_the_answer_explains_itself(client):
    answer = resolve(client, "v4-8", {"name": "tensorflow", "version": "2.17.1"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["runtime_version"] == "tpu-vm-tf-2.17.1-pjrt"
    assert found["framework_version"] == "2.17.1"
    assert found["alternatives"] == ["tpu-vm-tf-2.17.1-se"]
    assert found["warnings"] == []
    assert found["vm_software"] is None
    assert "TensorFlow 2.17.1 was requested" in found["why"][0]


def test_an_image_that_pins_nothing_says_so(client):
    found = resolve(client, "v6e-8", {"name": "jax", "version": None}).json()
    assert found["runtime_version"] == "v2-alpha-tpuv6e"
    assert found["framework_version"] is None
    assert "pins no framework" in found["why"][1]


def test_a_legacy_node_says_what_the_users_vm_has_to_run(client):
    found = resolve(
        client,
        "v3-8",
        {"name": "tensorflow", "version": "2.12.0"},
        architecture="node",
        zone="europe-west4-a",
    ).json()
    assert found["runtime_version"] == "2.12.0"
    assert found["vm_software"] == "TensorFlow 2.12.0"


@pytest.mark.parametrize(
    ("accelerator_type", "framework", "more", "error", "fact"),
    [
        ("v5e-16", {"name": "jax"}, {}, "UnknownAcceleratorType", "closest"),
        (
            "v5litepod-16",
            {"name": "tensorflow", "version": "2.14"},
            {},
            "RuntimeMismatch",
            "compatible",
        ),
        ("v4-8", {"name": "tensorflow"}, {"architecture": "node"}, "RuntimeMismatch", "compatible"),
        ("v4-8", {"name": "jax"}, {"zone": "us-central1-a"}, "NotOffered", "offered_in"),
    ],
)
def test_a_request_that_cannot_be_granted_is_answered_with_what_can(
    client, accelerator_type, framework, more, error, fact
):
    answer = resolve(client, accelerator_type, framework, **more)
    assert answer.status_code == 422
    assert answer.json()["type"] == error
    assert answer.json()[fact]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"accelerator_type": "v4-8"},
        {"accelerator_type": "v4-8", "framework": "jax"},
        {"accelerator_type": "v4-8", "framework": {"name": "mxnet"}},
        {"accelerator_type": "v4-8", "framework": {"name": "jax", "vresion": "1"}},
        {"accelerator_type": "v4-8", "framework": {"name": "jax"}, "architecture": "gpu"},
        {"accelerator_type": "v4-8", "framework": {"name": "jax"}, "colour": "red"},
    ],
)
def test_a_body_that_is_no_question_is_refused(client, body):
    assert client.post("/v1/runtimes:resolve", json=body).status_code == 422
