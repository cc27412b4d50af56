"""The official client over asynchronous gRPC, and many calls at once."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports.grpc_asyncio import TpuGrpcAsyncIOTransport

from tests.emulator.factories import EVERYWHERE, PARENT, name_of


def ask(emulator, conversation):
    """Run a conversation with a client made inside the running loop."""

    async def talk():
        async with grpc.aio.insecure_channel(emulator.grpc_address) as channel:
            transport = TpuGrpcAsyncIOTransport(channel=channel)
            return await conversation(tpu_v2.TpuAsyncClient(transport=transport))

    return asyncio.run(talk())


def create(client, node_id):
    node = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")
    return client.create_node(parent=PARENT, node_id=node_id, node=node)


def test_many_creates_at_once_all_arrive(emulator, web):
    async def conversation(client):
        await asyncio.gather(*(create(client, f"n{number}") for number in range(200)))
        web.ask("POST", "/_emulator/settle")
        return [node.state async for node in await client.list_nodes(parent=EVERYWHERE)]

    assert ask(emulator, conversation) == [tpu_v2.Node.State.READY] * 200


def test_only_one_of_many_gets_the_name(emulator):
    async def conversation(client):
        tries = (create(client, "same") for _ in range(50))
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = ask(emulator, conversation)
    refused = [each for each in outcomes if isinstance(each, exceptions.AlreadyExists)]
    assert len(refused) == 49


@pytest.mark.deep
def test_two_thousand_calls_at_once_are_all_answered(emulator):
    async def conversation(client):
        await create(client, "a")
        gets = (client.get_node(name=name_of("a")) for _ in range(2000))
        return len(await asyncio.gather(*gets))

    assert ask(emulator, conversation) == 2000


def test_a_refusal_is_the_clients_own_error(emulator):
    async def conversation(client):
        await client.get_node(name=name_of("none"))

    with pytest.raises(exceptions.NotFound):
        ask(emulator, conversation)
