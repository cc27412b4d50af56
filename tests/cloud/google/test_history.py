"""Google's own logging client, mocked for what it says and against the emulator for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest
from google.api_core import exceptions
from google.cloud.audit import audit_log_pb2
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.types import ListLogEntriesResponse, LogEntry

from service.cloud.google.channel import open_channel
from service.cloud.google.history import GoogleHistory, from_entry, logging_client
from service.cloud.google.pages import PAGE_SIZE
from service.cloud.google.retries import ONCE, PATIENT
from service.cloud.ports import Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import wall_clock
from service.domain.errors import CloudUnavailable, InvalidRequest, NotAllowed
from service.domain.evidence.audit_log import Termination
from service.domain.nodes.node import Place
from tests.cloud.google.emulated import Cloud
from tests.cloud.google.given import SPEC
from tests.hands import NOON

PATH = "projects/lab/locations/us-east5-b/nodes/trainer"
ALL_TIME = 0, 4_000_000_000


@pytest.fixture
def history(cloud: Cloud) -> Iterator[GoogleHistory]:
    """Our adapter over a channel of its own."""
    channel = open_channel(cloud.emulator.grpc_address)
    yield GoogleHistory(logging_client(channel), replace(PATIENT, listing=ONCE.listing))
    channel.close()


def preempted(cloud: Cloud, name: str = "trainer") -> str:
    """A spot node that was READY and was taken away; its full name."""
    spec = replace(SPEC, provisioning_model=ProvisioningModel.SPOT)
    place = Place("lab", "us-east5-b", name)
    cloud.tpus().create(Order(place, spec, {}))
    cloud.settle()
    cloud.tell("nodes/preempt", {"name": place.path})
    return place.path


def test_a_preemption_is_found_by_its_node_and_its_second(
    cloud: Cloud, history: GoogleHistory
) -> None:
    before = wall_clock()
    path = preempted(cloud)
    (one,) = history.list_terminations("lab", *ALL_TIME)
    assert (one.path, one.reason) == (path, "PREEMPTED")
    assert before <= one.at <= wall_clock()


def test_only_the_seconds_asked_for_are_told(cloud: Cloud, history: GoogleHistory) -> None:
    preempted(cloud)
    (one,) = history.list_terminations("lab", *ALL_TIME)
    assert history.list_terminations("lab", one.at, one.at + 1) == [one]
    assert history.list_terminations("lab", one.at + 1, one.at + 60) == []
    assert history.list_terminations("lab", one.at - 60, one.at) == []


def test_neither_machines_nor_callers_nor_other_projects_are_told_of(
    cloud: Cloud, history: GoogleHistory
) -> None:
    path = preempted(cloud)
    cloud.tpus().delete(Place.from_path(path))
    cloud.settle()
    assert [termination.path for termination in history.list_terminations("lab", *ALL_TIME)] == [
        path
    ]
    assert history.list_terminations("elsewhere", *ALL_TIME) == []


def test_what_is_not_written_yet_is_not_told(cloud: Cloud, history: GoogleHistory) -> None:
    cloud.set(telemetry={"log_delay_seconds": 3_600})
    preempted(cloud)
    assert history.list_terminations("lab", *ALL_TIME) == []


def test_an_entry_that_is_there_twice_says_the_same_twice(
    cloud: Cloud, history: GoogleHistory
) -> None:
    cloud.set(telemetry={"log_twice_share": 1})
    preempted(cloud)
    first, second = history.list_terminations("lab", *ALL_TIME)
    assert first == second


@pytest.mark.parametrize(
    ("code", "meant"), [("PERMISSION_DENIED", NotAllowed), ("UNAVAILABLE", CloudUnavailable)]
)
def test_a_log_that_may_not_be_read_says_what_to_do(
    cloud: Cloud, history: GoogleHistory, code: str, meant: Any
) -> None:
    cloud.fault("ListLogEntries", "error", code=code)
    with pytest.raises(meant):
        history.list_terminations("lab", *ALL_TIME)


# ---- what the mock knows


@pytest.fixture
def client() -> Any:
    return create_autospec(LoggingServiceV2Client, instance=True, spec_set=True)


def entry(at: int | None = NOON, **audit: Any) -> LogEntry:
    """One entry of the audit log as the client hands it over."""
    values = {"resource_name": PATH, "metadata": {"terminateReason": "PREEMPTED"}, **audit}
    made = LogEntry.pb()()
    made.proto_payload.Pack(audit_log_pb2.AuditLog(**values))
    if at is not None:
        made.timestamp.seconds, made.timestamp.nanos = at, 999_999_999
    return LogEntry.wrap(made)


def test_the_question_names_the_log_and_the_time_and_has_a_timeout(client: Any) -> None:
    client.list_log_entries.return_value.pages = iter(())
    assert GoogleHistory(client).list_terminations("lab", NOON, NOON + 60) == []
    asked = client.list_log_entries.call_args.kwargs
    request = asked["request"]
    assert (asked["timeout"], asked["retry"]) == (PATIENT.listing.timeout, PATIENT.listing.retry)
    assert (list(request.resource_names), request.page_size) == (["projects/lab"], PAGE_SIZE)
    assert request.filter == (
        'logName="projects/lab/logs/cloudaudit.googleapis.com%2Fsystem_event"'
        ' AND protoPayload.serviceName="tpu.googleapis.com"'
        ' AND protoPayload.methodName="tpu.nodes.terminate"'
        ' AND timestamp>="2026-11-05T12:00:00Z" AND timestamp<"2026-11-05T12:01:00Z"'
    )


def test_every_page_is_read_and_one_that_fails_fails_the_whole(client: Any) -> None:
    def answers(*last: Any) -> Iterator[Any]:
        yield ListLogEntriesResponse(entries=[entry()], next_page_token="2")
        for answer in last:
            if isinstance(answer, Exception):
                raise answer
            yield answer

    client.list_log_entries.return_value.pages = answers(
        ListLogEntriesResponse(entries=[entry(NOON + 5)])
    )
    found = GoogleHistory(client).list_terminations("lab", *ALL_TIME)
    assert [entry.at for entry in found] == [NOON, NOON + 5]
    client.list_log_entries.return_value.pages = answers(exceptions.ServiceUnavailable("away"))
    with pytest.raises(CloudUnavailable):
        GoogleHistory(client).list_terminations("lab", *ALL_TIME)


def test_a_refused_filter_is_said_in_our_words(client: Any) -> None:
    client.list_log_entries.side_effect = exceptions.InvalidArgument("Unparseable filter")
    with pytest.raises(InvalidRequest, match="Unparseable filter"):
        GoogleHistory(client).list_terminations("lab", *ALL_TIME)


def test_a_project_that_is_called_by_its_number_is_the_one_that_was_asked_for() -> None:
    by_number = entry(resource_name=PATH.replace("lab", "123456789"))
    assert from_entry("lab", LogEntry.pb(by_number)) == Termination(PATH, NOON, "PREEMPTED")


def test_an_entry_without_a_reason_counts_all_the_same() -> None:
    assert from_entry("lab", LogEntry.pb(entry(metadata={}))) == Termination(PATH, NOON, "")


@pytest.mark.parametrize(
    "strange",
    [
        LogEntry(),
        LogEntry(text_payload="hello", timestamp={"seconds": NOON}),
        entry(at=None),
        entry(resource_name="lab/trainer"),
        LogEntry(
            proto_payload={"type_url": "type.googleapis.com/google.cloud.audit.AuditLog"},
            timestamp={"seconds": NOON},
        ),
    ],
)
def test_an_entry_that_names_no_node_or_no_time_is_passed_over(strange: LogEntry) -> None:
    assert from_entry("lab", LogEntry.pb(strange)) is None


def test_an_entry_that_cannot_be_read_is_passed_over() -> None:
    broken = LogEntry.pb(entry())
    broken.proto_payload.value = b"\xff\xff\xff"
    assert from_entry("lab", broken) is None
