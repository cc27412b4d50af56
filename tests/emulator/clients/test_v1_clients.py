"""Google's clients of v1 take the emulator for the cloud of the legacy TPU Nodes."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import grpc.aio
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v1
from google.cloud.tpu_v1.services.tpu.transports.grpc import TpuGrpcTransport
from google.cloud.tpu_v1.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport

from tests.emulator.factories import name_of
from tests.emulator.google_clients import fetched, finish, packaged

PARENT = "projects/lab/locations/us-central1-a"
NAME = name_of("old", PARENT)
State = tpu_v1.Node.State


@pytest.fixture
def client(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        yield tpu_v1.TpuClient(transport=TpuGrpcTransport(channel=channel))


def wanted(**overrides):
    fields = {"accelerator_type": "v2-8", "tensorflow_version": "2.12.0", **overrides}
    return tpu_v1.Node(**fields)


def test_a_legacy_node_lives_its_life(client):
    made = client.create_node(parent=PARENT, node_id="old", node=wanted(labels={"a": "b"}))
    node = finish(made)
    assert (node.name, node.state, dict(node.labels)) == (NAME, State.READY, {"a": "b"})
    assert made.metadata.api_version == "v1"
    assert client.get_node(name=NAME) == node
    reimaged = client.reimage_node(request={"name": NAME, "tensorflow_version": "2.16.1"})
    assert finish(reimaged).tensorflow_version == "2.16.1"
    assert finish(client.stop_node(request={"name": NAME})).state is State.STOPPED
    assert finish(client.start_node(request={"name": NAME})).state is State.READY
    assert [each.name for each in client.list_nodes(parent=PARENT)] == [NAME]
    # Google answers Empty where its own client of v1 expects a Node.
    with pytest.raises(TypeError, match=r"google\.protobuf\.Empty"):
        finish(client.delete_node(name=NAME))
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_what_is_offered_can_be_asked(client):
    kinds = {each.type_ for each in client.list_accelerator_types(parent=PARENT)}
    assert "v2-8" in kinds
    kind = client.get_accelerator_type(name=f"{PARENT}/acceleratorTypes/v2-8")
    assert kind.type_ == "v2-8"
    versions = client.list_tensor_flow_versions(request={"parent": PARENT, "page_size": 10})
    assert len(list(versions)) == 58
    name = f"{PARENT}/tensorflowVersions/2.16.1"
    assert client.get_tensor_flow_version(name=name).version == "2.16.1"


def test_a_refusal_is_the_clients_own_error(client):
    with pytest.raises(exceptions.InvalidArgument, match="TensorflowVersion"):
        client.create_node(parent=PARENT, node_id="x", node=wanted(tensorflow_version="2.4"))


def test_the_asynchronous_client_creates_and_deletes(emulator, web):
    async def talk():
        async with grpc.aio.insecure_channel(emulator.grpc_address) as channel:
            client = tpu_v1.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
            await client.create_node(parent=PARENT, node_id="old", node=wanted())
            web.ask("POST", "/_emulator/settle")
            node = await client.get_node(name=NAME)
            await client.delete_node(name=NAME)
            return node.state

    assert asyncio.run(talk()) is State.READY


SERVED = partial(fetched, path="/$discovery/rest?version={apiVersion}")


@pytest.mark.parametrize("build", [packaged, SERVED], ids=["packaged", "served"])
def test_the_client_from_the_discovery_document_does_the_same(web, build):
    with build(web.url, "tpu", "v1") as service:
        nodes = service.projects().locations().nodes()
        body = {"acceleratorType": "v2-8", "tensorflowVersion": "2.12.0"}
        nodes.create(parent=PARENT, nodeId="old", body=body).execute()
        web.ask("POST", "/_emulator/settle")
        node = nodes.get(name=NAME).execute()
        assert (node["state"], node["port"], node["labels"]) == ("READY", "8470", {})
        assert node["schedulingConfig"] == {"preemptible": False, "reserved": False}
        nodes.reimage(name=NAME, body={"tensorflowVersion": "2.16.1"}).execute()
        web.ask("POST", "/_emulator/settle")
        (node,) = nodes.list(parent=PARENT).execute()["nodes"]
        assert node["tensorflowVersion"] == "2.16.1"
        operation = nodes.delete(name=NAME).execute()
        web.ask("POST", "/_emulator/settle")
        operations = service.projects().locations().operations()
        done = operations.get(name=operation["name"]).execute()
        assert done["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
