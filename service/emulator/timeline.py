"""Events that are due in the future: a heap that runs them in time order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

Act = Callable[[float], None]
LEAST_SWEPT = 1024


@dataclass(order=True, slots=True)
class Event:
    """A change of a target at `due`; `act` is called with the time of the change.

    A `fate` (a preemption, a maintenance window) is not the scheduled end of an operation, so it
    waits for its time even when all other events run at once.
    """

    due: float
    order: int
    target: str = field(compare=False)
    what: str = field(compare=False)
    act: Act = field(compare=False)
    fate: bool = field(default=False, compare=False)
    cancelled: bool = field(default=False, compare=False)


class Timeline:
    """`moment` is the time of the event that is running; None while no event runs."""

    def __init__(self) -> None:
        self.moment: float | None = None
        self._heap: list[Event] = []
        self._order = count()
        self._sweep_at = LEAST_SWEPT

    def schedule_event(
        self, due: float, target: str, what: str, act: Act, *, fate: bool = False
    ) -> Event:
        if len(self._heap) >= self._sweep_at:
            # A cancelled event may be due in years, and holds a reference to its node.
            self._heap = [event for event in self._heap if not event.cancelled]
            heapq.heapify(self._heap)
            self._sweep_at = max(LEAST_SWEPT, 2 * len(self._heap))
        event = Event(due, next(self._order), target, what, act, fate)
        heapq.heappush(self._heap, event)
        return event

    def run_due(self, now: float) -> bool:
        """Run every event due by now, each at its own time. Returns whether any ran."""
        any_did = False
        while self._heap and self._heap[0].due <= now:
            event = heapq.heappop(self._heap)
            if not event.cancelled:
                any_did = True
                self._run_event(event, event.due)
        return any_did

    def run_pending(self, now: float) -> int:
        """Run every event but fates now, and the events they schedule. Returns their number."""
        done = 0
        fates = []
        try:
            while self._heap:
                event = heapq.heappop(self._heap)
                if event.fate:
                    fates.append(event)
                elif not event.cancelled:
                    self._run_event(event, now)
                    done += 1
        finally:
            for event in fates:
                heapq.heappush(self._heap, event)
        return done

    def _run_event(self, event: Event, moment: float) -> None:
        self.moment = moment
        try:
            event.act(moment)
        finally:
            self.moment = None

    def list_pending(self) -> list[Event]:
        return sorted(event for event in self._heap if not event.cancelled)
