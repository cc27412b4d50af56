"""Virtual time, and what is due in it: one agenda for callers, daemons and the weather."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from sqlalchemy import Engine, event

from service.store.engine import set_clock
from tests.simulation.fog import Fog

START = 1_793_880_000.0
Act = Callable[[], object]


class Agenda:
    """Lets what is due happen in order; something that takes time lets others act meanwhile."""

    def __init__(self) -> None:
        self.now = START
        self._heap: list[tuple[float, int, Act]] = []
        self._order = count()
        self.fog = Fog()

    def seconds(self) -> int:
        """The present instant as the service knows it: whole seconds."""
        return int(self.now)

    def at(self, when: float, act: Act) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._order), act))

    def after(self, seconds: float, act: Act) -> None:
        self.at(self.now + seconds, act)

    def pass_(self, seconds: float) -> None:
        """Let time go by, and in it all that is due."""
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            when, _, act = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            act()
        self.now = max(self.now, until)


def set_databases_clock(engine: Engine, agenda: Agenda) -> None:
    """Have an SQLite database go by the agenda's time, and wait for no disk."""
    set_clock(engine, lambda: agenda.now)

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=off")
