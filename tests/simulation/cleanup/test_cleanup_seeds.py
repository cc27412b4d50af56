"""A few lives of a fleet that is cleaned up; `python -m tests.simulation.cleanup 0-99` has more."""

from __future__ import annotations

import pytest

from tests.levels import seeds
from tests.simulation.cleanup.run import run

SEEDS = 5
QUICK = 1
"""So many of them run with `make test`."""


@pytest.mark.parametrize("seed", seeds(SEEDS, QUICK))
def test_what_is_idle_goes_in_time_and_nothing_else(seed):
    run(seed)


@pytest.mark.deep
def test_a_seed_lives_the_same_life_again():
    assert run(1).told == run(1).told
