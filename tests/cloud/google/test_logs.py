"""The output of jobs, read through Google's own client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.types import ListLogEntriesResponse, LogEntry

from service.cloud.google.channel import open_channel
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.logs import PAGE_SECONDS, GoogleWorkerLogs, from_entry
from service.cloud.google.retries import ONCE, PATIENT
from service.cloud.ports import LogCursor
from service.cloud.rate_limit import LogReader, ReadPace
from service.domain.clock import wall_clock
from service.domain.errors import CloudUnavailable, InvalidRequest, RateLimited
from service.domain.jobs.log import NANOS
from tests.cloud.google.emulated import Cloud
from tests.hands import NOON

JOB = "0193a1b2-7c3d"
LOG = "projects/lab/logs/tpu-steward-jobs"


def entry(at_ns: int, text: str = "line", insert_id: str = "a", **labels: str) -> LogEntry:
    """One entry as a supervisor writes it."""
    shown = {"job": JOB, "attempt": "2", "worker": "3", "stream": "stdout", **labels}
    return LogEntry(
        log_name=LOG,
        resource={"type": "global", "labels": {"project_id": "lab"}},
        labels=shown,
        timestamp={"seconds": at_ns // NANOS, "nanos": at_ns % NANOS},
        insert_id=insert_id,
        text_payload=text,
    )


class Written:
    """The emulator's log: written to by a worker, read by our adapter."""

    def __init__(self, cloud: Cloud) -> None:
        self._channel = open_channel(cloud.emulator.grpc_address)
        self.client = logging_client(self._channel)
        self.logs = GoogleWorkerLogs(self.client, replace(PATIENT, listing=ONCE.listing))
        self.start = wall_clock() - 60

    def write(self, *entries: LogEntry) -> None:
        self.client.write_log_entries(entries=list(entries), timeout=10)

    def at(self, seconds: float) -> int:
        return self.start * NANOS + int(seconds * NANOS)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def written(cloud: Cloud) -> Iterator[Written]:
    made = Written(cloud)
    yield made
    made.close()


def test_the_lines_of_one_job_are_told_by_time(written):
    written.write(
        entry(written.at(2), "second", "b"),
        entry(written.at(1), "first", "a", worker="0"),
        entry(written.at(1), "another job", "c", job="other"),
    )
    page = written.logs.read_page("lab", JOB, LogCursor.start(written.start), 10)
    assert [(line.text, line.worker, line.attempt) for line in page.lines] == [
        ("first", 0, 2),
        ("second", 3, 2),
    ]
    assert [line.at_ns for line in page.lines] == [written.at(1), written.at(2)]
    assert not page.more


def test_lines_of_one_nanosecond_and_lines_that_come_late_are_told_once(written):
    at = written.at(20) + 123_456_789
    written.write(entry(at, "x", "x"), entry(at, "y", "y"))
    first = written.logs.read_page("lab", JOB, LogCursor.start(written.start), 1)
    assert ([line.text for line in first.lines], first.more) == (["x"], True)
    written.write(entry(at, "w", "w"), entry(at - 9 * NANOS, "late", "l"))
    second = written.logs.read_page("lab", JOB, first.cursor, 10)
    assert [line.text for line in second.lines] == ["late", "w", "y"]
    assert written.logs.read_page("lab", JOB, second.cursor, 10).lines == []


def test_more_lines_than_a_page_has_are_read_page_by_page(written):
    written.write(*(entry(written.at(1) + n, str(n), f"{n:06}") for n in range(2_500)))
    cursor, told = LogCursor.start(written.start), []
    while True:
        page = written.logs.read_page("lab", JOB, cursor, 2_000)
        told += [line.text for line in page.lines]
        cursor = page.cursor
        if not page.more:
            break
    assert told == [str(n) for n in range(2_500)]


def test_the_last_lines_are_the_newest_by_time_each_once(written):
    written.write(
        *(entry(written.at(1) + n, str(n), f"{n:02}") for n in range(9)),
        entry(written.at(2), "another job", "x", job="other"),
    )
    lines = written.logs.read_last_lines("lab", JOB, written.start, 3)
    assert [line.text for line in lines] == ["6", "7", "8"]
    assert written.logs.read_last_lines("lab", JOB, written.start + 2, 3) == []


