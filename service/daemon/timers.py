"""When a controller's turn has come, by the clock of this machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from service.domain.clock import wall_clock


class Timers(Protocol):
    """Say when something is due."""

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        """Have it done at the start, and then every `seconds`."""

    def start(self) -> None:
        """Begin."""

    def wake(self) -> None:
        """Have everything done now, and then every so many seconds."""

    def stop(self) -> None:
        """Begin nothing any more."""


class SchedulerTimers:
    """Timers on a thread of their own, so what they have done has to be short. They go by this
    machine's clock: where that was set back, they wait until it has caught up."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        at_once = datetime.fromtimestamp(wall_clock(), UTC)
        self._scheduler.add_job(work, "interval", seconds=seconds, next_run_time=at_once)

    def start(self) -> None:
        self._scheduler.start()

    def wake(self) -> None:
        now = datetime.fromtimestamp(wall_clock(), UTC)
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=now)

    def stop(self) -> None:
        self._scheduler.shutdown(wait=False)
