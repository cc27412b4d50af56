"""The last lines of the logs of jobs, read rarely however many pages show them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from service.cloud.ports import WorkerLogs
from service.domain.clock import Clock
from service.domain.errors import RateLimited, StewardError
from service.domain.jobs.job import Job
from service.domain.jobs.log import LogLine

LINES = 100
"""Lines that a page shows."""

LONGEST = 2_000
"""Characters of a line that are kept; an entry of Cloud Logging can have 256 KiB."""

READ_SECONDS = 15
"""Seconds between two reads for one job: Cloud Logging allows 60 a minute for the whole project."""

SETTLED_SECONDS = 600
"""Seconds between two reads once all lines of an ended job have had time to arrive."""

_LATEST_SECONDS = 60
_KEPT_JOBS = 100


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last lines by time, and when they were read; None if they were never read.

    `error` says why the newest read failed: the lines are then those of the read before. `notes`
    say why output is missing, one sentence each.
    """

    lines: Sequence[LogLine] = ()
    read_at: int | None = None
    error: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Kept:
    """The known lines of one job, and when to read again. The holder of the lock reads."""

    end: LogEnd = LogEnd()
    again_at: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class LastLines:
    """Caches the end of each log, so that one read serves all pages of a job for a while.
    Thread-safe."""

    def __init__(self, logs: WorkerLogs, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def read_end(self, job: Job) -> LogEnd:
        """The last lines; the lines of an earlier read while another thread reads."""
        with self._lock:
            kept = self._kept.setdefault(job.id, _Kept())
            self._kept.move_to_end(job.id)
            if len(self._kept) > _KEPT_JOBS:
                self._kept.popitem(last=False)
        if self._clock() >= kept.again_at and kept.lock.acquire(blocking=False):
            try:
                self._read_if_due(job, kept)
            finally:
                kept.lock.release()
        return kept.end

    def _read_if_due(self, job: Job, kept: _Kept) -> None:
        now = self._clock()
        if now < kept.again_at:  # another thread has read since
            return
        pause = READ_SECONDS
        try:
            lines = self._logs.read_last_lines(job.project, job.id, job.created_at, LINES)
        except StewardError as error:
            kept.end = replace(kept.end, error=str(error))
            wait = error.facts.get("retry_after") if isinstance(error, RateLimited) else None
            pause = max(pause, wait) if isinstance(wait, int) else pause
        else:
            kept.end = LogEnd([shorten_line(line) for line in lines], now)
            settled = job.ended_at is not None and now - job.ended_at >= _LATEST_SECONDS
            pause = SETTLED_SECONDS if settled else READ_SECONDS
        kept.again_at = now + pause


def shorten_line(line: LogLine) -> LogLine:
    """The line with at most LONGEST characters of its text, and how many are left out."""
    left_out = len(line.text) - LONGEST
    if left_out <= 0:
        return line
    return replace(line, text=f"{line.text[:LONGEST]} … and {left_out:,} more characters")
