"""Google's clients of v2alpha1 take the emulator for the cloud, with its bug where it has one."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import grpc.aio
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports.grpc import TpuGrpcTransport
from google.cloud.tpu_v2alpha1.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport

from tests.emulator.factories import PARENT, name_of
from tests.emulator.google_clients import fetched, finish, grpc_client, packaged

NAME = name_of("a")
QUEUED = f"{PARENT}/queuedResources/q"
State = tpu_v2alpha1.Node.State
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


@pytest.fixture
def client(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        yield tpu_v2alpha1.TpuClient(transport=TpuGrpcTransport(channel=channel))


def wanted(**overrides):
    fields = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base", **overrides}
    return tpu_v2alpha1.Node(**fields)


def create(client, node_id="a", **overrides):
    return client.create_node(parent=PARENT, node_id=node_id, node=wanted(**overrides))


def queue(client):
    spec = {"parent": PARENT, "node_id": "n", "node": wanted()}
    return client.create_queued_resource(
        parent=PARENT,
        queued_resource_id="q",
        queued_resource={"tpu": {"node_spec": [spec]}, "best_effort": {}},
    )


def test_a_node_lives_its_life(client):
    made = create(client, labels={"team": "nlp"}, autocheckpoint_enabled=True)
    node = finish(made)
    assert (node.name, node.state, node.autocheckpoint_enabled) == (NAME, State.READY, True)
    assert made.metadata.api_version == "v2alpha1"
    assert client.get_node(name=NAME) == node
    assert finish(client.stop_node(request={"name": NAME})).state is State.STOPPED
    assert finish(client.start_node(request={"name": NAME})).state is State.READY
    changed = tpu_v2alpha1.Node(name=NAME, labels={"a": "b"})
    update = client.update_node(node=changed, update_mask={"paths": ["labels"]})
    assert dict(finish(update).labels) == {"a": "b"}
    simulated = client.simulate_maintenance_event(request={"name": NAME, "worker_ids": ["0"]})
    assert finish(simulated).state is State.READY
    with pytest.raises(exceptions.FailedPrecondition):
        client.perform_maintenance(request={"name": NAME})
    assert [each.name for each in client.list_nodes(parent=PARENT)] == [NAME]
    assert finish(client.delete_node(name=NAME)) is not None
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_what_one_client_makes_the_other_sees(client, emulator):
    finish(create(client, labels={"team": "nlp"}))
    with grpc_client(emulator) as other:
        assert dict(other.get_node(name=NAME).labels) == {"team": "nlp"}
        finish(other.delete_node(name=NAME))
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_a_queued_resource_is_made_and_looked_at(client, web):
    made = queue(client)
    assert finish(made).name == QUEUED
    web.ask("POST", "/_emulator/settle")
    queued = client.get_queued_resource(name=QUEUED)
    assert queued.state.state is tpu_v2alpha1.QueuedResourceState.State.ACTIVE
    assert "best_effort" in queued
    assert [each.name for each in client.list_queued_resources(parent=PARENT)] == [QUEUED]
    assert client.get_node(name=name_of("n")).queued_resource == QUEUED


def test_the_deletion_of_a_queued_resource_ends_in_what_the_client_cannot_read(client, web):
    finish(queue(client))
    web.ask("POST", "/_emulator/settle")
    future = client.delete_queued_resource(request={"name": QUEUED, "force": True})
    # The client expects a QueuedResource; the cloud answers with nothing, and has deleted it.
    with pytest.raises(TypeError):
        finish(future)
    with pytest.raises(exceptions.NotFound):
        client.get_queued_resource(name=QUEUED)


def test_what_is_offered_can_be_asked(client, web):
    kinds = {each.type_ for each in client.list_accelerator_types(parent=PARENT)}
    assert "v4-8" in kinds
    version = client.get_runtime_version(name=f"{PARENT}/runtimeVersions/v2-alpha-tpuv6e")
    assert version.version == "v2-alpha-tpuv6e"
    assert list(client.list_reservations(request={"parent": PARENT})) == []
    order = {"zone": "us-central2-b", "generation": "v4", "chips": 64}
    web.ask("PATCH", "/_emulator/config", {"reservations": [order]})
    (found,) = client.list_reservations(request={"parent": PARENT})
    assert found.standard.size == 64
    assert client.generate_service_identity(request={"parent": PARENT}).identity.email


def test_the_asynchronous_client_does_the_same(emulator, web):
    async def talk():
        async with grpc.aio.insecure_channel(emulator.grpc_address) as channel:
            transport = TpuGrpcAsyncIOTransport(channel=channel)
            client = tpu_v2alpha1.TpuAsyncClient(transport=transport)
            await asyncio.gather(*(create(client, f"n{number}") for number in range(50)))
            web.ask("POST", "/_emulator/settle")
            return [each.state async for each in await client.list_nodes(parent=PARENT)]

    assert asyncio.run(talk()) == [State.READY] * 50


SERVED = partial(fetched, path="/discovery/v1/apis/{api}/{apiVersion}/rest")


@pytest.fixture(params=[packaged, SERVED], ids=["packaged", "served"])
def locations(request, web):
    with request.param(web.url, "tpu", "v2alpha1") as service:
        yield service.projects().locations()


def test_flex_start_can_be_asked_for_over_rest_alone(locations, web):
    spec = {"parent": PARENT, "nodeId": "n", "node": BODY}
    body = {
        "tpu": {"nodeSpec": [spec]},
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "7200s"},
    }
    queued = locations.queuedResources()
    queued.create(parent=PARENT, queuedResourceId="q", body=body).execute()
    web.ask("POST", "/_emulator/settle")
    shown = queued.get(name=QUEUED).execute()
    assert (shown["state"]["state"], shown["provisioningModel"]) == ("ACTIVE", "FLEX_START")
    assert shown["runDuration"] == {"maxRunDuration": "7200s"}
    node = locations.nodes().get(name=name_of("n")).execute()
    assert node["schedulingConfig"]["terminationTimestamp"]
    (info,) = queued.getMaintenanceInfo(name=QUEUED).execute()["nodeUpcomingMaintenances"]
    assert (info["nodeName"], info["nodeUid"]) == (node["name"], node["id"])
    assert "upcomingMaintenance" not in info


def test_a_node_keeps_all_that_rest_can_say_of_it(locations, web):
    said = {
        **BODY,
        "bootDiskConfig": {
            "customerEncryptionKey": {"kmsKeyName": "k"},
            "enableConfidentialCompute": True,
            "diskSizeGb": "200",
            "sourceImage": "projects/lab/global/images/mine",
            "storagePool": "pool",
            "provisionedIops": "3000",
            "provisionedThroughput": "140",
        },
        "dataDisks": [{"sourceDisk": "d", "mode": "READ_ONLY", "workerIds": ["0"]}],
        "autocheckpointEnabled": True,
    }
    locations.nodes().create(parent=PARENT, nodeId="a", body=said).execute()
    web.ask("POST", "/_emulator/settle")
    node = locations.nodes().get(name=NAME).execute()
    assert {key: node[key] for key in said} == said
    _, seen = web.ask("GET", f"/v2/{NAME}")
    assert seen["bootDiskConfig"] == {"customerEncryptionKey": {"kmsKeyName": "k"}}
    assert "autocheckpointEnabled" not in seen