@pytest.mark.parametrize("job", ["", 'a" OR logName:"', "A", "a" * 64, "a b"])
def test_a_job_id_that_could_change_the_filter_is_refused(job):
    client = create_autospec(LoggingServiceV2Client, instance=True)
    with pytest.raises(InvalidRequest, match="not the id of a job"):
        GoogleWorkerLogs(client).read_page("lab", job, LogCursor.start(NOON), 10)
    assert client.method_calls == []


@pytest.fixture
def client() -> Any:
    return create_autospec(LoggingServiceV2Client, instance=True, spec_set=True)


def test_the_question_names_the_log_the_job_and_the_nanosecond(client):
    client.list_log_entries.return_value.pages = iter([ListLogEntriesResponse()])
    cursor = LogCursor(NOON * NANOS + 5, seen=frozenset({(NOON * NANOS + 5, "a")}))
    GoogleWorkerLogs(client).read_page("lab", JOB, cursor, 10)
    asked = client.list_log_entries.call_args.kwargs
    request = asked["request"]
    assert (asked["timeout"], asked["retry"]) == (PATIENT.listing.timeout, PATIENT.listing.retry)
    assert (list(request.resource_names), request.page_size) == (["projects/lab"], 11)
    assert request.order_by == "timestamp asc"
    assert request.filter == (
        f'logName="{LOG}" AND labels.job="{JOB}" AND timestamp>="2026-11-05T12:00:00.000000005Z"'
    )


def test_the_last_lines_take_one_call_that_is_short_and_not_tried_again(client):
    twice = [entry(NOON * NANOS + 1), entry(NOON * NANOS + 1), entry(NOON * NANOS)]
    page = ListLogEntriesResponse(entries=twice, next_page_token="2")
    client.list_log_entries.return_value.pages = iter([page, ListLogEntriesResponse()])
    pace = ReadPace(lambda: 0.0, per_minute=2, kept=1)
    assert len(GoogleWorkerLogs(client, pace=pace).read_last_lines("lab", JOB, NOON, 10)) == 2
    asked = client.list_log_entries.call_args.kwargs
    assert (asked["timeout"], asked["retry"]) == (PAGE_SECONDS, None)
    assert asked["request"].order_by == "timestamp desc"
    with pytest.raises(RateLimited):
        GoogleWorkerLogs(client, pace=pace).read_last_lines("lab", JOB, NOON, 10)


def test_a_second_page_that_may_not_be_read_now_is_left_for_later(client):
    pages = [
        ListLogEntriesResponse(entries=[entry(NOON * NANOS)], next_page_token="2"),
        ListLogEntriesResponse(entries=[entry(NOON * NANOS + 1)]),
    ]
    client.list_log_entries.return_value.pages = iter(pages)
    logs = GoogleWorkerLogs(client, pace=ReadPace(lambda: 0.0, per_minute=2, kept=1))
    page = logs.read_page("lab", JOB, LogCursor.start(NOON), 10)
    assert (len(page.lines), page.more) == (1, True)
    with pytest.raises(RateLimited) as refusal:
        logs.read_page("lab", JOB, page.cursor, 10)
    assert refusal.value.facts["retry_after"] == 60


def test_the_audit_log_takes_from_the_same_reads(client):
    pace = ReadPace(lambda: 0.0, per_minute=3, kept=1)
    page = ListLogEntriesResponse(next_page_token="2")
    client.list_log_entries.return_value.pages = iter([page, ListLogEntriesResponse()])
    GoogleHistory(client, pace=pace).list_terminations("lab", NOON, NOON + 60)
    pace.count_call("lab", LogReader.JOBS)
    with pytest.raises(RateLimited):
        GoogleHistory(client, pace=pace).list_terminations("lab", NOON, NOON + 60)


def test_a_log_that_does_not_answer_is_unavailable(client):
    client.list_log_entries.side_effect = exceptions.ServiceUnavailable("away")
    with pytest.raises(CloudUnavailable):
        GoogleWorkerLogs(client).read_page("lab", JOB, LogCursor.start(NOON), 10)


@pytest.mark.parametrize("number", ["", "-1", "x", "1" * 20, "٣"])
def test_an_entry_with_strange_labels_is_a_line_all_the_same(number):
    line = from_entry(LogEntry.pb(entry(5, worker=number, attempt=number)))
    assert (line.worker, line.attempt, line.text, line.at_ns) == (-1, -1, "line", 5)
