"""The output of jobs, as Cloud Logging keeps it: also after the node is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from service.application.jobs.last_lines import LINES, LastLines, LogEnd, shorten_line
from service.cloud.ports import WorkerLogs
from service.domain.clock import Clock
from service.domain.errors import (
    CloudNotFound,
    InvalidRequest,
    NotAllowed,
    RateLimited,
    StewardError,
)
from service.domain.jobs.job import Attempt, Job
from service.domain.jobs.log import (
    NANOS,
    FailedReads,
    LogCursor,
    LogLine,
    after_failure,
    has_settled,
    is_complete,
)
from service.store.unit import Units

log = structlog.get_logger()

PAGE = 1_000
"""Lines of one call of entries.list."""

_PERMANENT = (NotAllowed, InvalidRequest, CloudNotFound)


@dataclass(frozen=True, slots=True)
class LogRead:
    """The result of one read of the log. `notes` say why output is missing, one sentence each;
    `is_over` says that no more output will come. `calls` is the approximate number of calls of
    entries.list. For a failed read, `failed` counts the failures so far, and `trouble` is the
    sentence to show (empty while the failure may pass). `retry_after` is the pause in seconds if
    the service's own rate limit put the read off, which is no failure."""

    lines: Sequence[LogLine]
    cursor: LogCursor
    more: bool
    is_over: bool
    notes: tuple[str, ...] = ()
    calls: int = 1
    failed: FailedReads | None = None
    trouble: str = ""
    retry_after: int | None = None


class JobLogService:
    """Reads the output that the supervisors have shipped. `read_next` calls the cloud outside a
    transaction."""

    def __init__(self, units: Units, logs: WorkerLogs, clock: Clock) -> None:
        self._units = units
        self._logs = logs
        self._clock = clock
        self._last_lines = LastLines(logs, clock)

    def start_cursor(self, job_id: str) -> LogCursor:
        """The beginning of the log of a job. Raises NotFound."""
        with self._units.reading() as unit:
            return LogCursor.start(unit.jobs.get(job_id).created_at)

    def read_next(self, job_id: str, cursor: LogCursor) -> LogRead:
        """The next lines. Raises RateLimited if the log may not be read now, and other errors of
        the cloud."""
        job, attempts = self._load_job(job_id)
        return self._read_page(job, attempts, cursor)

    def follow(self, job_id: str, cursor: LogCursor, failed: FailedReads | None) -> LogRead:
        """The next lines for a follower. Raises nothing: a failed read is part of the answer, and
        `failed` of the answer is passed to the next call."""
        job: Job | None = None
        attempts: Sequence[Attempt] = ()
        try:
            job, attempts = self._load_job(job_id)
            return self._read_page(job, attempts, cursor)
        except StewardError as error:
            retry_after = error.facts.get("retry_after")
            if isinstance(error, RateLimited) and isinstance(
                retry_after, int
            ):  # by our own rate limit
                put_off = LogRead((), cursor, more=True, is_over=False, failed=failed)
                return replace(put_off, retry_after=retry_after)
            is_permanent, reason = isinstance(error, _PERMANENT), str(error)
        except Exception as error:  # an error here would leave its followers waiting forever
            log.exception("logs.read_failed", job_id=job_id)
            is_permanent, reason = False, f"unexpected error ({type(error).__name__})"
        now = self._clock()
        failed = after_failure(failed, reason, now, is_permanent=is_permanent)
        if failed.count == 1:
            log.warning("logs.not_read", job_id=job_id, reason=reason)
        return LogRead(
            (),
            cursor,
            more=False,
            is_over=failed.is_final(None if job is None else job.ended_at, now),
            notes=notes_of(attempts),
            failed=failed,
            trouble=trouble_of(failed, now),
        )

    def _load_job(self, job_id: str) -> tuple[Job, Sequence[Attempt]]:
        with self._units.reading() as unit:
            return unit.jobs.get(job_id), unit.jobs.list_attempts(job_id)

    def _read_page(self, job: Job, attempts: Sequence[Attempt], cursor: LogCursor) -> LogRead:
        page = self._logs.read_page(job.project, job.id, cursor, PAGE)
        reports = [report for attempt in attempts for report in attempt.own_reports]
        settled = job.ended_at is not None and (
            is_complete(page.cursor, reports) or has_settled(job.ended_at, self._clock())
        )
        is_over = settled and not page.more
        notes = notes_of(attempts) if is_over or not page.more else ()
        calls = max(1, -(-(len(page.lines) + len(cursor.seen)) // PAGE))
        return LogRead(page.lines, page.cursor, page.more, is_over, notes, calls)

    def read_end(self, job_id: str) -> LogEnd:
        """The last lines, for a page that is loaded again and again: a read of a few seconds ago
        serves all callers. Errors of the cloud are in `LogEnd.error`. Raises NotFound."""
        job, attempts = self._load_job(job_id)
        shipped = (
            self._last_lines.read_end(job)
            if any(attempt.reports for attempt in attempts)
            else LogEnd()
        )
        tails = [shorten_line(line) for attempt in attempts for line in _list_tail(attempt)]
        newest = sorted([*shipped.lines, *tails], key=lambda line: line.at_ns)[-LINES:]
        return replace(shipped, lines=newest, notes=notes_of(attempts))

    def list_tails(self, job_id: str) -> Sequence[LogLine]:
        """The last output in the reports of workers whose log could not be shipped."""
        with self._units.reading() as unit:
            attempts = unit.jobs.list_attempts(job_id)
        return [line for attempt in attempts for line in _list_tail(attempt)]


def trouble_of(failed: FailedReads, now: int) -> str:
    """Why followers see no more output, in a sentence; empty while the failure may pass."""
    if not failed.is_lasting(now):
        return ""
    return f"no more output can be shown: the log cannot be read: {failed.error}"


def notes_of(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Why lines are missing: a worker whose log was refused, or exceeded its budget."""
    found = []
    for attempt in attempts:
        for number, report in sorted(attempt.reports.items()):
            where = f"attempt {attempt.number}, worker {number}"
            if report.log_error:
                found.append(f"{where}: the log was not shipped: {report.log_error}")
            if report.dropped_bytes:
                found.append(f"{where}: {report.dropped_bytes} bytes were dropped (log_budget)")
    return tuple(found)


def _list_tail(attempt: Attempt) -> list[LogLine]:
    return [
        LogLine(
            at_ns=(report.sent_at or report.seen_at) * NANOS,
            worker=int(number),
            attempt=attempt.number,
            text=line,
            insert_id=f"tail-{number}-{position}",
        )
        for number, report in sorted(attempt.reports.items())
        for position, line in enumerate(report.tail.splitlines())
    ]
