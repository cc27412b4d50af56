"""The output of jobs, as Cloud Logging keeps it: also after the node is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.application.jobs.last_lines import LINES, LastLines, LogEnd, shortened
from service.cloud.ports import WorkerLogs
from service.domain.clock import Clock
from service.domain.jobs.job import Attempt
from service.domain.jobs.log import NANOS, OVERLAP_SECONDS, LogCursor, LogLine, is_complete
from service.store.unit import Units

PAGE = 1_000

SETTLE_SECONDS = OVERLAP_SECONDS + 15
"""So long after its end a job may still have lines on their way, where their number is unknown."""


@dataclass(frozen=True, slots=True)
class LogRead:
    """What one read of the log found. `notes` say why output is missing, a sentence each, and
    `is_over` whether no more will come."""

    lines: Sequence[LogLine]
    cursor: LogCursor
    more: bool
    is_over: bool
    notes: tuple[str, ...] = ()


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
        with self._units.reading() as unit:
            job, attempts = unit.jobs.get(job_id), unit.jobs.attempts(job_id)
        page = self._logs.read(job.project, job.id, cursor, PAGE)
        reports = [report for one in attempts for report in one.own_reports]
        settled = job.ended_at is not None and (
            is_complete(page.cursor, reports) or self._clock() - job.ended_at >= SETTLE_SECONDS
        )
        is_over = settled and not page.more
        notes = notes_of(attempts) if is_over or not page.more else ()
        return LogRead(page.lines, page.cursor, page.more, is_over, notes)

    def last(self, job_id: str) -> LogEnd:
        """The last lines, for a page that is loaded again and again: a look of a few seconds ago
        serves all who ask. Never an error of the cloud: `LogEnd.error` says it. Raises NotFound."""
        with self._units.reading() as unit:
            job, attempts = unit.jobs.get(job_id), unit.jobs.attempts(job_id)
        shipped = self._last_lines.of(job) if any(one.reports for one in attempts) else LogEnd()
        tails = [shortened(line) for attempt in attempts for line in _tail(attempt)]
        newest = sorted([*shipped.lines, *tails], key=lambda line: line.at_ns)[-LINES:]
        return replace(shipped, lines=newest, notes=notes_of(attempts))

    def tails(self, job_id: str) -> Sequence[LogLine]:
        """The last output that came with the reports of workers whose log could not be shipped."""
        with self._units.reading() as unit:
            attempts = unit.jobs.attempts(job_id)
        return [line for attempt in attempts for line in _tail(attempt)]


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
