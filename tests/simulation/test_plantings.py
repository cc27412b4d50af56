"""Each planted bug can be planted: what it changes is there, under the name that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.interleaving import planted as interleaving
from tests.simulation import planted as fleet
from tests.simulation.cleanup import planted as cleanup
from tests.simulation.invariants import Violation
from tests.simulation.jobs import planted as jobs
from tests.simulation.search import MOVED, is_found, tells_apart

ALL: Mapping[str, Callable[[], Any]] = {
    f"{home}-{name}": plant
    for home, bugs in {
        "fleet": fleet.BUGS,
        "cleanup": {**cleanup.GROSS, **cleanup.SUBTLE},
        "jobs": {**jobs.GROSS, **jobs.SUBTLE},
        "interleaving": interleaving.PLANTED,
    }.items()
    for name, plant in bugs.items()
}


@pytest.mark.parametrize("bug", ALL)
def test_a_bug_is_planted_and_taken_out_again(bug):
    """A name that moved would end the search for the bug before it begins."""
    with ALL[bug]():
        pass


def _planted_in(bad: set[int]) -> tuple[Callable[[int], None], Callable[[], Any]]:
    """A life in which some seeds are bad while something is planted, and seed 7 always is."""
    there = set[int]()

    @contextmanager
    def plant() -> Iterator[None]:
        there.update(bad)
        try:
            yield
        finally:
            there.clear()

    def live(seed: int) -> None:
        if seed in there | {7}:
            raise Violation(f"seed {seed}")

    return live, plant


def test_a_seed_finds_a_bug_only_if_it_is_clean_without_it():
    live, plant = _planted_in({3})
    assert tells_apart(3, live, plant)
    assert not tells_apart(4, live, plant)
    with pytest.raises(Violation, match="seed 7"):
        tells_apart(7, live, plant)


def test_the_seed_that_is_known_is_tried_first_and_a_move_is_told():
    live, plant = _planted_in({3})
    finding, moves = partial(tells_apart, live=live, plant=plant), dict[str, str]()
    assert is_found("bug", 3, [], finding, moves.__setitem__)
    assert not moves
    assert is_found("bug", 5, [5, 4, 3], finding, moves.__setitem__)
    assert moves == {MOVED: "bug: seed 5 finds it no more, write down 3"}
    assert not is_found("bug", 5, [4], finding, moves.__setitem__)
