"""A program: the whole life of a node and of a queued resource, through google-cloud-tpu alone.

It runs in any environment with that package. Arguments: the gRPC address and the REST address of
an emulator. It prints the transports over which all went well.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import (
    TpuGrpcAsyncIOTransport,
    TpuGrpcTransport,
)

ZONE = "projects/lab/locations/us-central2-b"
WANTED = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")
PATIENCE_SECONDS = 30


async def answer(given: Any) -> Any:
    """Give the answer of a call, be the client asynchronous or not."""
    return await given if inspect.isawaitable(given) else given


async def until(look: Callable[[], Any], state: str) -> None:
    """Look until something is in a state; GONE is no longer found."""
    ends = time.monotonic() + PATIENCE_SECONDS
    seen = ""
    while seen != state:
        assert time.monotonic() < ends, f"still {seen}, not {state}"
        await asyncio.sleep(0.02)
        try:
            shown = (await answer(look())).state
            seen = getattr(shown, "state", shown).name
        except exceptions.NotFound:
            seen = "GONE"


async def names(listed: Any) -> list[str]:
    pager = await answer(listed)
    if hasattr(pager, "__aiter__"):
        return [each.name async for each in pager]
    return [each.name for each in pager]


async def live(client: Any, node_id: str) -> None:
    """Run a node and then a queued resource from create to delete."""
    name, queued = f"{ZONE}/nodes/{node_id}", f"{ZONE}/queuedResources/{node_id}"
    await answer(client.create_node(parent=ZONE, node_id=node_id, node=WANTED))
    await until(lambda: client.get_node(name=name), "READY")
    assert await names(client.list_nodes(parent=ZONE)) == [name]
    await answer(client.stop_node(request={"name": name}))
    await until(lambda: client.get_node(name=name), "STOPPED")
    await answer(client.delete_node(name=name))
    await until(lambda: client.get_node(name=name), "GONE")

    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=ZONE, node_id=node_id, node=WANTED)
    asked = tpu_v2.QueuedResource(tpu={"node_spec": [spec]}, spot={})
    await answer(
        client.create_queued_resource(
            parent=ZONE, queued_resource_id=node_id, queued_resource=asked
        )
    )
    await until(lambda: client.get_queued_resource(name=queued), "ACTIVE")
    assert await names(client.list_queued_resources(parent=ZONE)) == [queued]
    await answer(client.delete_queued_resource(request={"name": queued, "force": True}))
    await until(lambda: client.get_queued_resource(name=queued), "GONE")


async def over_grpc(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        await live(tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel)), "over-grpc")


async def over_async_grpc(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
        await live(client, "over-async-grpc")


async def over_rest(url: str) -> None:
    options = {"api_endpoint": url}
    client = tpu_v2.TpuClient(
        transport="rest", credentials=AnonymousCredentials(), client_options=options
    )
    await live(client, "over-rest")


def main(grpc_address: str, rest_url: str) -> None:
    lives: tuple[tuple[str, Callable[[str], Awaitable[None]], str], ...] = (
        ("grpc", over_grpc, grpc_address),
        ("grpc_asyncio", over_async_grpc, grpc_address),
        ("rest", over_rest, rest_url),
    )
    for transport, run, address in lives:
        asyncio.run(run(address))  # type: ignore[arg-type]
        sys.stdout.write(f"{transport}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
