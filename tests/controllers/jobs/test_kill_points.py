"""The daemon is killed at every commit and at every call of the cloud in the life of a job; the
next one brings the job to the same end.

The moments are generated: each life is lived undisturbed first, and its crossings are recorded. To
die after a crossing is to leave behind what is there before the next one, so a daemon dies before
each crossing that is new, and once a call was sent that changes something and has not taken effect.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from sqlalchemy import Engine
from structlog.testing import capture_logs

from service.cloud.ports import Registry, TpuCloud
from service.domain.jobs.job import JobState, Phase, TaskAction
from tests.controllers.jobs.crossings import (
    COMMIT,
    Crossing,
    Crossings,
    Disturbance,
    Moment,
    commit_sites,
    die,
    methods_of,
    mutations,
)
from tests.controllers.jobs.lives import LIVES, End, Ground, Stage, records

OF_JOBS = "controllers/jobs"
PAUSE = 3
"""Crossings between two deaths in one life."""
NOT_OF_JOBS = {
    "reimage": "is for legacy TPU Nodes, which run no jobs",
    "queue_model": "is about queued resources that no record accounts for",
}
"""Calls of the cloud that no life of a job can make, and why."""


def moments(crossings: Iterable[Crossing]) -> set[Moment]:
    """When a daemon is to die."""
    found: set[Moment] = set()
    for crossing in crossings:
        found.add((crossing, "before"))
        if crossing.verb in mutations():
            found.add((crossing, "late"))
    return found


def check(engine: Engine, name: str, at: set[Moment], pause: int) -> None:
    """Live as often as it takes to die at each of these moments."""
    ground, left = Ground(engine), at
    while left:
        disturbance = Disturbance(left, die, pause)
        ended = live(ground, name, disturbance)
        assert disturbance.done, f"no life comes to {next(iter(left))[0]} any more"
        assert ended == records()[name].end, _told(disturbance)
        left = disturbance.at


def live(ground: Ground, name: str, disturbance: Disturbance) -> End:
    """Live with a daemon that dies; how it ended."""
    house = ground.house(Crossings(disturbance))
    with capture_logs() as logs:
        try:
            LIVES[name].live(house)
            house.close()
        except AssertionError as error:
            error.add_note(_told(disturbance))
            raise
    broken = [log for log in logs if log["event"].endswith(".failed")]
    assert name == "defect" or not broken, f"{_told(disturbance)}: {broken}"
    return house.end()


def _told(disturbance: Disturbance) -> str:
    told = [f"{when} {crossing}, {crossing.situation}" for crossing, when in disturbance.done]
    return "daemons died " + "; ".join(told)


@pytest.mark.parametrize("name", LIVES)
def test_an_undisturbed_life_ends_as_is_told_of_it(name):
    assert records()[name].end.told == LIVES[name].ends


def test_the_lives_pass_every_state_of_the_table():
    lives = records().values()
    assert set().union(*(life.states for life in lives)) == set(JobState)
    stages = set[Stage]().union(*(life.stages for life in lives))
    assert {stage.phase for stage in stages} == set(Phase)
    assert {stage.action for stage in stages} == set(TaskAction)


def test_the_lives_make_every_call_that_a_job_can_lead_to():
    crossed = {crossing.verb for life in records().values() for crossing in life.passed} - {COMMIT}
    assert crossed == (methods_of(TpuCloud) | methods_of(Registry)) - NOT_OF_JOBS.keys()


@pytest.mark.deep
def test_the_lives_pass_every_commit_of_the_jobs_controller():
    crossed = {
        crossing.site
        for life in records().values()
        for crossing in life.passed
        if crossing.verb == COMMIT
    }
    assert sorted(map(str, commit_sites(OF_JOBS) - crossed)) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", LIVES)
def test_a_daemon_killed_anywhere_changes_no_end(engine, name):
    """On SQLite before each crossing of the jobs controller, and before what others change; on
    PostgreSQL before each commit of the jobs controller. What others only read is left out: to die
    there is to die before the next change."""
    is_file = engine.dialect.name == "sqlite"
    wanted = _is_of_jobs_or_changes if is_file else _is_commit_of_jobs
    check(engine, name, moments(filter(wanted, records()[name].new)), pause=PAUSE)


def _is_of_jobs(crossing: Crossing) -> bool:
    return crossing.site.file.startswith(OF_JOBS)


def _is_of_jobs_or_changes(crossing: Crossing) -> bool:
    return _is_of_jobs(crossing) or crossing.verb in mutations() | {COMMIT}


def _is_commit_of_jobs(crossing: Crossing) -> bool:
    return _is_of_jobs(crossing) and crossing.verb == COMMIT
