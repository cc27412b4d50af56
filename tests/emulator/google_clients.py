"""Google's own clients, pointed at a served emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.api_core import operation
from google.api_core.client_options import ClientOptions
from google.api_core.future import polling
from google.api_core.retry import Retry, if_exception_type
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports.grpc import TpuGrpcTransport
from googleapiclient import discovery

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


def packaged(url: str, api: str, version: str) -> Any:
    """The client that builds itself from the discovery document which it brings along."""
    return discovery.build(
        api,
        version,
        static_discovery=True,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{url}/"},
    )


def fetched(url: str, api: str, version: str, path: str) -> Any:
    """The same client, built from the document that the emulator has at `path`."""
    return discovery.build(
        api,
        version,
        static_discovery=False,
        cache_discovery=False,
        discoveryServiceUrl=url + path,
        credentials=AnonymousCredentials(),
    )


def finish(future: operation.Operation) -> Any:
    """Wait for an operation, asking often."""
    return future.result(polling=QUICKLY)
