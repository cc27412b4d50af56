"""Each planted bug can be planted: what it changes is there, under the name that it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.interleaving import planted as interleaving
from tests.simulation import planted as fleet
from tests.simulation.cleanup import planted as cleanup
from tests.simulation.jobs import planted as jobs

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
