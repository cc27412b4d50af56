"""Google's clients, each of its kind, run a queued resource from create to delete."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import pytest
from google.api_core import exceptions
from google.api_core.retry import AsyncRetry
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport
from google.protobuf import empty_pb2

from tests.emulator.factories import PARENT, name_of
from tests.emulator.google_clients import fetched, finish, grpc_client, packaged, rest_client
from tests.emulator.queued_resources import queued_name

State = tpu_v2.QueuedResourceState.State
NAME = queued_name()
BODY = {
    "tpu": {
        # A bare object where a list belongs: clients in use send it.
        "nodeSpec": {
            "parent": PARENT,
            "node_id": "n",
            "node": {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"},
        }
    },
    "spot": {},
}


@pytest.fixture(params=[grpc_client, rest_client], ids=["grpc", "rest"])
def client(request, emulator):
    with request.param(emulator) as connected:
        yield connected


def wanted(node_id: str = "n") -> tpu_v2.QueuedResource:
    node = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=PARENT, node_id=node_id, node=node)
    return tpu_v2.QueuedResource(
        tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]), spot=tpu_v2.QueuedResource.Spot()
    )


def create(client, queued_id: str = "q", node_id: str = "n"):
    return client.create_queued_resource(
        parent=PARENT, queued_resource_id=queued_id, queued_resource=wanted(node_id)
    )


def test_a_queued_resource_lives_its_life(client, web):
    operation = create(client)
    accepted = finish(operation)
    assert (accepted.name, accepted.state.state) == (NAME, State.ACCEPTED)
    assert operation.metadata.verb == "create"
    web.ask("POST", "/_emulator/settle")
    (listed,) = client.list_queued_resources(parent=PARENT)
    assert listed == client.get_queued_resource(name=NAME)
    assert listed.state.state is State.ACTIVE
    assert "active_data" in listed.state
    assert client.get_node(name=name_of("n")).queued_resource == NAME
    again = finish(client.reset_queued_resource(name=NAME))
    assert again.state.state is State.WAITING_FOR_RESOURCES
    web.ask("POST", "/_emulator/settle")
    request = tpu_v2.DeleteQueuedResourceRequest(name=NAME, force=True)
    assert isinstance(finish(client.delete_queued_resource(request)), empty_pb2.Empty)
    with pytest.raises(exceptions.NotFound):
        client.get_queued_resource(name=NAME)


def test_a_refusal_arrives_as_the_clients_own_error(client, web):
    finish(create(client))
    web.ask("POST", "/_emulator/settle")
    with pytest.raises(exceptions.Conflict):
        create(client)
    with pytest.raises(exceptions.BadRequest, match="or set force"):
        client.delete_queued_resource(name=NAME)


def test_a_delete_at_the_wrong_time_fails_in_its_operation(client, web):
    web.ask("PATCH", "/_emulator/config", {"durations": {"create": 10**6}})
    finish(create(client))
    while client.get_queued_resource(name=NAME).state.state is not State.PROVISIONING:
        pass
    request = tpu_v2.DeleteQueuedResourceRequest(name=NAME, force=True)
    operation = client.delete_queued_resource(request)
    with pytest.raises(exceptions.GoogleAPICallError, match="not supported while in state"):
        finish(operation)


def test_pages_are_walked_by_the_client(client):
    for index in range(3):
        create(client, f"q{index}", f"n{index}")
    pages = client.list_queued_resources(request={"parent": PARENT, "page_size": 2}).pages
    assert [len(page.queued_resources) for page in pages] == [2, 1]


def test_the_asynchronous_client_waits_for_it_too(emulator, web):
    async def live() -> tuple[State, State, object]:
        async with grpc.aio.insecure_channel(emulator.grpc_address) as channel:
            client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
            accepted = await _finished(await create(client))
            await asyncio.to_thread(web.ask, "POST", "/_emulator/settle")
            (active,) = [each async for each in await client.list_queued_resources(parent=PARENT)]
            request = tpu_v2.DeleteQueuedResourceRequest(name=NAME, force=True)
            deletion = await client.delete_queued_resource(request)
            return accepted.state.state, active.state.state, await _finished(deletion)

    accepted, active, gone = asyncio.run(live())
    assert (accepted, active) == (State.ACCEPTED, State.ACTIVE)
    assert isinstance(gone, empty_pb2.Empty)


async def _finished(operation):
    quickly = AsyncRetry(predicate=operation._retry._predicate, initial=0.02, maximum=0.05)
    operation._retry = quickly
    return await operation.result(timeout=10)


SERVED = partial(fetched, path="/$discovery/rest?version={apiVersion}")


@pytest.mark.parametrize("build", [packaged, SERVED], ids=["packaged", "served"])
def test_the_client_made_from_the_discovery_document_sends_a_bare_object(web, build):
    with build(web.url, "tpu", "v2") as service:
        queued = service.projects().locations().queuedResources()
        queued.create(parent=PARENT, queuedResourceId="q", body=BODY).execute()
        web.ask("POST", "/_emulator/settle")
        shown = queued.get(name=NAME).execute()
        assert shown["state"] == {"state": "ACTIVE", "activeData": {}, "stateInitiator": "SERVICE"}
        (spec,) = shown["tpu"]["nodeSpec"]
        assert spec["node"]["labels"] == {}
        assert queued.list(parent=PARENT).execute() == {"queuedResources": [shown]}
        deletion = queued.delete(name=NAME, force=True).execute()
        web.ask("POST", "/_emulator/settle")
        done = service.projects().locations().operations().get(name=deletion["name"]).execute()
        assert done["response"]["@type"].endswith("google.protobuf.Empty")


def test_the_answer_of_the_creation_is_a_whole_queued_resource(web):
    path = f"/v2/{PARENT}/queuedResources?queuedResourceId=q"
    _, operation = web.ask("POST", path, BODY)
    web.ask("POST", "/_emulator/settle")
    _, done = web.ask("GET", f"/v2/{operation['name']}")
    assert done["response"]["@type"].endswith("google.cloud.tpu.v2.QueuedResource")
    assert done["response"]["tpu"]["nodeSpec"][0]["node"]["schedulingConfig"]["spot"] is False


def test_a_reset_takes_an_empty_body(web):
    web.ask("POST", f"/v2/{PARENT}/queuedResources?queuedResourceId=q", BODY)
    web.ask("POST", "/_emulator/settle")
    status, operation = web.ask("POST", f"/v2/{NAME}:reset", b"")
    assert (status, operation["metadata"]["verb"]) == (200, "reset")
