"""The log of a job: its lines, and a cursor that loses and repeats no line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.domain.jobs.report import SupervisorReport

NANOS = 1_000_000_000
OVERLAP_SECONDS = 15
"""The largest delay of a line that is still delivered. Agents send batches every few seconds."""
SETTLE_SECONDS = OVERLAP_SECONDS + 15
"""Seconds after a job's end in which lines may still arrive, where their number is unknown."""
LASTING_SECONDS = 120
"""Seconds without a good read after which a log counts as unreadable. A job that has ended then
waits no longer for the log."""
LASTING_READS = 3
"""The number of failed reads before a log counts as unreadable: with many followed jobs, reads are
rare."""
MAX_SEEN = 1_000
"""The number of delivered lines that a cursor remembers. In a log storm the overlap shrinks to this
number of lines."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a worker's container, at nanoseconds since 1970.

    `worker` is its number among all of the job, `attempt` the number of the attempt; -1 where the
    entry has no number.
    """

    at_ns: int
    worker: int
    attempt: int
    text: str
    insert_id: str

    @property
    def identity(self) -> tuple[int, str]:
        """The key of the entry: entries of one log with the same key are one entry (Cloud Logging,
        `insertId`)."""
        return self.at_ns, self.insert_id


@dataclass(frozen=True, slots=True)
class LogCursor:
    """The position of a reader, which reads again from `from_ns`, and drops the lines in `seen`.

    Every line that was delivered at or after `from_ns` is in `seen`, so no line is delivered twice.
    `delivered` counts all delivered lines.
    """

    from_ns: int
    newest_ns: int = 0
    seen: frozenset[tuple[int, str]] = frozenset()
    delivered: int = 0

    @staticmethod
    def start(at: int) -> LogCursor:
        """Return the cursor of a reader that begins at a UTC second."""
        return LogCursor(at * NANOS)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines that were not delivered before, by time, and the cursor for the next page.

    `more` is whether the log holds further lines.
    """

    lines: Sequence[LogLine]
    cursor: LogCursor
    more: bool


def list_new_lines(cursor: LogCursor, found: Sequence[LogLine]) -> list[LogLine]:
    """Return the log lines that the cursor has not delivered, each once, by time and id."""
    known = set(cursor.seen)
    lines = []
    for line in sorted(found, key=lambda line: line.identity):
        if line.at_ns >= cursor.from_ns and line.identity not in known:
            known.add(line.identity)
            lines.append(line)
    return lines


def build_page(cursor: LogCursor, found: Sequence[LogLine], limit: int, *, more: bool) -> LogPage:
    """Return the next page of a job's log, with at most `limit` lines.

    `found` has the oldest entries of the log from `cursor.from_ns` on; `more` is whether the log
    has later entries. A line is lost if it arrives more than OVERLAP_SECONDS after a newer line was
    delivered.
    """
    lines = list_new_lines(cursor, found)
    shown, left = lines[:limit], lines[limit:]
    seen = cursor.seen | {line.identity for line in shown}
    newest = max([cursor.newest_ns, *(line.at_ns for line in shown)])
    horizon = max(cursor.from_ns, newest - OVERLAP_SECONDS * NANOS)
    if len(seen) > MAX_SEEN:
        horizon = max(horizon, sorted(seen)[-MAX_SEEN - 1][0] + 1)
    if left:
        horizon = min(horizon, left[0].at_ns)
    kept = frozenset(identity for identity in seen if identity[0] >= horizon)
    delivered = cursor.delivered + len(shown)
    return LogPage(shown, LogCursor(horizon, newest, kept, delivered), more or bool(left))


def is_complete(cursor: LogCursor, reports: Iterable[SupervisorReport]) -> bool:
    """Whether the reader of a log has every line that the workers shipped, by their last reports.

    False where the number of lines is unknown, because a worker vanished before its last report.
    """
    counts = [report.shipped_lines if report.is_final else None for report in reports]
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) and cursor.delivered >= sum(known)


def has_settled(ended_at: int | None, now: int) -> bool:
    """Whether a job ended long enough ago (UTC seconds) for its last log lines to have arrived."""
    return ended_at is not None and now - ended_at >= SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class FailedReads:
    """Consecutive failed reads of one log.

    `since` is the UTC second of the first, `error` the error of the newest, and `is_permanent`
    whether the same read can never succeed before a human acts.
    """

    since: int
    count: int
    error: str
    is_permanent: bool

    def is_lasting(self, now: int) -> bool:
        """Whether followers are told of the failure. A failure that may pass is not shown at
        first."""
        waited = now - self.since >= LASTING_SECONDS and self.count >= LASTING_READS
        return self.is_permanent or waited

    def is_final(self, ended_at: int | None, now: int) -> bool:
        """Whether no more line is expected. `ended_at` is None while the job goes on."""
        return has_settled(ended_at, now) and self.is_lasting(now)


def after_failure(
    before: FailedReads | None, error: str, now: int, *, is_permanent: bool
) -> FailedReads:
    """Return the failed reads of a log with another failure; `before` is None after a good read."""
    if before is None:
        return FailedReads(now, 1, error, is_permanent)
    return FailedReads(before.since, before.count + 1, error, is_permanent)


NANOS_PER_GIB = 500_000_000
"""Cloud Logging's price for a stored GiB, beyond a project's free 50 GiB a month
(cloud.google.com/stackdriver/pricing; reference/jobs.md J7 has the same price)."""

ENTRY_BYTES = 1_100
"""Billed bytes of an entry beyond its text: 273 bytes were billed as 1.4 kB (J7)."""


def estimated_cost(reports: Iterable[SupervisorReport]) -> int:
    """Return an estimate of Cloud Logging's charge for a job's log in nano-dollars, without the
    free share."""
    billed = sum(
        report.shipped_bytes + ENTRY_BYTES * (report.shipped_lines or 0) for report in reports
    )
    return billed * NANOS_PER_GIB // 2**30
