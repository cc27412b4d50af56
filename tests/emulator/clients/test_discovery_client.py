"""The client that builds itself from a discovery document: the packaged one, and ours."""

from __future__ import annotations

import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from tests.emulator.factories import PARENT, name_of
from tests.emulator.google_clients import packaged

BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def brought_along(web):
    return packaged(web.url, "tpu", "v2")


def served(web):
    _, document = web.ask("GET", "/$discovery/rest")
    return discovery.build_from_document(document, credentials=AnonymousCredentials())


@pytest.fixture(params=[brought_along, served])
def locations(request, web):
    with request.param(web) as service:
        yield service.projects().locations()


def test_a_node_lives_its_life(locations, web):
    nodes = locations.nodes()
    operation = nodes.create(parent=PARENT, nodeId="a", body=BODY).execute()
    web.ask("POST", "/_emulator/settle")
    done = locations.operations().get(name=operation["name"]).execute()
    assert (done["done"], done["response"]["state"]) == (True, "READY")
    (node,) = nodes.list(parent=PARENT).execute()["nodes"]
    assert node["name"] == name_of("a")
    request = nodes.patch(name=node["name"], updateMask="labels", body={"labels": {"a": "b"}})
    assert request.execute()["metadata"]["verb"] == "update"
    web.ask("POST", "/_emulator/settle")
    assert nodes.get(name=node["name"]).execute()["labels"] == {"a": "b"}
    for verb in (nodes.stop, nodes.start):
        verb(name=node["name"], body={}).execute()
        web.ask("POST", "/_emulator/settle")
    nodes.delete(name=node["name"]).execute()
    web.ask("POST", "/_emulator/settle")
    with pytest.raises(HttpError) as caught:
        nodes.get(name=node["name"]).execute()
    assert caught.value.status_code == 404
    assert caught.value.reason == f"Resource '{node['name']}' was not found"


def test_pages_are_walked_by_the_client(locations):
    nodes = locations.nodes()
    for number in range(3):
        nodes.create(parent=PARENT, nodeId=f"n{number}", body=BODY).execute()
    request, sizes = nodes.list(parent=PARENT, pageSize=2), []
    while request is not None:
        answer = request.execute()
        sizes.append(len(answer["nodes"]))
        request = nodes.list_next(request, answer)
    assert sizes == [2, 1]


def test_the_zones_are_listed(locations):
    assert len(locations.list(name="projects/lab").execute()["locations"]) == 40
