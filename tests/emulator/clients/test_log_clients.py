"""Google's Logging clients take the emulator for the cloud, tails included."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud import logging as cloud_logging
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcTransport,
)
from google.cloud.logging_v2.types import TailLogEntriesRequest

from tests.emulator.entries import GLOBAL, LOG
from tests.emulator.factories import name_of


def client_of(channel) -> LoggingServiceV2Client:
    return LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel))


class Listener:
    """Reads a tail in a thread of its own, as it must be read."""

    def __init__(self, client: LoggingServiceV2Client, text: str) -> None:
        request = TailLogEntriesRequest(resource_names=["projects/lab"], filter=text)
        self._stream: Any = client.tail_log_entries(requests=iter([request]))
        self.heard: list[Any] = []
        self._thread = Thread(target=self._read)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.heard) < count and time.monotonic() < deadline:
            time.sleep(0.01)

    def stop(self) -> None:
        self._stream.cancel()
        self._thread.join()

    def _read(self) -> None:
        try:
            for response in self._stream:
                self.heard += response.entries
        except exceptions.Cancelled:
            pass


def test_a_tail_hears_what_is_new_and_wanted(emulator, web):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        client = client_of(channel)
        old: Any = [{"text_payload": "old"}]
        client.write_log_entries(log_name=LOG, resource=GLOBAL, entries=old)
        listener = Listener(client, "severity>=INFO")
        entries: Any = [
            {"text_payload": "loud", "severity": "ERROR"},
            {"text_payload": "quiet", "severity": "DEBUG"},
        ]
        client.write_log_entries(log_name=LOG, resource=GLOBAL, entries=entries)
        listener.wait_for(1)
        parent = name_of("a").partition("/nodes/")[0]
        node = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
        web.ask("POST", f"/v2/{parent}/nodes?nodeId=a", node)
        # Two of the create, and one of the machine that came up by itself.
        listener.wait_for(4)
        listener.stop()
    assert [entry.text_payload for entry in listener.heard][:1] == ["loud"]
    assert [entry.resource.type for entry in listener.heard] == [
        "global",
        "audited_resource",
        "audited_resource",
        "tpu_worker",
    ]


def test_a_tail_that_makes_no_sense_is_refused(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        request = TailLogEntriesRequest(resource_names=["projects/lab"], filter="a AND")
        with pytest.raises(exceptions.InvalidArgument, match="Unparseable filter"):
            client_of(channel).tail_log_entries(requests=iter([request]))
        with pytest.raises(exceptions.InvalidArgument, match="resource name is required"):
            client_of(channel).tail_log_entries(requests=iter([]))


def test_a_tail_can_be_made_to_fail(emulator, web):
    order = {"rpc": "TailLogEntries", "action": "error", "code": "RESOURCE_EXHAUSTED"}
    web.ask("POST", "/_emulator/faults", order)
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        request = TailLogEntriesRequest(resource_names=["projects/lab"])
        with pytest.raises(exceptions.ResourceExhausted):
            client_of(channel).tail_log_entries(requests=iter([request]))


def test_googles_client_lists_and_writes_over_grpc(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        client = client_of(channel)
        entries: Any = [{"text_payload": str(number)} for number in range(5)]
        client.write_log_entries(log_name=LOG, resource=GLOBAL, entries=entries)
        pager = client.list_log_entries(
            request={"resource_names": ["projects/lab"], "page_size": 2}
        )
        assert [entry.text_payload for entry in pager] == list("01234")
        assert list(client.list_logs(parent="projects/lab")) == [LOG]
        with pytest.raises(exceptions.InvalidArgument):
            client.write_log_entries(log_name="x", entries=entries)


def test_the_everyday_client_writes_and_reads_over_rest(emulator):
    with AuthorizedSession(AnonymousCredentials()) as session:
        client = cloud_logging.Client(
            project="lab",
            _use_grpc=False,
            _http=session,
            client_options={"api_endpoint": emulator.rest_url},
        )
        logger = client.logger("trainer")
        logger.log_text("hello", severity="ERROR", labels={"run": "r1"})
        logger.log_struct({"step": 3})
        (hello,) = client.list_entries(filter_="severity>=ERROR")
        assert (hello.payload, hello.severity, hello.labels) == ("hello", "ERROR", {"run": "r1"})
        (structured,) = logger.list_entries(filter_="jsonPayload.step=3")
        assert structured.payload == {"step": 3}
        with pytest.raises(exceptions.BadRequest, match="Unparseable filter"):
            list(client.list_entries(filter_="a AND"))


def test_a_tail_is_for_grpc_alone(web):
    status, answer = web.ask("POST", "/v2/entries:tail", {"resourceNames": ["projects/lab"]})
    assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")
