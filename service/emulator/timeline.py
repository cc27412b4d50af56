"""What is due to happen, and when: a heap of events that run in time order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

Act = Callable[[float], None]
LEAST_SWEPT = 1024


@dataclass(order=True, slots=True)
class Event:
    """Something that happens to a target at `due`; `act` is told the moment it counts for.

    A `fate` (a preemption, a maintenance window) waits for its time even when all is hurried:
    it is not the end of something under way.
    """

    due: float
    order: int
    target: str = field(compare=False)
    what: str = field(compare=False)
    act: Act = field(compare=False)
    fate: bool = field(default=False, compare=False)
    cancelled: bool = field(default=False, compare=False)


class Timeline:
    """`moment` is when the event that is happening counts for; None while nothing happens."""

    def __init__(self) -> None:
        self.moment: float | None = None
        self._heap: list[Event] = []
        self._order = count()
        self._sweep_at = LEAST_SWEPT

    def schedule(
        self, due: float, target: str, what: str, act: Act, *, fate: bool = False
    ) -> Event:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        event = Event(due, next(self._order), target, what, act, fate)
        heapq.heappush(self._heap, event)
        return event

    def run_due(self, now: float) -> bool:
        """Let everything due by now happen, each thing at its own time; say whether any did."""
        any_did = False
        while self._heap and self._heap[0].due <= now:
            event = heapq.heappop(self._heap)
            if not event.cancelled:
                any_did = True
                self._happen(event, event.due)
        return any_did

    def hurry(self, now: float) -> int:
        """Let everything under way, and what follows from it, happen now; say how many did."""
        done = 0
        fates = []
        try:
            while self._heap:
                event = heapq.heappop(self._heap)
                if event.fate:
                    fates.append(event)
                elif not event.cancelled:
                    self._happen(event, now)
                    done += 1
        finally:
            for event in fates:
                heapq.heappush(self._heap, event)
        return done

    def _happen(self, event: Event, moment: float) -> None:
        self.moment = moment
        try:
            event.act(moment)
        finally:
            self.moment = None

    def _sweep(self) -> None:
        """Let go of what was called off: it may be due in years, and holds on to a node."""
        self._heap = [event for event in self._heap if not event.cancelled]
        heapq.heapify(self._heap)
        self._sweep_at = max(LEAST_SWEPT, 2 * len(self._heap))

    def pending(self) -> list[Event]:
        return sorted(event for event in self._heap if not event.cancelled)
