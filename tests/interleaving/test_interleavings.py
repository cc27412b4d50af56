"""Two daemons and their callers at once on PostgreSQL; `python -m tests.interleaving` has more."""

from __future__ import annotations

from functools import partial

import pytest

from tests.interleaving.planted import PLANTED
from tests.interleaving.run import run
from tests.simulation.search import is_found
from tests.simulation.truth import Violation

SEEDS = 4
DEEP_SEEDS = 20
WITHIN = 60
FOUND_BY = {
    "an_update_is_lost_in_posting": 14,
    "a_newer_mark_is_overwritten": 2,
    "locks_are_taken_in_another_order": 1,
    "a_renewal_waits_for_writers": 2,
    "a_lease_is_not_held_until_the_commit": 19,
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_two_daemons_at_once_lose_nothing(seed):
    run(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(SEEDS, DEEP_SEEDS))
def test_two_daemons_at_once_lose_nothing_in_many_orders(seed):
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
