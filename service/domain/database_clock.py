"""The clock of a daemon, set by the database's clock, so that all daemons have the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from service.domain.clock import precise_clock

TOLERANCE_SECONDS = 0.5
"""Seconds by which clocks may differ: less than the resolution of the ledger."""


class _Agreement(NamedTuple):
    """A comparison of both clocks.

    This machine's clock was `ahead` by so many seconds. The time was `at` when the monotonic clock
    was at `mark`.
    """

    ahead: float
    at: float
    mark: float


class AgreedClock:
    """This machine's own clock, corrected by the database's clock.

    A wrong clock would end nodes too early and charge seconds that did not run. Between two
    comparisons, a jump of the clock is ignored: the monotonic clock gives the time then.
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

    def agree_with(self, theirs: float) -> float:
        """Set the clock by the database's time `theirs`, in seconds.

        Returns the seconds by which this machine's clock is ahead; 0 within TOLERANCE_SECONDS.
        """
        own, mark = self._own(), self.monotonic()
        ahead = round(own - theirs, 3)
        if abs(ahead) <= TOLERANCE_SECONDS:
            ahead = 0.0
        self._agreed = _Agreement(ahead, own - ahead, mark)
        return ahead

    @property
    def has_jumped(self) -> bool:
        """Whether this machine's clock was set, or stood still, since the last comparison."""
        agreed = self._agreed
        if agreed is None:
            return False
        gone_by = self.monotonic() - agreed.mark
        return abs(self._own() - agreed.ahead - agreed.at - gone_by) > TOLERANCE_SECONDS
