"""How fast the cloud may be asked, per project: what is too fast is refused, and never waits."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from service.domain.errors import RateLimited

MINUTE = 60.0

Seconds = Callable[[], float]
"""Answers seconds on a clock that never goes back; where it starts does not matter."""


class Pace:
    """Lets `per_minute` creates through per project, and at most `burst` of them at once.

    Google's own limit was seen at 91 creates per minute and project; a large fleet lives well with
    60. Staying below it ourselves keeps the refusals from costing a placement its turn.
    """

    def __init__(self, clock: Seconds, per_minute: int = 60, burst: int = 10) -> None:
        self._clock = clock
        self._per_second = per_minute / 60
        self._burst = burst
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}
        self._last_turn: dict[str, float] = {}

    def take(self, project: str) -> None:
        """Count one create; RateLimited, with `retry_after` in seconds, when none may be sent now.

        It never blocks: a controller that slept here would hold up every other node. Whoever is
        refused gets a turn of its own, so that five hundred do not all come back for the next one.
        """
        with self._lock:
            tokens, now = self._refilled(project)
            if tokens < 1:
                raise RateLimited(
                    f"no more creates in {project} for now: they are spread out to stay below"
                    " Google's limit per minute",
                    retry_after=math.ceil(self._turn(project, tokens, now) - now),
                )
            self._left[project] = (tokens - 1, now)

    def _turn(self, project: str, tokens: float, now: float) -> float:
        """When the next one that is refused may come: after all that were refused before it."""
        soonest = now + (1 - tokens) / self._per_second
        last = self._last_turn.get(project, 0.0)
        turn = max(soonest, last + 1 / self._per_second) if last > now else soonest
        self._last_turn[project] = turn
        return turn

    def _refilled(self, project: str) -> tuple[float, float]:
        now = self._clock()
        tokens, before = self._left.get(project, (float(self._burst), now))
        return min(self._burst, tokens + (now - before) * self._per_second), now


class LogReader(StrEnum):
    """Who reads from Cloud Logging."""

    AUDIT = "audit"
    """The audit log, by which usage is charged."""
    JOBS = "jobs"
    """The output of jobs, for people."""


class ReadPace:
    """Lets `per_minute` calls of entries.list through in any minute per project.

    Cloud Logging allows 60 a minute and project, shared with every other reader
    (docs.cloud.google.com/logging/quotas). `kept` of ours are for the audit log alone.
    """

    def __init__(self, clock: Seconds, per_minute: int = 40, kept: int = 10) -> None:
        self._clock = clock
        self._most = {LogReader.AUDIT: per_minute, LogReader.JOBS: per_minute - kept}
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._calls: dict[str, deque[tuple[float, LogReader]]] = {}

    def take(self, project: str, reader: LogReader) -> None:
        """Count one call; RateLimited, with `retry_after` in seconds, when none may be sent now."""
        with self._lock:
            now = self._clock()
            calls = self._calls.setdefault(project, deque())
            while calls and calls[0][0] <= now - MINUTE:
                calls.popleft()
            free_at = self._free_at(calls, reader)
            if free_at is not None:
                raise RateLimited(
                    f"no more reads of the log of {project} for the moment: they are spread out"
                    " so that the limit of Cloud Logging per minute is not met",
                    retry_after=max(1, math.ceil(free_at - now)),
                )
            calls.append((now, reader))

    def _free_at(self, calls: deque[tuple[float, LogReader]], reader: LogReader) -> float | None:
        """When a call of that reader may be sent; None for now."""
        own = [at for at, who in calls if who is reader]
        spent = [
            (every[0] if every else 0.0)
            for every, most in (
                ([at for at, _ in calls], self._per_minute),
                (own, self._most[reader]),
            )
            if len(every) >= most
        ]
        return max(spent) + MINUTE if spent else None


class ReportPace:
    """Lets `most` reads of the guest attributes of one machine through in any minute.

    Google answers ten queries a minute for each machine, reading and writing together
    (reference/jobs.md J2); its supervisor takes fewer than five of them. Memory of a process: after
    a change of daemons one minute may see more.
    """

    def __init__(self, clock: Seconds, most: int = 4) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._reads: dict[str, deque[float]] = {}

    def take(self, path: str) -> None:
        """Count one read of the node with that resource name; RateLimited, with `retry_after` in
        seconds, when none may be sent now."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            reads = self._reads.setdefault(path, deque())
            if len(reads) >= self._most:
                raise RateLimited(
                    f"{path} was read {self._most} times within a minute, and Google limits that",
                    retry_after=max(1, math.ceil(reads[0] + MINUTE - now)),
                )
            reads.append(now)

    def __len__(self) -> int:
        """How many machines were read within the last minute."""
        with self._lock:
            self._forget(self._clock())
            return len(self._reads)

    def _forget(self, now: float) -> None:
        """Drop what is over, and machines that nobody reads any more."""
        for path, reads in list(self._reads.items()):
            while reads and reads[0] <= now - MINUTE:
                reads.popleft()
            if not reads:
                del self._reads[path]
