"""The gRPC surface: a generic handler for each method of the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_status import rpc_status

from service.emulator.api.calls.dispatch import Method, answer_bytes
from service.emulator.api.calls.field_masks import HEADER
from service.emulator.api.methods import SERVICES
from service.emulator.permissions import token_of
from service.emulator.surfaces.health import health_handler
from service.emulator.surfaces.request_body import MAX_BYTES
from service.emulator.world.world import World

OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_BYTES),
    # With the default, the server rejects random calls beyond about a thousand pending ones.
    ("grpc.server.max_pending_requests", 100_000),
]

# Seconds between two polls of a stream.
STREAM_SECONDS = 0.1

Context = grpc.aio.ServicerContext[bytes, Message]


def build_server(world: World) -> grpc.aio.Server:
    """Make a server without a port; to be called inside the running event loop."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers([health_handler()])
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                service.name,
                {method.name: _build_handler(world, method) for method in service.methods},
            )
            for service in SERVICES
        ]
    )
    return server


def _build_handler(world: World, method: Method) -> grpc.RpcMethodHandler[bytes, Message]:
    """Return a handler without a deserializer: grpc's own answers garbage with a traceback."""

    async def answer_request(raw: bytes, context: Context) -> Message:
        return await _answer_call(world, method, raw, context)

    async def stream_messages(
        requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[Message]:
        """Answer the first request, then send messages until the caller ends the stream, which
        continues when the caller has no more requests to send."""
        raw = await anext(aiter(requests), b"")
        first = await _answer_call(world, method, raw, context)
        assert method.stream is not None
        opened = method.stream(world, method.request.FromString(raw))
        try:
            # Google's client waits for a response before it returns the stream to its caller.
            yield first
            while True:
                fresh = opened.take_new()
                if fresh is not None:
                    yield fresh
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            opened.close()

    if method.stream is not None:
        return grpc.stream_stream_rpc_method_handler(
            stream_messages,
            request_deserializer=None,
            response_serializer=method.response.SerializeToString,
        )
    return grpc.unary_unary_rpc_method_handler(
        answer_request,
        request_deserializer=None,
        response_serializer=method.response.SerializeToString,
    )


async def _answer_call(world: World, method: Method, raw: bytes, context: Context) -> Message:
    token = token_of(_read_header(context, "authorization"))
    answer = answer_bytes(world, method, raw, _read_header(context, HEADER), token)
    if answer.delay_seconds:
        await asyncio.sleep(answer.delay_seconds)
    if answer.error is not None:
        status = rpc_status.to_status(answer.error.to_status())
        await context.abort(status.code, status.details or "", status.trailing_metadata or ())
    assert answer.response is not None
    return answer.response


def _read_header(context: Context, header: str) -> str:
    """Return the last value of a header of the call; empty if there is none."""
    values = [value for key, value in context.invocation_metadata() or () if key == header]
    return str(values[-1]) if values else ""
