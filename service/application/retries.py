"""Retries of units of work that lost a race against other writers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from service.domain.errors import Conflict, StaleVersion
from service.store.unit import Unit

T = TypeVar("T")

TRIES = 12
FIRST_PAUSE, LONGEST_PAUSE = 0.004, 0.1
"""Upper bounds in seconds. The actual pause is random, so that writers that met do not meet again.
"""


def iter_tries() -> Iterator[int]:
    """The numbers of the tries, with a pause before each but the first: less than a second in
    total.

    Writers that read, decide and write under a version make each other retry. One of them succeeds
    each time; without pauses the others may collide again and again.
    """
    for number in range(TRIES):
        if number:
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1))
            time.sleep(random.uniform(0, longest))  # noqa: S311 - nobody gains by guessing it
        yield number


def run_with_retries(
    opened: Callable[[], AbstractContextManager[Unit]],
    work: Callable[[Unit], T],
    what: str,
    *,
    once: bool = False,
) -> T:
    """The result of `work` in a unit of work, which is repeated while others write first.

    With `once` there is no repetition: a caller who has seen a version has to look at the new one.
    Raises StaleVersion then, else Conflict if others are first each time; `what` names what is
    changed.
    """
    for _ in iter_tries():
        try:
            with opened() as unit:
                return work(unit)
        except StaleVersion:
            if once:
                raise
    raise Conflict(f"{what} is being changed by others at the same time; retry")
