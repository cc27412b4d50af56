"""Finding a planted bug: the seed that found it last is tried first, and a move of it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache

from tests.simulation.invariants import Violation

Life = Callable[[int], object]
"""Lives through one seed, and raises Violation."""

MOVED = "moved seed"
"""The property under which a test says that another seed finds its bug now."""


def tells_apart(seed: int, live: Life, plant: Callable[[], AbstractContextManager[object]]) -> bool:
    """Whether a seed tells a planted bug from a service without it. Raises Violation where the seed
    fails without the bug as well: it has found nothing."""
    try:
        with plant():
            live(seed)
    except Violation:
        _check_clean(seed, live)
        return True
    return False


@cache
def _check_clean(seed: int, live: Life) -> None:
    live(seed)


def is_found(
    bug: str,
    known: int,
    others: Iterable[int],
    finds: Callable[[int], bool],
    tell: Callable[[str, str], None],
) -> bool:
    """Whether a seed finds the bug: `known`, or one of the others. A change of the service moves
    what happens in a seed; a stale `known` costs minutes, so `tell` hears which one to write down.
    """
    if finds(known):
        return True
    for seed in others:
        if seed != known and finds(seed):
            tell(MOVED, f"{bug}: seed {known} finds it no more, write down {seed}")
            return True
    return False
