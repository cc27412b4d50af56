"""Threads that run turns. A turn is one tick of one controller for one project."""

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
"""Turns that may run at the same time, slow turns not counted."""
PATIENCE_SECONDS = 2.0
"""Seconds after which a turn is slow: its cloud or database does not answer. Another thread takes
its place, so a project that hangs does not delay the others. Each pair of a controller and a
project has at most one turn, so there are never more threads than pairs."""
SPARE_SECONDS = 30.0
"""Seconds that a thread without work waits for more."""
FIRST = "lifecycle"
"""The controller whose turns go before all other waiting turns, because it deletes nodes."""


Act = Callable[[Controller, Lease], None]
"""Runs a turn."""


class TakesTurns(Protocol):
    """Runs turns, as `TurnPool` does."""

    def offer_turn(self, controller: Controller, lease: Lease) -> bool: ...

    def replace_slow(self) -> None: ...

    def stop(self) -> None: ...

    def wait_for_running(self, seconds: float) -> list[tuple[str, str]]: ...

    def run_within(self, seconds: float, work: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True, order=True)
class WaitingTurn:
    """A waiting turn: ordered by rank, then by the order of the offers."""

    rank: int
    number: int
    controller: Controller = field(compare=False)
    lease: Lease = field(compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Key of the turn: at most one turn with the same key waits or runs."""
        return self.lease.project, self.controller.name


class TurnPool:
    """Runs turns on daemon threads, which never keep the process alive."""

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
        self._waiting: list[WaitingTurn] = []
        self._keys: set[tuple[str, str]] = set()
        self._began: dict[tuple[str, str], float] = {}
        self._threads = 0
        self._number = 0
        self._is_over = False

    def offer_turn(self, controller: Controller, lease: Lease) -> bool:
        """Run the turn as soon as a thread is free. Returns False if such a turn already waits or
        runs: the next turn is offered in the next period."""
        with self._changed:
            rank = 0 if controller.name == FIRST else 1
            turn = WaitingTurn(rank, self._number, controller, lease)
            if turn.key in self._keys or self._is_over:
                return False
            self._number += 1
            self._keys.add(turn.key)
            heappush(self._waiting, turn)
            self._start_thread()
            return True

    def replace_slow(self) -> None:
        """Replace the threads whose turns have become slow."""
        with self._changed:
            self._start_thread()

    def stop(self) -> None:
        """Begin no more turns."""
        with self._changed:
            self._is_over = True
            self._waiting.clear()
            self._keys = set(self._began)
            self._changed.notify_all()

    def wait_for_running(self, seconds: float) -> list[tuple[str, str]]:
        """Wait at most `seconds` for the running turns; returns (project, controller) of the turns
        that still run."""
        with self._changed:
            self._changed.wait_for(lambda: not self._began, seconds)
            return sorted(self._began)

    def run_within(self, seconds: float, work: Callable[[], None]) -> None:
        """Run the work on a thread of its own, and wait at most `seconds` for its end."""
        working = threading.Thread(target=work, daemon=True)
        working.start()
        working.join(seconds)

    def _has_room(self) -> bool:
        now = self._monotonic()
        quick = sum(now - began <= self._patience for began in self._began.values())
        return quick < self._size

    def _start_thread(self) -> None:
        """Wake a free thread, or start one, if a turn waits and there is room."""
        if not self._waiting or not self._has_room():
            return
        free = self._threads - len(self._began)
        if free < len(self._waiting) and free < self._size:
            self._threads += 1
            threading.Thread(target=self._run_turns, name="crew", daemon=True).start()
        self._changed.notify()

    def _run_turns(self) -> None:
        try:
            while (turn := self._begin_turn()) is not None:
                try:
                    self._act(turn.controller, turn.lease)
                finally:
                    with self._changed:
                        del self._began[turn.key]
                        self._keys.discard(turn.key)
                        self._changed.notify_all()
        finally:
            with self._changed:
                self._threads -= 1

    def _begin_turn(self) -> WaitingTurn | None:
        """Wait for the next turn and mark it as begun; None if the thread is to end."""
        with self._changed:
            while not self._is_over:
                if self._waiting and self._has_room():
                    turn = heappop(self._waiting)
                    self._began[turn.key] = self._monotonic()
                    self._start_thread()
                    return turn
                if not self._changed.wait(SPARE_SECONDS) and not self._waiting:
                    break
            return None
