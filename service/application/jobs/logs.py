"""The output of jobs, as Cloud Logging keeps it: also after the node is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from service.application.jobs.last_lines import LINES, LastLines, LogEnd, shortened
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
    """What one read of the log found. `notes` say why output is missing, a sentence each, and
    `is_over` whether no more will come. `calls` is about how many calls of entries.list it took.
    Of a read that failed, `failed` counts it and those before it, `trouble` is the sentence to show
    (empty while the failure may pass). `retry_after` is the pause in seconds where the service did
    not allow itself the read, which is no failure."""

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
    """Reads what the supervisors have shipped. `read` calls the cloud; no transaction is open."""

    def __init__(self, units: Units, logs: WorkerLogs, clock: Clock) -> None:
        self._units = units
        self._logs = logs
        self._clock = clock
        self._last_lines = LastLines(logs, clock)

    def begin(self, job_id: str) -> LogCursor:
        """Where the log of a job begins. Raises NotFound."""
        with self._units.reading() as unit:
            return LogCursor.start(unit.jobs.get(job_id).created_at)

    def read(self, job_id: str, cursor: LogCursor) -> LogRead:
        """The next lines. Raises RateLimited when the log may not be read now, and other errors of
        the cloud."""
        job, attempts = self._load(job_id)
        return self._read(job, attempts, cursor)

    def follow(self, job_id: str, cursor: LogCursor, failed: FailedReads | None) -> LogRead:
        """The next lines for those who follow. Raises nothing: a failed read is part of the answer,
        and `failed` of the answer is passed to the next call."""
        job: Job | None = None
        attempts: Sequence[Attempt] = ()
        try:
            job, attempts = self._load(job_id)
            return self._read(job, attempts, cursor)
        except StewardError as error:
            retry_after = error.facts.get("retry_after")
            if isinstance(error, RateLimited) and isinstance(retry_after, int):  # by our own pace
                put_off = LogRead((), cursor, more=True, is_over=False, failed=failed)
                return replace(put_off, retry_after=retry_after)
            is_permanent, reason = isinstance(error, _PERMANENT), str(error)
        except Exception as error:  # without a reader, its followers would wait for ever
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

    def _load(self, job_id: str) -> tuple[Job, Sequence[Attempt]]:
        with self._units.reading() as unit:
            return unit.jobs.get(job_id), unit.jobs.attempts(job_id)

    def _read(self, job: Job, attempts: Sequence[Attempt], cursor: LogCursor) -> LogRead:
        page = self._logs.read(job.project, job.id, cursor, PAGE)
        reports = [report for one in attempts for report in one.own_reports]
        settled = job.ended_at is not None and (
            is_complete(page.cursor, reports) or has_settled(job.ended_at, self._clock())
        )
        is_over = settled and not page.more
        notes = notes_of(attempts) if is_over or not page.more else ()
        calls = max(1, -(-(len(page.lines) + len(cursor.seen)) // PAGE))
        return LogRead(page.lines, page.cursor, page.more, is_over, notes, calls)

    def last(self, job_id: str) -> LogEnd:
        """The last lines, for a page that is loaded again and again: a look of a few seconds ago
        serves all who ask. Never an error of the cloud: `LogEnd.error` says it. Raises NotFound."""
        job, attempts = self._load(job_id)
        shipped = self._last_lines.of(job) if any(one.reports for one in attempts) else LogEnd()
        tails = [shortened(line) for attempt in attempts for line in _tail(attempt)]
        newest = sorted([*shipped.lines, *tails], key=lambda line: line.at_ns)[-LINES:]
        return replace(shipped, lines=newest, notes=notes_of(attempts))

    def tails(self, job_id: str) -> Sequence[LogLine]:
        """The last output that came with the reports of workers whose log could not be shipped."""
        with self._units.reading() as unit:
            attempts = unit.jobs.attempts(job_id)
        return [line for attempt in attempts for line in _tail(attempt)]


def trouble_of(failed: FailedReads, now: int) -> str:
    """Why followers see no more output, in a sentence; empty while the failure may pass."""
    if not failed.is_lasting(now):
        return ""
    return f"no more output can be shown: the log cannot be read: {failed.error}"


def notes_of(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Why lines are missing: a worker whose log was refused, or that was over its budget."""
    found = []
    for attempt in attempts:
        for number, report in sorted(attempt.reports.items()):
            where = f"attempt {attempt.number}, worker {number}"
            if report.log_error:
                found.append(f"{where}: the log was not shipped: {report.log_error}")
            if report.dropped_bytes:
                found.append(f"{where}: {report.dropped_bytes} bytes were dropped (log_budget)")
    return tuple(found)


def _tail(attempt: Attempt) -> list[LogLine]:
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
