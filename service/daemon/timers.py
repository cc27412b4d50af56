"""Timers for the periods of controllers, by the clock of this machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from service.domain.clock import wall_clock


class Timers(Protocol):
    """Call functions periodically."""

    def call_every(self, seconds: float, work: Callable[[], None]) -> None:
        """Call `work` at the start, and then every `seconds`."""

    def start(self) -> None:
        """Start the timers."""

    def call_all(self) -> None:
        """Make all calls now, and then again in their periods."""

    def stop(self) -> None:
        """Begin no more calls."""


class SchedulerTimers:
    """Timers on one thread, so the calls have to be short. They follow this machine's clock: after
    it was set back, they wait until it has caught up."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def call_every(self, seconds: float, work: Callable[[], None]) -> None:
        at_once = datetime.fromtimestamp(wall_clock(), UTC)
        self._scheduler.add_job(work, "interval", seconds=seconds, next_run_time=at_once)

    def start(self) -> None:
        self._scheduler.start()

    def call_all(self) -> None:
        now = datetime.fromtimestamp(wall_clock(), UTC)
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=now)

    def stop(self) -> None:
        self._scheduler.shutdown(wait=False)
