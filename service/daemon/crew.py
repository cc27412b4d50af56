"""Threads that take turns. A turn is one tick of one controller for one project."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from service.controllers.base import Controller
from service.domain.lease import Lease

SIZE = 12
"""Turns that may be under way at once, the slow ones not counted."""
PATIENCE_SECONDS = 2.0
"""A turn that takes longer is slow: something that it asks does not answer. Another thread takes
its place, so a project that hangs does not hold up the others. Each pair of a controller and a
project has one turn at most, so there are never more threads than pairs."""
SPARE_SECONDS = 30.0
"""So long a thread without work stays for more."""
FIRST = "lifecycle"
"""The controller whose turns go before all others that wait: it deletes what has to go."""


Act = Callable[[Controller, Lease], None]
"""Takes a turn."""


class TakesTurns(Protocol):
    """Have turns taken, as `WorkerPool` does."""

    def offer(self, controller: Controller, lease: Lease) -> bool: ...

    def look(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, seconds: float) -> list[tuple[str, str]]: ...

    def within(self, seconds: float, work: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True, order=True)
class CrewTurn:
    """What waits: ordered by rank, then by when it was offered."""

    rank: int
    number: int
    controller: Controller = field(compare=False)
    lease: Lease = field(compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Of those with the same key, one waits or is under way at most."""
        return self.lease.project, self.controller.name


class WorkerPool:
    """Has turns taken by threads that end with the process, whatever they wait for then."""

    def __init__(
        self,
        act: Act,
        size: int = SIZE,
        patience: float = PATIENCE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._act = act
        self._size = size
        self._patience = patience
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._waiting: list[CrewTurn] = []
        self._keys: set[tuple[str, str]] = set()
        self._began: dict[tuple[str, str], float] = {}
        self._threads = 0
        self._number = 0
        self._is_over = False

    def offer(self, controller: Controller, lease: Lease) -> bool:
        """Have the turn taken as soon as a thread is free. False where such a turn waits already,
        or is under way: the next one is offered at its next period."""
        with self._changed:
            rank = 0 if controller.name == FIRST else 1
            turn = CrewTurn(rank, self._number, controller, lease)
            if turn.key in self._keys or self._is_over:
                return False
            self._number += 1
            self._keys.add(turn.key)
            heappush(self._waiting, turn)
            self._hire()
            return True

    def look(self) -> None:
        """Put others in the place of those that have become slow."""
        with self._changed:
            self._hire()

    def stop(self) -> None:
        """Begin no turn any more."""
        with self._changed:
            self._is_over = True
            self._waiting.clear()
            self._keys = set(self._began)
            self._changed.notify_all()

    def wait(self, seconds: float) -> list[tuple[str, str]]:
        """Wait for the turns under way, at most so long; answers (project, controller) of those
        that are not over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._began, seconds)
            return sorted(self._began)

    def within(self, seconds: float, work: Callable[[], None]) -> None:
        """Have something done on a thread of its own, and wait for it for so long at most."""
        working = threading.Thread(target=work, daemon=True)
        working.start()
        working.join(seconds)

    @property
    def slow(self) -> list[tuple[str, str]]:
        """(project, controller) of the turns that have become slow."""
        with self._changed:
            now = self._monotonic()
            return sorted(key for key, began in self._began.items() if now - began > self._patience)

    def _has_room(self) -> bool:
        now = self._monotonic()
        quick = sum(now - began <= self._patience for began in self._began.values())
        return quick < self._size

    def _hire(self) -> None:
        """Wake a thread that is free, or start one, where a turn waits and there is room."""
        if not self._waiting or not self._has_room():
            return
        free = self._threads - len(self._began)
        if free < len(self._waiting) and free < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name="crew", daemon=True).start()
        self._changed.notify()

    def _work(self) -> None:
        try:
            while (turn := self._next()) is not None:
                self._take(turn)
        finally:
            with self._changed:
                self._threads -= 1

    def _take(self, turn: CrewTurn) -> None:
        try:
            self._act(turn.controller, turn.lease)
        finally:
            with self._changed:
                del self._began[turn.key]
                self._keys.discard(turn.key)
                self._changed.notify_all()

    def _next(self) -> CrewTurn | None:
        """The next turn, begun; None when the thread is to end."""
        with self._changed:
            while not self._is_over:
                if self._waiting and self._has_room():
                    turn = heappop(self._waiting)
                    self._began[turn.key] = self._monotonic()
                    self._hire()
                    return turn
                if not self._changed.wait(SPARE_SECONDS) and not self._waiting:
                    break
            return None
