"""Where fate reaches into a daemon: around each call of the cloud, and around each commit.

A killed daemon is stranded, never unwound into tidiness: `Killed` is caught by nothing in the
service, its transaction is rolled back as a dead process's is, and its objects are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.cloud.ports import OperationHistory, Order
from service.domain.clock import HOUR
from service.domain.errors import CloudError, CloudUnavailable
from service.domain.evidence.audit_log import Termination
from service.domain.lease import Lease
from service.domain.nodes.node import Node, Place
from service.store.unit import Unit, Units
from tests.fakes import Killed
from tests.simulation.clock import Agenda
from tests.simulation.database_outages import DatabaseOutages
from tests.simulation.rates import Rates
from tests.simulation.zone_outages import ZoneOutages

DEADLINE_SECONDS = 60
LAST_TICK_SECONDS = 600
"""Between two ticks of the metering: one of them is the last within an hour."""
MUTATIONS = {"create", "delete", "dequeue", "start", "stop", "reimage", "update_metadata"}
Saved = Callable[[list[Node], Lease | None], None]
Commanded = Callable[[str, Place], None]
"""Hears of each command to change what is at a place, before it is sent."""
Asked = Callable[[str, object], None]
"""Hears of each other call with its first argument, before it is sent."""
Answered = Callable[[str, object, Any], None]
"""Hears of each answer of the cloud, with the first argument of the call."""


class Unfenced(BaseException):
    """A controller was about to write without a lease; no one may catch it."""


@dataclass
class CrashPoints:
    """One daemon's exposure to fate; `calm` when nothing goes wrong any more."""

    agenda: Agenda
    luck: Random
    fortune: Rates
    calm: bool = False
    squalls: ZoneOutages | None = None
    outages: DatabaseOutages | None = None
    _held: list[Callable[[], None]] = field(default_factory=list)
    """What was sent and lands, at the latest, when the same is sent again."""
    _late_creates: int = 0

    def call(self, verb: str, work: Callable[[], Any], order: Order | None = None) -> Any:
        """Cross a cloud call: it may be the last thing this daemon does, before or after it took
        effect, or while it is still under way. A create comes with its `order`."""
        if self.calm:
            return work()
        if self._happens(self.fortune.kill):
            self._die_at(verb, work)
        if self._pause() > DEADLINE_SECONDS:
            raise CloudUnavailable("the deadline passed before anything was sent")
        if verb in MUTATIONS and self._happens(self.fortune.late):
            self._let_happen_later(verb, work)
            raise CloudUnavailable("the deadline passed while the call was under way")
        # Mostly quick; but now and then slow enough for something else to come in between.
        slowest = 8.0 if self._happens(self.fortune.late) else 0.3
        self.agenda.pass_(self.luck.random() * slowest)
        if order is not None:
            self._land_what_is_held()
            if self.squalls is not None:
                self.squalls.meet(order, work)
        answer = work()
        self._pause()
        if self._happens(self.fortune.kill):
            raise Killed
        return answer

    def reach(self) -> None:
        """Cross the moment before a transaction."""
        if self.outages is not None:
            self.outages.reach()

    def commit(self) -> None:
        """Cross the moment before a commit, which then never comes."""
        self._survive()
        if self.outages is not None:
            self.outages.commit()

    def committed(self) -> None:
        """Cross the moment after a commit: a daemon may sleep here, and go on as if nothing was, or
        never hear that it came about."""
        self._survive()
        if not self.calm:
            self._pause()
        if self.outages is not None:
            self.outages.committed()

    def posted(self) -> None:
        """Cross the moment after a commit of the metering: near the end of an hour a daemon may
        sleep here until that is over, and then go on with its tick."""
        left = HOUR - self.agenda.now % HOUR
        if not self.calm and left < LAST_TICK_SECONDS and self._happens(self.fortune.oversleeps):
            seconds = left + self.luck.uniform(0, 60)
            self.agenda.fog.cover(self.agenda.now, self.agenda.now + seconds)
            self.agenda.pass_(seconds)

    def _survive(self) -> None:
        if not self.calm and self._happens(self.fortune.kill):
            raise Killed

    def _pause(self) -> float:
        if not self._happens(self.fortune.pause):
            return 0.0
        seconds = self.luck.uniform(1, 900)
        self.agenda.fog.cover(self.agenda.now, self.agenda.now + seconds)
        self.agenda.pass_(seconds)
        return seconds

    def _die_at(self, verb: str, work: Callable[[], Any]) -> None:
        if verb in MUTATIONS and self.luck.random() < 0.5:
            self._let_happen_later(verb, work)
        raise Killed

    def _let_happen_later(self, verb: str, work: Callable[[], Any]) -> None:
        """What was sent takes effect although nobody waits for it any more."""
        landed = False

        def land() -> None:
            nonlocal landed
            if landed:
                return
            landed = True
            try:
                work()
            except CloudError:
                """The cloud's answer reaches nobody."""

        self.agenda.after(self.luck.uniform(0, 90), land)
        if verb == "create":
            self._late_creates += 1
            if self._late_creates % 2 == 0:  # the others may land long after the next one
                self._held.append(land)

    def _land_what_is_held(self) -> None:
        held, self._held = self._held, []
        for land in held:
            land()

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self.luck.random() < rate


