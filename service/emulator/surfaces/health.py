"""The gRPC health checking protocol, `grpc.health.v1.Health`.

The status is about this process: no fault and no permission changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from service.emulator.api.methods import SERVICES

SERVICE = "grpc.health.v1.Health"
STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
SERVING, SERVICE_UNKNOWN = 1, 3
KNOWN = {"", SERVICE, *(service.name for service in SERVICES)}
"""The services that have a health status; the empty name is the server as a whole."""


def _build_pool() -> DescriptorPool:
    """Define the two messages of the protocol, in a pool of their own to avoid conflicts."""
    file = FileDescriptorProto(
        name="grpc/health/v1/health.proto", package="grpc.health.v1", syntax="proto3"
    )
    request = file.message_type.add(name="HealthCheckRequest")
    response = file.message_type.add(name="HealthCheckResponse")
    field = FieldDescriptorProto
    request.field.add(name="service", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    status = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(STATUSES):
        status.value.add(name=name, number=number)
    response.field.add(
        name="status",
        number=1,
        type=field.TYPE_ENUM,
        type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus",
        label=field.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    pool.Add(file)
    return pool


POOL = _build_pool()
Request: Any = GetMessageClass(POOL.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
Response: Any = GetMessageClass(POOL.FindMessageTypeByName("grpc.health.v1.HealthCheckResponse"))


def health_handler() -> grpc.GenericRpcHandler[bytes, Any]:
    """Return a handler for a server, which answers `Check` and `Watch`."""
    serialize = Response.SerializeToString
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Check": grpc.unary_unary_rpc_method_handler(_check_health, None, serialize),
            "Watch": grpc.unary_stream_rpc_method_handler(_watch_health, None, serialize),
        },
    )


async def _check_health(raw: bytes, context: grpc.aio.ServicerContext[bytes, Any]) -> Any:
    if await _read_service(raw, context) not in KNOWN:
        await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return Response(status=SERVING)


async def _watch_health(
    raw: bytes, context: grpc.aio.ServicerContext[bytes, Any]
) -> AsyncIterator[Any]:
    """Yield the status, which does not change while the emulator runs."""
    known = await _read_service(raw, context) in KNOWN
    yield Response(status=SERVING if known else SERVICE_UNKNOWN)
    await asyncio.Event().wait()


async def _read_service(raw: bytes, context: grpc.aio.ServicerContext[bytes, Any]) -> str:
    try:
        return str(Request.FromString(raw).service)
    except DecodeError:
        text = "The request is not a grpc.health.v1.HealthCheckRequest."
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        raise
