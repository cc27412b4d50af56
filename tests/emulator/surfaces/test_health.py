"""Whether the emulator answers, over HTTP and by the gRPC health checking protocol."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from service.emulator.api.methods import SERVICES
from service.emulator.app import Emulator

OUTAGE = {"rpc": "*", "action": "error", "code": "UNAVAILABLE", "times": 0}
# As any client of the protocol writes them: field 1, the status SERVING or SERVICE_UNKNOWN.
SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x03"


def request(service: str) -> bytes:
    """A HealthCheckRequest on the wire; no field at all for the server as a whole."""
    name = service.encode()
    return b"\x0a" + bytes([len(name)]) + name if name else b""


@pytest.fixture
def channel(emulator: Emulator) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(emulator.grpc_address) as connected:
        yield connected


def check(channel: grpc.Channel, raw: bytes) -> bytes:
    call = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
    answered: bytes = call(raw, timeout=10)
    return answered


@pytest.mark.parametrize("service", ["", *(each.name for each in SERVICES)])
def test_each_service_is_serving(channel, service):
    assert check(channel, request(service)) == SERVING


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (request("google.cloud.tpu.v9.Tpu"), grpc.StatusCode.NOT_FOUND),
        (b"\x0a\xff", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_what_is_not_served_is_refused(channel, raw, code):
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, raw)
    assert caught.value.code() is code


@pytest.mark.parametrize(
    ("service", "status"), [("", SERVING), ("google.cloud.tpu.v9.Tpu", SERVICE_UNKNOWN)]
)
def test_a_watch_tells_the_status_and_stays_open(channel, service, status):
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", bytes, bytes)(request(service))
    assert next(watch) == status
    assert watch.is_active()
    watch.cancel()


def test_an_outage_of_the_emulated_cloud_is_not_one_of_the_emulator(channel, web):
    web.ask("POST", "/_emulator/faults", OUTAGE)
    web.ask("PATCH", "/_emulator/config", {"permissions": {"*": {"granted": []}}})
    assert check(channel, b"") == SERVING
    assert web.ask("GET", "/healthz") == (200, {"status": "ok"})
