"""Simulated time of the demo, and what is to happen in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Act = Callable[[], object]


class VirtualClock:
    """A clock that is moved by `pass_to`, with acts that happen when it reaches their time.

    After `go_live` it is another clock, such as the wall clock: it moves by itself, and acts no
    longer happen.
    """

    def __init__(self, start: float) -> None:
        self._now = start
        self._acts: list[tuple[float, int, Act]] = []
        self._order = count()
        self._live: Callable[[], float] | None = None

    def seconds(self) -> float:
        """The present instant, in UTC seconds with their fraction."""
        return self._now if self._live is None else self._live()

    def __call__(self) -> int:
        """The present instant, in whole UTC seconds."""
        return int(self.seconds())

    def at(self, when: float, act: Act) -> None:
        """Have an act happen at an instant; at once in the next step if the instant has passed."""
        heapq.heappush(self._acts, (when, next(self._order), act))

    def after(self, seconds: float, act: Act) -> None:
        """Have an act happen after some seconds."""
        self.at(self._now + seconds, act)

    def pass_to(self, until: float) -> int:
        """Let time pass to an instant. Returns how many acts happened, each at its own time."""
        happened = 0
        while self._acts and self._acts[0][0] <= until:
            when, _, act = heapq.heappop(self._acts)
            self._now = max(self._now, when)
            act()
            happened += 1
        self._now = max(self._now, until)
        return happened

    def sleep(self, seconds: float) -> None:
        """Let time pass without acts, as a call that waits does."""
        self._now += seconds

    def go_live(self, clock: Callable[[], float]) -> None:
        """Follow another clock from now on."""
        self._live = clock