class SeamedCloud:
    """The real adapter, with a seam around each of its calls."""

    def __init__(
        self,
        cloud: Any,
        seams: CrashPoints,
        engine: Engine,
        commanded: Commanded = lambda *_: None,
        asked: Asked = lambda *_: None,
        answered: Answered = lambda *_: None,
    ) -> None:
        self._cloud = cloud
        self._seams = seams
        self._engine = engine
        self._commanded = commanded
        self._asked, self._answered = asked, answered

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = getattr(self._cloud, verb)

        def crossing(*arguments: Any, **named: Any) -> Any:
            pool: Any = self._engine.pool
            assert pool.checkedout() == 0, f"{verb} was called inside a transaction"
            order = arguments[0] if verb == "create" else None
            if verb in MUTATIONS and order is None:
                self._commanded(verb, arguments[0])
            if verb not in MUTATIONS:
                self._asked(verb, arguments[0])
            answer = self._seams.call(verb, lambda: method(*arguments, **named), order)
            self._answered(verb, arguments[0], answer)
            return answer

        return crossing


class SeamedUnits(Units):
    """The real units of work, with a seam before and after each commit; `saved` sees each one."""

    def __init__(
        self, engine: Engine, seams: CrashPoints, saved: Saved, *, fenced: bool = True
    ) -> None:
        """`fenced` says that whoever writes has to hold a lease."""
        super().__init__(engine)
        self._seams = seams
        self._saved = saved
        self._fenced = fenced

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        nodes: list[Node] = []
        self._seams.reach()
        if lease is None and self._fenced:
            raise Unfenced
        with super().__call__(lease) as unit:
            _watch(unit, nodes)
            yield unit
            self._seams.commit()
        self._saved(nodes, lease)
        self._seams.committed()

    @contextmanager
    def reading(self) -> Iterator[Unit]:
        self._seams.reach()
        with super().reading() as unit:
            yield unit


def _watch(unit: Unit, nodes: list[Node]) -> None:
    """Note each node that a unit of work saves."""
    save = unit.nodes.save

    def noting(node: Node) -> Node:
        nodes.append(save(node))
        return nodes[-1]

    unit.nodes.save = noting  # type: ignore[method-assign]


class SeamedHistory:
    """The cloud's log, to be asked at the same risk."""

    def __init__(self, real: OperationHistory, seams: CrashPoints) -> None:
        self._real = real
        self._seams = seams

    def list_terminations(self, project: str, since: int, until: int) -> Sequence[Termination]:
        return self._seams.call(
            "terminations", lambda: self._real.list_terminations(project, since, until)
        )
