"""Google's own clients, pointed at a served emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.api_core import operation
from google.api_core.client_options import ClientOptions
from google.api_core.future import polling
from google.api_core.retry import Retry, if_exception_type
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports.grpc import TpuGrpcTransport

from service.emulator.app import Emulator

OPEN = polling._OperationNotComplete
QUICKLY = Retry(predicate=if_exception_type(OPEN), initial=0.02, maximum=0.05, timeout=10)


@contextmanager
def grpc_client(emulator: Emulator) -> Iterator[tpu_v2.TpuClient]:
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        yield tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))


@contextmanager
def rest_client(emulator: Emulator) -> Iterator[tpu_v2.TpuClient]:
    with tpu_v2.TpuClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options=ClientOptions(api_endpoint=emulator.rest_url),
    ) as client:
        yield client


def finish(future: operation.Operation) -> object:
    """Wait for an operation, asking often."""
    return future.result(polling=QUICKLY)
