"""The gRPC surface: generic handlers around the table of methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_status import rpc_status

from service.emulator.api.dispatch import CallStream, Method, answer_bytes
from service.emulator.api.field_masks import HEADER
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError
from service.emulator.permissions import token_of
from service.emulator.surfaces.health import health_handler
from service.emulator.surfaces.request_body import MAX_BYTES
from service.emulator.world.world import World

OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_BYTES),
    # Beyond about a thousand pending calls the server would shed them at random.
    ("grpc.server.max_pending_requests", 100_000),
]

# How long something new may wait until a stream hands it out.
STREAM_SECONDS = 0.1

Context = grpc.aio.ServicerContext[bytes, Message]
Behaviour = Callable[[bytes, Context], Awaitable[Message]]
Streaming = Callable[[AsyncIterator[bytes], Context], AsyncIterator[Message]]
OpenStream = Callable[[World, Message], CallStream]


def build_server(world: World) -> grpc.aio.Server:
    """Make a server without a port; to be called inside the running loop."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers([health_handler()])
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                service.name,
                {method.name: _handler(world, method) for method in service.methods},
            )
            for service in SERVICES
        ]
    )
    return server


def _handler(world: World, method: Method) -> grpc.RpcMethodHandler[bytes, Message]:
    """Take the bytes as they come: the library answers garbage with a traceback, we do not."""
    if method.stream is not None:
        return grpc.stream_stream_rpc_method_handler(
            _streaming(world, method, method.stream),
            request_deserializer=None,
            response_serializer=method.response.SerializeToString,
        )
    return grpc.unary_unary_rpc_method_handler(
        _behaviour(world, method),
        request_deserializer=None,
        response_serializer=method.response.SerializeToString,
    )


def _behaviour(world: World, method: Method) -> Behaviour:
    async def behave(raw: bytes, context: Context) -> Message:
        return await _told(world, method, raw, context)

    return behave


def _streaming(world: World, method: Method, stream: OpenStream) -> Streaming:
    """Answer the first request, then hand out what is new until the caller hangs up.

    A caller that has no more requests to send goes on listening.
    """

    async def behave(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
        raw = await anext(aiter(requests), b"")
        first = await _told(world, method, raw, context)
        opened = stream(world, method.request.FromString(raw))
        try:
            # Google's client waits for a response before it hands the stream to its caller.
            yield first
            while True:
                fresh = opened.take()
                if fresh is not None:
                    yield fresh
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            opened.close()

    return behave


async def _told(world: World, method: Method, raw: bytes, context: Context) -> Message:
    token = token_of(_sent(context, "authorization"))
    told = answer_bytes(world, method, raw, _sent(context, HEADER), token)
    if told.delay_seconds:
        await asyncio.sleep(told.delay_seconds)
    if told.error is not None:
        await _abort(context, told.error)
    assert told.response is not None
    return told.response


def _sent(context: Context, header: str) -> str:
    """Give the last value of a header of the call; empty where its caller sent none."""
    values = [value for key, value in context.invocation_metadata() or () if key == header]
    return str(values[-1]) if values else ""


async def _abort(context: Context, error: ApiError) -> None:
    status = rpc_status.to_status(error.status())
    await context.abort(status.code, status.details or "", status.trailing_metadata or ())
