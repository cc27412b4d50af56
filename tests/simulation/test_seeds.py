"""Twenty seeds: hours of a fleet under faults and killed daemons, and nothing is lost or wrong.

`make simulate SEEDS=3000` lives through more, `python -m tests.simulation 17` through one.
"""

from __future__ import annotations

import time

import pytest
from google.api_core.timeout import TimeToDeadlineTimeout

from tests.levels import seeds
from tests.simulation.run import run, steady_deadlines

SEEDS = 20
QUICK = 2
"""So many of them run with `make test`."""


@pytest.mark.parametrize("seed", seeds(SEEDS, QUICK))
def test_whatever_happens_nothing_leaks_and_the_books_are_right(seed):
    run(seed)


@pytest.mark.deep
def test_a_seed_lives_the_same_life_again():
    def told(seed: int) -> tuple[list[str], list[dict[str, object]]]:
        lived = run(seed)
        return [node.id for node in lived.nodes], lived.world.bill.list_entries(lived.agenda.now)

    assert told(7) == told(7)


def test_a_slow_machine_takes_nothing_from_the_time_of_an_answer():
    given = []

    def ask(timeout):
        given.append(timeout)

    with steady_deadlines():
        call = TimeToDeadlineTimeout(60)(ask)
        for _ in range(2):
            call()
            time.sleep(0.002)
    assert given == [60, 60]
