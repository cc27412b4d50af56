"""How often something is done over that others were faster at."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

TRIES = 12
FIRST_PAUSE, LONGEST_PAUSE = 0.004, 0.1
"""Seconds, at most; the true pause is drawn, so that those who met do not meet again."""


def tries() -> Iterator[int]:
    """The numbers of the tries, with a pause before each but the first: less than a second in all.

    Writers that read, decide and write under a version make each other do it over. One of them gets
    through each time; without pauses the others may meet again and again.
    """
    for number in range(TRIES):
        if number:
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1))
            time.sleep(random.uniform(0, longest))  # noqa: S311 - nobody gains by guessing it
        yield number
