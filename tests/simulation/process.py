"""One process of a daemon: what drives it, and what is left of it once it is dead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from service.cloud.ports import Order
from service.controllers.base import Controller
from service.daemon.turn_pool import FIRST, Act, WaitingTurn
from service.domain.lease import Lease
from tests.fakes import Killed
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints

BUSY_SECONDS = 1.0
"""How long it takes until a thread that was held up is asked again."""


class Process:
    """A process. A turn that was under way when it died writes and sends nothing any more."""

    def __init__(self) -> None:
        self.is_over = False

    def of(self, seams: CrashPoints) -> Any:
        """The seams of this process."""
        return ProcessSeams(seams, self)

    def check(self) -> None:
        """Raises Killed in whoever goes on though the process is dead."""
        if self.is_over:
            raise Killed


@dataclass
class ProcessSeams:
    """Seams that end with the process, also for what was held up in one of them meanwhile."""

    seams: CrashPoints
    process: Process

    @property
    def calm(self) -> bool:
        return self.seams.calm

    def call(self, verb: str, work: Callable[[], Any], order: Order | None = None) -> Any:
        self.process.check()
        try:
            return self.seams.call(verb, work, order)
        finally:
            self.process.check()

    def reach(self) -> None:
        self.process.check()
        self.seams.reach()

    def commit(self) -> None:
        self.seams.commit()

    def committed(self) -> None:
        try:
            self.seams.committed()
        finally:
            self.process.check()

    def posted(self) -> None:
        self.seams.posted()
        self.process.check()


@dataclass
class AgendaTimers:
    """Timers that go by the clock of the machine, which is `skew()` seconds ahead."""

    agenda: Agenda
    skew: Callable[[], float]
    away: Callable[[], float]
    """For how many seconds the process does nothing."""
    process: Process
    _works: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _round: int = 0
    """How often all were begun anew."""

    def call_every(self, seconds: float, work: Callable[[], None]) -> None:
        self._works.append((seconds, work))

    def start(self) -> None:
        self.call_all()

    def call_all(self) -> None:
        self._round += 1
        for seconds, work in self._works:
            self._wait(self._now(), seconds, work, self._round)

    def stop(self) -> None:
        self._works.clear()
        self._round += 1

    def _now(self) -> float:
        return self.agenda.now + self.skew()

    def _wait(self, due: float, seconds: float, work: Callable[[], None], of: int) -> None:
        """Until the machine's clock says `due`. Who waits looks at it when the time should have
        gone by, so a clock that is set ahead ends no waiting earlier."""

        def turn() -> None:
            if self.process.is_over or of != self._round:
                return
            if (away := self.away()) > 0:
                self.agenda.after(away, turn)
            elif (left := due - self._now()) > 0:
                self.agenda.after(left, turn)
            else:
                work()
                self._wait(self._now() + seconds, seconds, work, of)

        self.agenda.after(max(0.0, due - self._now()), turn)


class OneByOne:
    """Takes one turn after the other, in the order of the crew: harsher than its threads are."""

    def __init__(
        self, act: Act, agenda: Agenda, process: Process, away: Callable[[], float]
    ) -> None:
        self._act = act
        self._agenda = agenda
        self._process = process
        self._away = away
        self._waiting: list[WaitingTurn] = []
        self._under_way: WaitingTurn | None = None
        self._number = 0
        self._is_asked = False
        self.died: Callable[[], None] = lambda: None
        """What comes of a process that is killed in a turn."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self._under_way is not None

    def offer_turn(self, controller: Controller, lease: Lease) -> bool:
        rank = 0 if controller.name == FIRST else 1
        turn = WaitingTurn(rank, self._number, controller, lease)
        taken = [*self._waiting, *([self._under_way] if self._under_way else [])]
        if any(turn.key == other.key for other in taken):
            return False
        self._number += 1
        heappush(self._waiting, turn)
        self._ask(0.0)
        return True

    def replace_slow(self) -> None:
        """One that is slow is waited for."""

    def stop(self) -> None:
        self._waiting.clear()

    def wait_for_running(self, _seconds: float) -> list[tuple[str, str]]:
        return [self._under_way.key] if self._under_way else []

    def run_within(self, _seconds: float, work: Callable[[], None]) -> None:
        work()

    def _ask(self, seconds: float) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._agenda.after(seconds, self._work)

    def _work(self) -> None:
        self._is_asked = False
        if self._process.is_over or not self._waiting:
            return
        if self.is_busy or self._away() > 0:
            self._ask(max(BUSY_SECONDS, self._away()))
            return
        self._under_way = heappop(self._waiting)
        try:
            self._act(self._under_way.controller, self._under_way.lease)
        except Killed:
            self.died()
        finally:
            self._under_way = None
        if self._waiting:
            self._ask(0.0)
