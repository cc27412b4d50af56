"""The clock of a daemon, set by the database's, so that all who share that tell the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from service.domain.clock import precise_clock

TOLERANCE_SECONDS = 0.5
"""What clocks may differ by, and nobody minds: less than what the books can tell apart."""


class _Agreement(NamedTuple):
    """This machine's clock is `ahead` by so many seconds. It was `at` when `mark` had gone by."""

    ahead: float
    at: float
    mark: float


class AgreedClock:
    """This machine's own clock, as long as it agrees with the database's; else that.

    Who goes by a clock that was set wrong ends what has time left, and charges what did not run.
    Between two agreements a clock that jumps is not followed: what has gone by tells the time then.
    """

    def __init__(
        self,
        own: Callable[[], float] = precise_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = own
        self.monotonic = monotonic
        self._agreed: _Agreement | None = None

    def __call__(self) -> int:
        """The present instant, in whole UTC seconds."""
        agreed, own = self._agreed, self._own()
        if agreed is None:
            return int(own)
        right, expected = own - agreed.ahead, agreed.at + self.monotonic() - agreed.mark
        return int(right if abs(right - expected) <= TOLERANCE_SECONDS else expected)

    def agree(self, theirs: float) -> float:
        """Be told what the database's clock says now, in seconds; answers by how many of them this
        machine's own is ahead of it, 0 where that is nothing to mind."""
        own, mark = self._own(), self.monotonic()
        ahead = round(own - theirs, 3)
        if abs(ahead) <= TOLERANCE_SECONDS:
            ahead = 0.0
        self._agreed = _Agreement(ahead, own - ahead, mark)
        return ahead

    @property
    def has_jumped(self) -> bool:
        """Whether this machine's clock was set, or stood still, since the last agreement."""
        agreed = self._agreed
        if agreed is None:
            return False
        gone_by = self.monotonic() - agreed.mark
        return abs(self._own() - agreed.ahead - agreed.at - gone_by) > TOLERANCE_SECONDS
