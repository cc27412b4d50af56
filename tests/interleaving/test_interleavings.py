"""Two daemons and their callers at once on PostgreSQL; `python -m tests.interleaving` has more."""

from __future__ import annotations

from functools import partial

import pytest

from tests.interleaving.parts import Budgets, Cleanup, Jobs, Part
from tests.interleaving.planted import PLANTED
from tests.interleaving.run import run
from tests.levels import seeds
from tests.simulation.invariants import Violation
from tests.simulation.search import is_found

SEEDS = 20
QUICK = 2
"""So many of them run with `make test`."""
TESTS, SEEDS_OF_A_TEST = 20, 15
WITHIN = 300
# The first seed that found it, tried first; a change of the service may move it.
FOUND_BY = {
    "jobs_are_never_started": 1,
    "no_plan_is_ever_applied": 0,
    "nobody_is_told_of_a_budget": 0,
    "nothing_is_ever_sent": 3,
    "a_controller_writes_without_a_lease": 0,
    "an_update_is_lost_in_posting": 40,
    "a_newer_mark_is_overwritten": 40,
    "locks_are_taken_in_another_order": 31,
    "a_renewal_waits_for_writers": 0,
    "a_lease_is_not_held_until_the_commit": 17,
    "a_job_is_saved_over_anything": 6,
    "a_link_is_used_without_a_guard": 12,
    "a_plan_is_not_checked_again": 0,
    "a_message_is_claimed_without_a_guard": 35,
    "a_budget_deletes_by_what_it_was": 3,
    "one_changed_node_ends_a_whole_look": 0,
    "projects_are_mixed_up": 2,
}
# Bugs that show nowhere else are looked for where there is such a part in each seed.
SHOWS_IN: dict[str, list[type[Part]]] = {
    "jobs_are_never_started": [Jobs],
    "no_plan_is_ever_applied": [Cleanup],
    "nobody_is_told_of_a_budget": [Budgets],
    "nothing_is_ever_sent": [Budgets],
    "a_job_is_saved_over_anything": [Jobs],
    "a_link_is_used_without_a_guard": [Cleanup],
    "a_plan_is_not_checked_again": [Cleanup],
    "a_message_is_claimed_without_a_guard": [Budgets],
    "a_budget_deletes_by_what_it_was": [Budgets],
}


@pytest.mark.parametrize("seed", seeds(SEEDS, QUICK))
def test_two_daemons_at_once_lose_nothing(seed):
    run(seed)


@pytest.mark.exhaustive
@pytest.mark.deep
@pytest.mark.parametrize("number", range(TESTS))
def test_two_daemons_at_once_lose_nothing_in_many_orders(number):
    for seed in range(number * SEEDS_OF_A_TEST, (number + 1) * SEEDS_OF_A_TEST):
        run(seed)


def finds(seed, bug):
    """Whether a seed tells the bug from a service without it."""
    try:
        with PLANTED[bug]():
            run(seed, SHOWS_IN.get(bug))
    except Violation:
        run(seed, SHOWS_IN.get(bug))
        return True
    return False


@pytest.mark.exhaustive
@pytest.mark.deep
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_of_two_at_once_is_found(bug, record_property):
    finding = partial(finds, bug=bug)
    assert is_found(bug, FOUND_BY[bug], range(WITHIN), finding, record_property)
