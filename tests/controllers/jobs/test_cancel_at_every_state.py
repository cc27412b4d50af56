"""A job is cancelled in every state that it can be in, at every moment that the lives of
`tests.controllers.jobs.lives` pass through: it ends CANCELLED, and leaves nothing behind.

Only a job whose containers have all ended with 0 by themselves may still end SUCCEEDED.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from service.domain.jobs.job import ENDED_STATES, Job, JobState, Phase
from service.domain.jobs.outcome import CLASSIFY_SECONDS
from service.emulator.world.container_runs import Cause
from tests.controllers.jobs.crossings import COMMIT, Crossings, Disturbance, Moment, Site, die
from tests.controllers.jobs.lives import LIVES, Ground, House, Situation, Stage, records

OF_JOBS = "controllers/jobs"
SOON_SECONDS = 240
"""Of the emulated cloud: within so many ends a job whose workers answer, also where its node cannot
be deleted for a minute and the daemon dies meanwhile."""


@dataclass(frozen=True)
class Cancel:
    """A cancellation of a job, by its number in the life, at one moment; `situation` is then."""

    job: int
    moment: Moment
    situation: Situation

    @property
    def state(self) -> str:
        """That of the job."""
        return self.situation.states[self.job]

    @property
    def stage(self) -> Stage | None:
        """That of its last attempt; None before the first."""
        return next(
            (attempt for attempt in self.situation.attempts[::-1] if attempt.job == self.job), None
        )

    @property
    def is_second(self) -> bool:
        """Whether the job was cancelled before."""
        return self.situation.cancelled[self.job]

    @property
    def site(self) -> Site | None:
        """Where the jobs controller is by then; None where others work."""
        site = self.moment[0].site
        return site if site.file.startswith(OF_JOBS) else None

    def __str__(self) -> str:
        crossing, when = self.moment
        return f"{self.state} {self.stage}: job {self.job} cancelled {when} {crossing}"


@cache
def cancels() -> dict[str, list[Cancel]]:
    """The cancellations of each life that no life before it has: one for each state of a job, phase
    and task of its attempt, and crossing of the jobs controller; all other crossings count as one.
    """
    found: dict[str, list[Cancel]] = {}
    known = set()
    for name in LIVES:
        found[name] = []
        for cancel in _moments(name):
            stage = cancel.stage
            come = stage and (stage.number, stage.phase, stage.action)
            is_own = cancel.situation.own[cancel.job]
            key = is_own, cancel.state, cancel.is_second, come, cancel.site
            if key not in known:
                known.add(key)
                found[name].append(cancel)
    return found


def thoroughly(name: str) -> list[Cancel]:
    """One for each stage of a job in one life, and crossing of the jobs controller."""
    found: dict[object, Cancel] = {}
    for cancel in _moments(name):
        key = cancel.job, cancel.state, cancel.is_second, cancel.stage, cancel.site
        found.setdefault(key, cancel)
    return list(found.values())


def _moments(name: str) -> Iterator[Cancel]:
    for crossing, following in pairwise(records()[name].passed):
        is_commit = crossing.verb == COMMIT
        situation = following.situation if is_commit else crossing.situation
        for job, state in enumerate(situation.states):
            if state not in ENDED_STATES:
                yield Cancel(job, (crossing, "after" if is_commit else "before"), situation)


def check(ground: Ground, name: str, cancel: Cancel, *, killed: bool) -> None:
    """Live with that cancellation; the daemon may be killed right after its commit."""

    def act() -> None:
        job_id = house.jobs[cancel.job].id
        before.append(house.job(cancel.job))
        house.service.cancel(job_id)
        once = house.job(cancel.job)
        house.service.cancel(job_id)
        assert house.job(cancel.job) == once, "to cancel twice is to cancel once"
        if killed:
            die()

    before: list[Job] = []
    house = ground.house(Crossings(Disturbance({cancel.moment}, act)))
    try:
        with capture_logs():
            LIVES[name].live(house, shortened=True)
            house.close()
        assert before, "it never came there"
        check_end(house, name, cancel.job, before[0])
    except AssertionError as error:
        error.add_note(f"{cancel}, {'killed then' if killed else 'lives on'}")
        raise


def check_end(house: House, name: str, number: int, before: Job) -> None:
    """How the job ended; `before` it was cancelled it was as given."""
    job = house.job(number)
    if before.ended or before.cancel_requested_at is not None:
        assert job.state == records()[name].end.jobs[number][0], "it was decided before"
    elif job.state == JobState.SUCCEEDED:
        last = [run for run in house.runs(number) if run.attempt.endswith(f"-{job.attempt}")]
        assert {(run.cause, run.exit_code) for run in last} == {(Cause.PROGRAM, 0)}
    else:
        assert job.state == JobState.CANCELLED, f"{job.state}, {job.reason}: {job.detail}"
        assert job.attempt == before.attempt, "another attempt was begun after that"
    _check_soon(job, before)
    house.service.cancel(job.id)
    assert house.job(number) == job, "a job that has ended stays as it is"


def _check_soon(job: Job, before: Job) -> None:
    """The evidence of what happened before is awaited, nothing else."""
    if before.ended or before.cancel_requested_at is not None:
        return
    longest = SOON_SECONDS + CLASSIFY_SECONDS * (before.state == JobState.CLASSIFYING)
    assert job.cancel_requested_at is not None
    assert job.ended_at is not None
    assert job.ended_at - job.cancel_requested_at <= longest, "it took long to end"


@pytest.mark.deep
def test_jobs_are_cancelled_in_every_state_and_phase():
    everything = [situation for some in cancels().values() for situation in some]
    assert {situation.state for situation in everything} == set(JobState) - ENDED_STATES
    assert {
        situation.stage.phase for situation in everything if situation.stage is not None
    } == set(Phase)


@pytest.mark.deep
@pytest.mark.parametrize("name", LIVES)
def test_a_cancelled_job_ends_and_leaves_nothing(engine, name):
    """On SQLite with the daemon killed right after every second cancellation; on PostgreSQL with
    all daemons killed, after each commit of the jobs controller."""
    ground, is_file = Ground(engine), engine.dialect.name == "sqlite"
    for number, cancel in enumerate(cancels()[name]):
        after_commit = cancel.site is not None and cancel.moment[0].verb == COMMIT
        if is_file or after_commit:
            check(ground, name, cancel, killed=number % 2 == 0 or not is_file)


@pytest.mark.exhaustive
@pytest.mark.deep
@pytest.mark.parametrize("name", LIVES)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_job_can_be_cancelled_at_every_stage_of_every_life(engine, name):
    ground = Ground(engine)
    for number, cancel in enumerate(thoroughly(name)):
        check(ground, name, cancel, killed=number % 2 == 1)
