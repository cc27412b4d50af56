"""Four thousand calls at once over one channel: none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc.aio
import pytest
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

from tests.emulator.factories import PARENT, name_of

AT_ONCE = 4_000
WANTED = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")


async def in_flight(address: str) -> Counter[str]:
    """Create as many nodes at once, then get each of them, all over one channel."""
    async with grpc.aio.insecure_channel(address) as channel:
        client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
        ids = [f"n-{number}" for number in range(AT_ONCE)]
        created = await asyncio.gather(
            *(client.create_node(parent=PARENT, node_id=each, node=WANTED) for each in ids)
        )
        seen = await asyncio.gather(*(client.get_node(name=name_of(each)) for each in ids))
        names = {each.operation.name for each in created}
        return Counter(operations=len(names), nodes=len({each.id for each in seen}))


@pytest.mark.deep
def test_four_thousand_calls_at_once_all_get_their_answers(emulator):
    answered = asyncio.run(in_flight(emulator.grpc_address))
    assert answered == {"operations": AT_ONCE, "nodes": AT_ONCE}
