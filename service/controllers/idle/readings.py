"""Reads Cloud Monitoring on one thread for each project: a slow project delays no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import Sample, Telemetry
from service.domain.clock import HOUR, Clock
from service.domain.errors import CloudError
from service.domain.idle.readings import ABSENT_SECONDS, FamilyRead, newest_end
from service.domain.idle.signals.signal import MONITORED, Kind

log = structlog.get_logger()

LONGEST_SECONDS = 6 * HOUR
"""How far back the points of a read go at most, after a time without reads."""


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """Result of one read of a metric: its samples up to `until`, or the error. `is_deep` is set if
    the read went back as far as a fresh memory needs. `seen_at` is the end of the newest point that
    is too old for a sample, None where no such point was looked for or found."""

    kind: Kind
    until: int
    samples: Sequence[Sample] = ()
    error: str = ""
    is_deep: bool = False
    seen_at: int | None = None


Start = Callable[[Callable[[], None]], None]
"""Runs some work: at once, or on a thread."""


def on_a_thread(work: Callable[[], None]) -> None:
    """Run the work on a daemon thread."""
    threading.Thread(target=work, name="telemetry", daemon=True).start()


def at_once(work: Callable[[], None]) -> None:
    """Run the work before returning: for a virtual clock."""
    work()


class TelemetryReader:
    """Reads all metrics of a project, one read at a time. The next tick takes the results; until
    then a stale metric is UNKNOWN by its age."""

    def __init__(
        self,
        telemetry: Telemetry,
        clock: Clock,
        overlap: int,
        start: Start = on_a_thread,
    ) -> None:
        """`overlap` is the number of seconds before the last read in which points may be late."""
        self._telemetry = telemetry
        self._clock = clock
        self._overlap = overlap
        self._start = start
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._done: dict[str, list[FamilySamples]] = {}
        self._owed: dict[tuple[str, Kind], int] = {}

    def take_results(
        self, project: str, families: Mapping[Kind, FamilyRead], *, deeper: int = 0
    ) -> Sequence[FamilySamples]:
        """The results since the last call; begins the next read if none is under way.

        `deeper` seconds further back than usual are owed until a read of each metric succeeds: an
        interval that is never read would look like rest.
        """
        with self._lock:
            is_free = project not in self._running
            self._running.add(project)
            for kind in MONITORED if deeper else ():
                self._owed[project, kind] = deeper
        if is_free:
            self._start(lambda: self._read_project(project, dict(families)))
        with self._lock:
            return self._done.pop(project, [])

    def _read_project(self, project: str, families: Mapping[Kind, FamilyRead]) -> None:
        try:
            for kind in MONITORED:
                before = families.get(kind, FamilyRead())
                with self._lock:
                    deeper = self._owed.pop((project, kind), 0)
                since = (before.read_at or 0) - self._overlap - deeper
                found = self._read_family(project, kind, since, before.read_at or 0)
                with self._lock:
                    if found.error and deeper:
                        self._owed.setdefault((project, kind), deeper)
                    found = replace(found, is_deep=bool(deeper) and not found.error)
                    self._done.setdefault(project, []).append(found)
        finally:
            with self._lock:
                self._running.discard(project)

    def _read_family(self, project: str, kind: Kind, since: int, read_at: int) -> FamilySamples:
        """Read the samples of a metric since `since`. Only 24 hours without a point show that the
        metric is absent: where a read finds none, the unread time before it is read once too."""
        until = self._clock()
        since = max(since, until - LONGEST_SECONDS)
        unread = max(read_at, until - ABSENT_SECONDS)
        seen_at = None
        try:
            samples = self._telemetry.read_samples(project, kind, since, until)
            if not samples and unread < since:
                older = self._telemetry.read_samples(project, kind, unread, since)
                seen_at = newest_end(older)
        except CloudError as error:
            log.warning("idle.not_read", project=project, metric=kind, reason=str(error))
            return FamilySamples(kind, until, error=str(error)[:500] or type(error).__name__)
        except Exception as error:  # a thread that dies unnoticed would leave all metrics stale
            log.exception("idle.read_broke", project=project, metric=kind)
            return FamilySamples(kind, until, error=type(error).__name__)
        return FamilySamples(kind, until, samples, seen_at=seen_at)
