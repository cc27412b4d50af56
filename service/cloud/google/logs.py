"""The output of jobs, read from Cloud Logging."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.types import ListLogEntriesRequest

from service.cloud.google.entries import PAGE_SIZE, EntryLog
from service.cloud.google.retries import PATIENT, Allowance, Allowances
from service.cloud.ports import LogCursor, LogLine, LogPage
from service.cloud.rate_limit import LogReader, ReadPace
from service.domain.clock import to_rfc3339
from service.domain.errors import InvalidRequest, RateLimited
from service.domain.jobs.log import MAX_SEEN, NANOS, build_page, list_new_lines

LOG = "tpu-steward-jobs"
MAX_LINES = 5_000
MOST_PAGES = 1 + -(-(MAX_LINES + MAX_SEEN) // PAGE_SIZE)
"""Enough for the most lines, all seen lines, and one more page to fill the last one."""

PAGE_SECONDS = 3.0
"""Seconds that a page of the dashboard waits for the last lines."""

_JOB = re.compile(r"[a-z0-9-]{1,63}")
_WANTED = 'logName="projects/{project}/logs/{log}" AND labels.job="{job}" AND timestamp>="{since}"'


class GoogleWorkerLogs:
    """`service.cloud.ports.WorkerLogs` over Google's own client."""

    def __init__(
        self,
        client: LoggingServiceV2Client,
        patience: Allowances = PATIENT,
        pace: ReadPace | None = None,
    ) -> None:
        self._log = EntryLog(client, patience, pace, LogReader.JOBS)
        quick = replace(patience, listing=Allowance(PAGE_SECONDS))
        self._quick_log = EntryLog(client, quick, pace, LogReader.JOBS)

    def read_page(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        """Read the next lines of a job; fewer than `limit` if no more calls are allowed now."""
        limit = max(1, min(limit, MAX_LINES))
        request = _build_request(project, job, since.from_ns, limit + len(since.seen))
        found: list[LogLine] = []
        more = True
        try:
            for number, page in enumerate(self._log.list_pages(project, request), 1):
                found += [from_entry(entry) for entry in page.entries]
                more = bool(page.next_page_token)
                if len(list_new_lines(since, found)) >= limit or number == MOST_PAGES:
                    break
        except RateLimited:
            if not list_new_lines(since, found):
                raise
        return build_page(since, found, limit, more=more)

    def read_last_lines(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        """Read the newest lines of a job: the first page of the log from its end."""
        request = _build_request(project, job, since * NANOS, limit, order="desc")
        page = next(iter(self._quick_log.list_pages(project, request)))
        return list_new_lines(LogCursor.start(since), list(map(from_entry, page.entries)))[-limit:]


def _build_request(
    project: str, job: str, from_ns: int, size: int, order: str = "asc"
) -> ListLogEntriesRequest:
    """Build the request. Raises InvalidRequest for a job id that could change the filter."""
    if _JOB.fullmatch(job) is None:
        raise InvalidRequest(f"{job[:100]!r} is not the id of a job")
    second, nanos = divmod(from_ns, NANOS)
    moment = f"{to_rfc3339(second)[:-1]}.{nanos:09d}Z"
    return ListLogEntriesRequest(
        resource_names=[f"projects/{project}"],
        filter=_WANTED.format(project=project, log=LOG, job=job, since=moment),
        order_by=f"timestamp {order}",
        page_size=min(PAGE_SIZE, size),
    )


def from_entry(entry: Any) -> LogLine:
    """Decode an entry (the raw message). Never raises: anybody may write to the log."""
    return LogLine(
        at_ns=entry.timestamp.seconds * NANOS + entry.timestamp.nanos,
        worker=_parse_number(entry.labels.get("worker", "")),
        attempt=_parse_number(entry.labels.get("attempt", "")),
        text=entry.text_payload,
        insert_id=entry.insert_id,
    )


def _parse_number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
