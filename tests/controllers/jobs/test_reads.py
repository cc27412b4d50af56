"""How often the service asks a worker for its report, as the emulator counts it."""

from __future__ import annotations

import pytest

from service.domain.jobs.job import JobState
from service.emulator.nodes import guest_attributes
from tests.controllers.jobs.crossings import Crossings
from tests.controllers.jobs.lives import FOUR_HOSTS, TICK, Ground

RUNNING_SECONDS = 1_200
MINUTE = 60


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_running_job_is_read_at_most_once_a_minute_and_four_times_before(engine):
    house = Ground(engine).house(Crossings())
    env = {"EMULATOR_PULL_SECONDS": 300, "EMULATOR_DURATION_SECONDS": 3_600}
    house.submit(env, request={"accelerator_type": FOUR_HOSTS})
    while not is_calm(house):
        house.tick()
    (record,) = house.world.nodes.values()
    since = house.agenda.now
    for _ in range(RUNNING_SECONDS // TICK):
        house.tick()
    assert house.job().state == JobState.RUNNING
    for worker in range(4):
        times = guest_attributes.read_times(record, worker)
        before = [at for at in times if at <= since]
        assert 0 < most_in_a_minute(before) <= 4
        running = [at for at in times if at > since]
        assert most_in_a_minute(running) == 1
        assert len(running) >= RUNNING_SECONDS / MINUTE / 2, "it is still read"


def is_calm(house):
    """Whether every worker has said that it runs, and has answered the newest task."""
    return house.job().state == JobState.RUNNING and house.attempts()[-1].echoed


def most_in_a_minute(times):
    """The most in any sixty seconds."""
    return max(sum(0 <= at - first < MINUTE for at in times) for first in times)
