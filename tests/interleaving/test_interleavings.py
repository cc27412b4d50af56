"""Two daemons and their callers at once on PostgreSQL; `python -m tests.interleaving` has more."""

from __future__ import annotations

from functools import partial

import pytest

from tests.interleaving.planted import PLANTED
from tests.interleaving.run import run
from tests.simulation.search import is_found
from tests.simulation.truth import Violation

SEEDS = 3
TESTS, SEEDS_OF_A_TEST = 20, 15
WITHIN = 300
# The first seed that found it, tried first; a change of the service may move it.
FOUND_BY = {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_two_daemons_at_once_lose_nothing(seed):
    run(seed)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(TESTS))
def test_two_daemons_at_once_lose_nothing_in_many_orders(number):
    for seed in range(number * SEEDS_OF_A_TEST, (number + 1) * SEEDS_OF_A_TEST):
        run(seed)


def finds(seed, bug):
    """Whether a seed tells the bug from a service without it."""
    try:
        with PLANTED[bug]():
            run(seed)
    except Violation:
        run(seed)
        return True
    return False


@pytest.mark.deep
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_of_two_at_once_is_found(bug, record_property):
    finding = partial(finds, bug=bug)
    assert is_found(bug, FOUND_BY[bug], range(WITHIN), finding, record_property)
