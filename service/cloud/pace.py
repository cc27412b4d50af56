"""How fast nodes may be asked for: a token bucket per project, which refuses instead of waiting."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from service.domain.errors import RateLimited

Seconds = Callable[[], float]
"""Answers seconds on a clock that never goes back; where it starts does not matter."""


class Pace:
    """Lets `per_minute` creates through per project, and at most `burst` of them at once.

    Google's own limit was seen at 91 creates per minute and project; a large fleet lives well with
    60. Staying below it ourselves keeps the refusals from costing a placement its turn.
    """

    def __init__(self, clock: Seconds, per_minute: int = 60, burst: int = 10) -> None:
        self._clock = clock
        self._per_second = per_minute / 60
        self._burst = burst
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}
        self._last_turn: dict[str, float] = {}

    def take(self, project: str) -> None:
        """Count one create; RateLimited, with `retry_after` in seconds, when none may be sent now.

        It never blocks: a controller that slept here would hold up every other node. Whoever is
        refused gets a turn of its own, so that five hundred do not all come back for the next one.
        """
        with self._lock:
            tokens, now = self._refilled(project)
            if tokens < 1:
                raise RateLimited(
                    f"no more creates in {project} for the moment: they are spread out so that"
                    " Google's limit per minute is not met",
                    retry_after=math.ceil(self._turn(project, tokens, now) - now),
                )
            self._left[project] = (tokens - 1, now)

    def _turn(self, project: str, tokens: float, now: float) -> float:
        """When the next one that is refused may come: after all that were refused before it."""
        soonest = now + (1 - tokens) / self._per_second
        last = self._last_turn.get(project, 0.0)
        turn = max(soonest, last + 1 / self._per_second) if last > now else soonest
        self._last_turn[project] = turn
        return turn

    def _refilled(self, project: str) -> tuple[float, float]:
        now = self._clock()
        tokens, before = self._left.get(project, (float(self._burst), now))
        return min(self._burst, tokens + (now - before) * self._per_second), now
