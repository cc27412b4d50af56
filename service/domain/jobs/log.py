"""The log of a job: its lines, and a cursor that neither loses nor repeats a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.domain.jobs.report import SupervisorReport

NANOS = 1_000_000_000
OVERLAP_SECONDS = 15
"""How late a line may arrive and still be delivered: agents send batches every few seconds."""
SETTLE_SECONDS = OVERLAP_SECONDS + 15
"""So long after its end a job may still have lines on their way, where their number is unknown."""
LASTING_SECONDS = 120
"""After so long without one good read, a log counts as unreadable; a job that has ended waits for
it no longer."""
LASTING_READS = 3
"""At least so many reads have failed by then: many followed jobs are read rarely."""
MAX_SEEN = 1_000
"""How many delivered lines a cursor remembers. In a log storm the overlap shrinks to so many."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a worker's container printed, at nanoseconds since 1970.

    `worker` is its number among all of the job, `attempt` the number of the attempt; -1 where the
    entry does not say.
    """

    at_ns: int
    worker: int
    attempt: int
    text: str
    insert_id: str

    @property
    def identity(self) -> tuple[int, str]:
        """Two entries of one log that share it are the same entry (Cloud Logging, `insertId`)."""
        return self.at_ns, self.insert_id


@dataclass(frozen=True, slots=True)
class LogCursor:
    """How far a reader has come: it reads again from `from_ns`, and drops what is in `seen`.

    Every line that was delivered at or after `from_ns` is in `seen`, so no line is delivered twice.
    `delivered` counts them all.
    """

    from_ns: int
    newest_ns: int = 0
    seen: frozenset[tuple[int, str]] = frozenset()
    delivered: int = 0

    @staticmethod
    def start(at: int) -> LogCursor:
        """The cursor of a reader that begins at a UTC second."""
        return LogCursor(at * NANOS)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines that were not delivered before, by time, and the cursor to go on from.

    `more` is whether the log holds further lines by now.
    """

    lines: Sequence[LogLine]
    cursor: LogCursor
    more: bool


def fresh(cursor: LogCursor, found: Sequence[LogLine]) -> list[LogLine]:
    """The lines that the cursor has not delivered, each once, by time and id."""
    known = set(cursor.seen)
    lines = []
    for line in sorted(found, key=lambda each: each.identity):
        if line.at_ns >= cursor.from_ns and line.identity not in known:
            known.add(line.identity)
            lines.append(line)
    return lines


def deliver(cursor: LogCursor, found: Sequence[LogLine], limit: int, *, more: bool) -> LogPage:
    """The page of at most `limit` lines out of what was found in the log from `cursor.from_ns` on.

    `found` holds the oldest entries from there on; `more` is whether the log has others behind
    them. A line is lost if it arrives more than OVERLAP_SECONDS after a newer line was delivered.
    """
    lines = fresh(cursor, found)
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
    """Whether the reader has every line that the workers shipped, by their last reports.

    False where that cannot be known: a worker vanished before it said how much it had shipped.
    """
    counts = [one.shipped_lines if one.is_final else None for one in reports]
    known = [one for one in counts if one is not None]
    return len(known) == len(counts) and cursor.delivered >= sum(known)


def has_settled(ended_at: int | None, now: int) -> bool:
    """Whether a job ended so long ago (UTC seconds) that its last lines have arrived."""
    return ended_at is not None and now - ended_at >= SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class FailedReads:
    """Reads of one log that failed, without a good one between them.

    `since` is the UTC second of the first, `error` says what the newest failed with, and
    `is_permanent` whether the same read can never succeed before a human acts.
    """

    since: int
    count: int
    error: str
    is_permanent: bool

    def is_lasting(self, now: int) -> bool:
        """Whether followers are told of it; a failure that may pass is given time."""
        waited = now - self.since >= LASTING_SECONDS and self.count >= LASTING_READS
        return self.is_permanent or waited

    def is_final(self, ended_at: int | None, now: int) -> bool:
        """Whether no line is expected any more, of a job that ended at `ended_at`, if it did."""
        return has_settled(ended_at, now) and self.is_lasting(now)


def after_failure(
    before: FailedReads | None, error: str, now: int, *, is_permanent: bool
) -> FailedReads:
    """The failed reads once another has failed; `before` is None after a good read."""
    if before is None:
        return FailedReads(now, 1, error, is_permanent)
    return FailedReads(before.since, before.count + 1, error, is_permanent)


NANOS_PER_GIB = 500_000_000
"""What Cloud Logging takes for a GiB that it stores, beyond a project's free 50 GiB a month
(cloud.google.com/stackdriver/pricing; reference/jobs.md J7 comes to the same)."""

ENTRY_BYTES = 1_100
"""What an entry is billed beyond its text: 273 bytes were billed as 1.4 kB (J7)."""


def estimated_cost(reports: Iterable[SupervisorReport]) -> int:
    """About how many nano-dollars Cloud Logging takes for the output, without the free share."""
    billed = sum(one.shipped_bytes + ENTRY_BYTES * (one.shipped_lines or 0) for one in reports)
    return billed * NANOS_PER_GIB // 2**30
