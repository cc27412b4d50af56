"""Reads Cloud Monitoring of each project on a thread of its own: a slow one holds up nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import Sample, Telemetry
from service.domain.clock import HOUR, Clock
from service.domain.errors import CloudError
from service.domain.idle.readings import FamilyRead
from service.domain.idle.signal import MONITORED, Kind

log = structlog.get_logger()

LONGEST_SECONDS = 6 * HOUR
"""How far back a read goes after a time in which nobody read."""


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """What one read of a metric brought: its samples up to `until`, or why it failed. `is_deep`
    says that it went back as far as somebody who had just begun had asked."""

    kind: Kind
    until: int
    samples: Sequence[Sample] = ()
    error: str = ""
    is_deep: bool = False


Start = Callable[[Callable[[], None]], None]
"""Has some work be done: at once, or on a thread."""


def on_a_thread(work: Callable[[], None]) -> None:
    """Have work be done on a thread that ends with the process."""
    threading.Thread(target=work, name="telemetry", daemon=True).start()


def at_once(work: Callable[[], None]) -> None:
    """Have work be done before anything else: for a virtual clock."""
    work()


class TelemetryReader:
    """One read of all metrics at a time for each project. Its results are taken at the next tick
    after it is over; until then, whatever is stale is UNKNOWN by its age."""

    def __init__(
        self,
        telemetry: Telemetry,
        clock: Clock,
        overlap: int,
        start: Start = on_a_thread,
    ) -> None:
        """`overlap` is for how many seconds before the newest read points may still have come."""
        self._telemetry = telemetry
        self._clock = clock
        self._overlap = overlap
        self._start = start
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._done: dict[str, list[FamilySamples]] = {}
        self._owed: dict[tuple[str, Kind], int] = {}

    def take(
        self, project: str, families: Mapping[Kind, FamilyRead], *, deeper: int = 0
    ) -> Sequence[FamilySamples]:
        """What was read since it was taken last; begins the next read where none is under way.
        That many seconds `deeper` than usual are owed until a read of each metric has brought them:
        what is not read again would be at rest for whoever looks."""
        with self._lock:
            is_free = project not in self._running
            self._running.add(project)
            for kind in MONITORED if deeper else ():
                self._owed[project, kind] = deeper
        if is_free:
            self._start(lambda: self._read(project, dict(families)))
        with self._lock:
            return self._done.pop(project, [])

    def _read(self, project: str, families: Mapping[Kind, FamilyRead]) -> None:
        try:
            for kind in MONITORED:
                before = families.get(kind, FamilyRead())
                with self._lock:
                    deeper = self._owed.pop((project, kind), 0)
                since = (before.read_at or 0) - self._overlap - deeper
                found = self._read_family(project, kind, since)
                with self._lock:
                    if found.error and deeper:
                        self._owed.setdefault((project, kind), deeper)
                    found = replace(found, is_deep=bool(deeper) and not found.error)
                    self._done.setdefault(project, []).append(found)
        finally:
            with self._lock:
                self._running.discard(project)

    def _read_family(self, project: str, kind: Kind, since: int) -> FamilySamples:
        until = self._clock()
        since = max(since, until - LONGEST_SECONDS)
        try:
            samples = self._telemetry.samples(project, kind, since, until)
        except CloudError as error:
            log.warning("idle.not_read", project=project, metric=kind, reason=str(error))
            return FamilySamples(kind, until, error=str(error)[:500] or type(error).__name__)
        except Exception as error:  # a thread that dies in silence would leave all stale for ever
            log.exception("idle.read_broke", project=project, metric=kind)
            return FamilySamples(kind, until, error=type(error).__name__)
        return FamilySamples(kind, until, samples)
