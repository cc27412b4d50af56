"""The emulator against a bare gRPC server that sends the same bytes, and what its nodes weigh.

Both servers run in processes of their own; Google's client asks them in turn, so that a noisy
neighbour disturbs both. The client's own work is in both figures, as it is in real life.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import grpc.aio
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from tests.bench.figure import Figure

NODES = 1_000
ROUNDS = 60
WARM_UP = 5
MANY = 100_000
PARENT = "projects/lab/locations/us-central2-b"
LIST_NODES = "/google.cloud.tpu.v2.Tpu/ListNodes"
SPAWN = multiprocessing.get_context("spawn")


def measure() -> list[Figure]:
    """How much longer a list takes than its bytes do, and the memory of many nodes."""
    return [_listing(), _weight()]


def _listing() -> Figure:
    with ExitStack() as stack:
        real = _client(_started(stack, _serve_emulator))
        assert isinstance(real.transport, TpuGrpcTransport)
        answer = real.transport.grpc_channel.unary_unary(LIST_NODES, None, None)(_request())
        bare = _client(_started(stack, _serve_bytes, answer))
        found = [(_seconds(real), _seconds(bare)) for _ in range(ROUNDS)][WARM_UP:]
    ours, theirs = (statistics.median(column) for column in zip(*found, strict=True))
    detail = f"{ours * 1000:.1f} ms against {theirs * 1000:.1f} ms for {len(answer):,} bytes"
    name = "list_nodes of 1,000 nodes: against a server of ready bytes"
    return Figure(name, ours / theirs, 1.5, detail=detail)


def _weight() -> Figure:
    here, there = multiprocessing.Pipe()
    process = SPAWN.Process(target=hold, args=(there, MANY))
    process.start()
    gigabytes, ready = here.recv()
    process.join()
    return Figure(
        f"{MANY:,} nodes held, in GB of memory", gigabytes, 1.0, detail=f"{ready:,} of them READY"
    )


def _request() -> bytes:
    return bytes(tpu_v2.ListNodesRequest.serialize({"parent": PARENT, "page_size": NODES}))


def _seconds(client: tpu_v2.TpuClient) -> float:
    start = time.perf_counter()
    pages = client.list_nodes({"parent": PARENT, "page_size": NODES}, timeout=30)
    names = [node.name for node in pages]
    elapsed = time.perf_counter() - start
    assert len(names) == NODES
    return elapsed


def _client(port: int) -> tpu_v2.TpuClient:
    options = [("grpc.max_receive_message_length", -1)]
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
    return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))


def _started(stack: ExitStack, serve: Callable[..., None], *args: object) -> int:
    here, there = multiprocessing.Pipe()
    process = SPAWN.Process(target=serve, args=(there, *args), daemon=True)
    process.start()
    stack.callback(process.join, 10)
    stack.callback(here.send, "stop")
    port: int = here.recv()
    return port


def _serve_emulator(pipe: Connection) -> None:
    from service.emulator.app import build_world, run_in_thread  # noqa: PLC0415 - in this process only

    world = build_world()
    fill_fleet(world, NODES)
    with run_in_thread(world) as emulator:
        pipe.send(emulator.grpc_port)
        pipe.recv()


def _serve_bytes(pipe: Connection, answer: bytes) -> None:
    asyncio.run(_bare(pipe, answer))


async def _bare(pipe: Connection, answer: bytes) -> None:
    async def behave(_: bytes, __: object) -> bytes:
        return answer

    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    handlers = {"ListNodes": grpc.unary_unary_rpc_method_handler(behave)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("google.cloud.tpu.v2.Tpu", handlers)]
    )
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await asyncio.to_thread(pipe.recv)
    await server.stop(0)


def hold(pipe: Connection, count: int) -> None:
    from service.emulator.app import build_world  # noqa: PLC0415 - in this process only

    world = build_world()
    fill_fleet(world, count)
    ready = sum(record.state == "READY" for record in world.nodes.values())
    pipe.send((_peak_bytes() / 1024**3, ready))


def _peak_bytes() -> int:
    """Return the most memory this process itself held at once.

    Linux hands `ru_maxrss` on through fork and exec: a child of a heavy process would report
    its parent's weight, so there the kernel's own figure of this process is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def fill_fleet(world: object, count: int) -> None:
    """Have nodes made by the API, with what a lab's nodes carry: labels and a startup script."""
    from service.emulator.api.calls.dispatch import answer_message  # noqa: PLC0415 - in this process only
    from service.emulator.api.methods import SERVICES  # noqa: PLC0415
    from service.emulator.world.world import World  # noqa: PLC0415

    assert isinstance(world, World)
    create = next(
        method
        for service in SERVICES
        for method in service.methods
        if (service.name, method.name) == ("google.cloud.tpu.v2.Tpu", "CreateNode")
    )
    for number in range(count):
        request = create.request(
            parent=PARENT,
            node_id=f"n-{number:06d}",
            node={
                "accelerator_type": "v4-8",
                "runtime_version": "tpu-ubuntu2204-base",
                "labels": {"team": "vision", "run": str(number)},
                "metadata": {"startup-script": "#!/bin/bash\ndocker run train\n"},
            },
        )
        told = answer_message(world, create, request)
        assert told.error is None, told.error
    world.run_pending_events()
