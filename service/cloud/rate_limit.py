"""Client-side rate limits per project: a call above the limit is refused, and never waits."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from service.domain.errors import RateLimited

MINUTE = 60.0

Seconds = Callable[[], float]
"""Returns seconds of a monotonic clock; its start does not matter."""


class Pace:
    """Allows `per_minute` creates per project, and at most `burst` of them at once.

    Google's own limit was observed at 91 creates per minute and project; 60 are enough for a large
    fleet. Below Google's limit no placement loses its turn to a refusal.
    """

    def __init__(self, clock: Seconds, per_minute: int = 60, burst: int = 10) -> None:
        self._clock = clock
        self._per_second = per_minute / 60
        self._burst = burst
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}
        self._last_turn: dict[str, float] = {}

    def count_create(self, project: str) -> None:
        """Count one create. Raises RateLimited, with `retry_after` in seconds, if none may be sent
        now.

        The call never blocks: a controller that slept here would delay every other node. Each
        refused caller gets a turn of its own, so that five hundred do not retry at the same time.
        """
        with self._lock:
            now = self._clock()
            tokens, before = self._left.get(project, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - before) * self._per_second)
            if tokens >= 1:
                self._left[project] = (tokens - 1, now)
                return
            # The turn comes after the turns of all callers that were refused before.
            soonest = now + (1 - tokens) / self._per_second
            last = self._last_turn.get(project, 0.0)
            turn = max(soonest, last + 1 / self._per_second) if last > now else soonest
            self._last_turn[project] = turn
            raise RateLimited(
                f"no more creates in {project} for now: they are spread out to stay below"
                " Google's limit per minute",
                retry_after=math.ceil(turn - now),
            )


class LogReader(StrEnum):
    """The readers of Cloud Logging."""

    AUDIT = "audit"
    """The audit log, on which charges are based."""
    JOBS = "jobs"
    """The output of jobs, for people."""


class ReadPace:
    """Allows `per_minute` calls of entries.list per project in any minute.

    Cloud Logging allows 60 a minute and project, shared with every other reader
    (docs.cloud.google.com/logging/quotas). `kept` of our calls are reserved for the audit log.
    """

    def __init__(self, clock: Seconds, per_minute: int = 40, kept: int = 10) -> None:
        self._clock = clock
        self._most = {LogReader.AUDIT: per_minute, LogReader.JOBS: per_minute - kept}
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._calls: dict[str, deque[tuple[float, LogReader]]] = {}

    def count_call(self, project: str, reader: LogReader) -> None:
        """Count one call. Raises RateLimited, with `retry_after` in seconds, if none may be sent
        now."""
        with self._lock:
            now = self._clock()
            calls = self._calls.setdefault(project, deque())
            while calls and calls[0][0] <= now - MINUTE:
                calls.popleft()
            own = [at for at, who in calls if who is reader]
            spent = [
                (every[0] if every else 0.0)
                for every, most in (
                    ([at for at, _ in calls], self._per_minute),
                    (own, self._most[reader]),
                )
                if len(every) >= most
            ]
            if spent:
                free_at = max(spent) + MINUTE
                raise RateLimited(
                    f"no more reads of the log of {project} for the moment: they are spread out"
                    " so that the limit of Cloud Logging per minute is not met",
                    retry_after=max(1, math.ceil(free_at - now)),
                )
            calls.append((now, reader))


class ReportPace:
    """Allows `most` reads of the guest attributes of one machine in any minute.

    Google answers ten queries a minute for each machine, reads and writes together
    (reference/jobs.md J2); its supervisor needs fewer than five of them. The counts are kept in the
    process: in the minute after a takeover there may be more reads.
    """

    def __init__(self, clock: Seconds, most: int = 4) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._reads: dict[str, deque[float]] = {}

    def count_read(self, path: str) -> None:
        """Count one read of the node with that resource name. Raises RateLimited, with
        `retry_after` in seconds, if none may be sent now."""
        with self._lock:
            now = self._clock()
            self._drop_expired(now)
            reads = self._reads.setdefault(path, deque())
            if len(reads) >= self._most:
                raise RateLimited(
                    f"{path} was read {self._most} times within a minute, and Google limits that",
                    retry_after=max(1, math.ceil(reads[0] + MINUTE - now)),
                )
            reads.append(now)

    def __len__(self) -> int:
        """Number of machines that were read within the last minute."""
        with self._lock:
            self._drop_expired(self._clock())
            return len(self._reads)

    def _drop_expired(self, now: float) -> None:
        """Drop reads older than a minute, and machines without reads."""
        for path, reads in list(self._reads.items()):
            while reads and reads[0] <= now - MINUTE:
                reads.popleft()
            if not reads:
                del self._reads[path]
