"""Retries of units of work that lost a race against other writers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

from service.domain.errors import Conflict, StaleVersion
from service.store.unit import Unit

T = TypeVar("T")

TRIES = 12
FIRST_PAUSE, LONGEST_PAUSE = 0.004, 0.1
"""Upper bounds in seconds. The actual pause is random, so that writers that met do not meet again.
"""


def retry_stale(work: Callable[[], T], refusal: str) -> T:
    """The result of `work`, which is repeated while others write first, with a pause before each
    repetition: less than a second in total.

    Writers that read, decide and write under a version make each other retry. One of them succeeds
    each time; without pauses the others may collide again and again. Raises Conflict with the text
    `refusal` if others are first each time.
    """
    for number in range(TRIES):
        if number:
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1))
            time.sleep(random.uniform(0, longest))  # noqa: S311 - nobody gains by guessing it
        with suppress(StaleVersion):
            return work()
    raise Conflict(refusal)


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

    def run_once() -> T:
        with opened() as unit:
            return work(unit)

    refusal = f"{what} is being changed by others at the same time; retry"
    return run_once() if once else retry_stale(run_once, refusal)
