"""The units of work of the jobs controller, watched at each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Engine

from service.domain.jobs.job import Attempt, Job
from service.domain.lease import Lease
from service.store.unit import Unit
from tests.simulation.crash_points import CrashPoints, Saved, SeamedUnits

JobsSaved = Callable[[Sequence[Job], Sequence[Attempt]], None]


class WatchedUnits(SeamedUnits):
    """`jobs_saved` sees the jobs and attempts of each commit, whether its answer arrives or not."""

    def __init__(
        self, engine: Engine, seams: CrashPoints, saved: Saved, jobs_saved: JobsSaved
    ) -> None:
        super().__init__(engine, seams, self._committed)
        self._nodes_saved = saved
        self._jobs_saved = jobs_saved
        self._jobs: list[Job] = []
        self._attempts: list[Attempt] = []

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._jobs, self._attempts = [], []
        with super().__call__(lease) as unit:
            self._watch(unit)
            yield unit

    def _committed(self, nodes: object, lease: Lease | None) -> None:
        self._nodes_saved(nodes, lease)  # type: ignore[arg-type]
        self._jobs_saved(self._jobs, self._attempts)

    def _watch(self, unit: Unit) -> None:
        jobs, attempts = self._jobs, self._attempts
        save, save_attempt = unit.jobs.save, unit.jobs.save_attempt

        def saving(job: Job) -> Job:
            jobs.append(save(job))
            return jobs[-1]

        def saving_attempt(attempt: Attempt) -> Attempt:
            attempts.append(save_attempt(attempt))
            return attempts[-1]

        unit.jobs.save = saving  # type: ignore[method-assign]
        unit.jobs.save_attempt = saving_attempt  # type: ignore[method-assign]
