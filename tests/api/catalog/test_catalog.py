"""The catalogue over HTTP."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from service.api.catalog import catalog
from service.domain.errors import Rejected


async def refuse(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Rejected)
    return JSONResponse({"detail": str(error), **error.facts}, status_code=422)


@pytest.fixture(scope="module")
def client():
    app = FastAPI(exception_handlers={Rejected: refuse})
    app.include_router(catalog.router)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def names(client, path, **query):
    answer = client.get(f"/v1/catalog/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()[path]]


@pytest.mark.parametrize(
    ("path", "query", "found"),
    [
        ("generations", {}, ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7"]),
        ("accelerators", {"generation": "v5e", "chips": 16}, ["v5litepod-16"]),
        ("accelerators", {"chips": 8}, ["v4-16", "v5litepod-8", "v5p-16", "v6e-8"]),
        ("accelerators", {"zone": "us-central2-b", "chips": 8}, ["v4-16", "v6e-8"]),
        ("accelerators", {"generation": "v7"}, []),
        ("zones", {"generation": "v4"}, ["us-central2-b"]),
        ("zones", {"region": "us-west4"}, ["us-west4-a", "us-west4-b"]),
        ("zones", {"region": "mars-north1"}, []),
        ("zones", {"generation": "v7"}, []),
        ("runtimes", {"generation": "v5p", "framework": "jax"}, ["v2-alpha-tpuv5"]),
        ("runtimes", {"generation": "v6e", "architecture": "node"}, []),
    ],
)
def test_a_list_holds_what_the_filters_leave(client, path, query, found):
    assert names(client, path, **query) == found


def test_an_accelerator_type_is_shown_with_its_shape(client):
    page = client.get("/v1/catalog/accelerators", params={"generation": "v6e", "chips": 8}).json()
    (one,) = page["accelerators"]
    shape = {key: one[key] for key in ("hosts", "chips_per_host", "single_host", "topology")}
    assert shape == {"hosts": 1, "chips_per_host": 8, "single_host": True, "topology": "2x4"}
    assert page["next_page_token"] == ""


def test_a_zone_is_shown_with_what_it_has(client):
    page = client.get("/v1/catalog/zones", params={"generation": "v5e", "region": "us-west4"})
    assert page.json()["zones"][0] == {
        "name": "us-west4-a",
        "region": "us-west4",
        "generations": [
            {
                "generation": "v5e",
                "documented": True,
                "flex_start": True,
                "calendar": True,
                "source": "acceleratorTypes.list 2026 (public catalog); Google's documentation",
            }
        ],
    }


def test_types_that_the_api_does_not_serve_are_not_listed(client):
    listed = names(client, "accelerators")
    assert not {"tpu7x-8", "v4-8192", "v5p-17920"} & set(listed)


def test_the_best_runtime_versions_come_first(client):
    listed = names(client, "runtimes", generation="v3", framework="tensorflow", architecture="vm")
    assert set(listed[:2]) == {"tpu-vm-tf-2.17.1-pjrt", "tpu-vm-tf-2.17.1-pod-pjrt"}
    assert listed[-1].startswith("tpu-vm-tf-nightly")


def test_pages_follow_each_other_until_all_is_read(client):
    seen, token = [], ""
    for _ in range(4):
        page = client.get(
            "/v1/catalog/accelerators",
            params={"generation": "v3", "page_size": 3, "page_token": token},
        ).json()
        seen += [accelerator["name"] for accelerator in page["accelerators"]]
        token = page["next_page_token"]
        if not token:
            break
    assert token == ""
    assert seen == names(client, "accelerators", generation="v3")


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("accelerators", {"generation": "v5litepod"}, "v5e"),
        ("accelerators", {"zone": "mars-north1-a"}, "us-central1-a"),
        ("accelerators", {"chips": 0}, "greater than"),
        ("accelerators", {"gen": "v5e"}, "forbidden"),
        ("zones", {"generation": "v9"}, "v6e"),
        ("runtimes", {"generation": "v9"}, "v6e"),
        ("runtimes", {"framework": "mxnet"}, "tensorflow"),
        ("generations", {"page_token": "x"}, "pattern"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(client, path, query, said):
    answer = client.get(f"/v1/catalog/{path}", params=query)
    assert answer.status_code == 422
    assert said in answer.text


def test_every_route_has_a_name_of_its_own(client):
    paths = client.get("/openapi.json").json()["paths"]
    ids = [route["operationId"] for path in paths.values() for route in path.values()]
    assert sorted(ids) == [
        "list_accelerators",
        "list_generations",
        "list_runtimes",
        "list_zones",
    ]
