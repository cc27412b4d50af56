"""One daemon of the simulation: the real controllers, ticking on the agenda until it is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.application.costs.costs import CostService
from service.application.costs.forecasts import ForecastService
from service.cloud.google.channel import legacy_client, tpu_client
from service.cloud.google.flex import FlexStart
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.retries import ONCE, Allowances
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.base import Controller
from service.controllers.budgets.forecast import ForecastsController
from service.controllers.inventory.audit_log import EvidenceController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.controllers.orphans.orphans import OrphanController
from service.daemon.daemon import Daemon, Drive
from service.daemon.first_looks import FirstLooks
from service.daemon.turn_pool import Act
from service.domain.clock import Clock
from service.domain.database_clock import AgreedClock
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.world import World
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import (
    Answered,
    Asked,
    Commanded,
    CrashPoints,
    SeamedCloud,
    SeamedHistory,
    SeamedUnits,
)
from tests.simulation.process import AgendaTimers, OneByOne, Process
from tests.simulation.rest_transport import ADDRESS, RestTransport

PROJECT = "lab"
INSTALL = "sim"
INVENTORY_SECONDS, LIFECYCLE_SECONDS, METERING_SECONDS = 15, 5, 600
LISTEN_SECONDS, LOOK_SECONDS = 2.0, 2.0
"""How often the steps of a daemon are taken: for the sake of time, less often than by threads."""


@dataclass
class Replica:
    """A process: what it has in memory dies with it, and a new one begins after a while."""

    name: str
    agenda: Agenda
    world: World
    engine: Engine
    seams: CrashPoints
    saved: Callable[..., None]
    luck: Random
    deaths: int = 0
    projects: Sequence[str] = (PROJECT,)
    skew: float = 0.0
    """By how many seconds its machine's clock is ahead of the true time."""
    posted: Callable[[], None] = lambda: None
    """Called when the metering has committed."""
    commanded: Commanded = lambda *_: None
    """Hears of each command to end something, before it is sent."""
    asked: Asked = lambda *_: None
    """Hears of each question to the cloud, before it is sent."""
    answered: Answered = lambda *_: None
    """Hears of each answer of the cloud."""
    more: Callable[[Process], Sequence[tuple[int, Controller]]] = lambda _: ()
    """What else a daemon does, by the period in seconds: made anew with each."""
    jobs: Callable[[SeamedCloud, Clock, Process], Controller] | None = None
    """Makes the controller of the jobs, where there are any."""
    lifecycle_seconds: int = LIFECYCLE_SECONDS
    inventory_seconds: int = INVENTORY_SECONDS
    patience: Allowances = ONCE
    keeps_leases: bool = False
    """Whether its leases are renewed though a call holds it up, as by a thread of their own."""
    _process: Process = field(default_factory=Process, init=False)
    _away_until: float = field(default=0.0, init=False)

    def begin(self) -> None:
        """Start with nothing in memory, as a process does."""
        self._process = process = Process()
        workers: list[OneByOne] = []

        def hire(act: Act) -> OneByOne:
            workers.append(OneByOne(act, self.agenda, process, lambda: self.away))
            workers[0].died = lambda: self._die(process)
            return workers[0]

        # Nobody is killed over a lease, for a turn of the same process may be held up meanwhile.
        undying = replace(self.seams, calm=True)
        clock = AgreedClock(lambda: self.agenda.now + self.skew, lambda: self.agenda.now)
        self._daemon = Daemon(
            SeamedUnits(self.engine, undying, self.saved, fenced=False),
            self.projects,
            self._controllers(clock, process),
            clock,
            drive=Drive(
                AgendaTimers(self.agenda, lambda: self.skew, lambda: self.away, process),
                hire,
                FirstLooks(monotonic=lambda: self.agenda.now),
                f"{self.name}-{self.deaths}",
            ),
        )
        self._daemon.start()
        self._often(LISTEN_SECONDS, self._daemon.renew_if_due, process, workers[0])
        self._often(LOOK_SECONDS, self._daemon.offer_waiting, process, workers[0])

    def end(self) -> None:
        """Be told to stop, as by SIGTERM, and be started again a while later."""
        if not self._process.is_over and not self.away:
            self._daemon.stop()
            self._die(self._process)

    def _controllers(self, clock: AgreedClock, process: Process) -> dict[int, list[Controller]]:
        seams = process.of(self.seams)
        channel = LocalChannel(self.world, self.agenda.pass_)
        legacy = LegacyTpus(legacy_client(channel), self.patience)
        pace = Pace(lambda: self.agenda.now)
        flex = FlexStart(lambda: RestTransport(self.world, self.agenda.pass_), ADDRESS)
        real = GoogleTpus(tpu_client(channel), pace, self.patience, flex, legacy)
        cloud: Any = SeamedCloud(
            real, seams, self.engine, self.commanded, self.asked, self.answered
        )
        units = SeamedUnits(self.engine, seams, self.saved)
        shared = units, cloud, PriceBookCache(), clock
        minding = Installation(INSTALL, self.inventory_seconds)
        garbage = OrphanController(*shared, minding)
        inventory = InventoryController(*shared, onlookers=(garbage,))
        steps = Steps(StepContext(*shared, Installation(INSTALL, self.lifecycle_seconds)))
        lifecycle = LifecycleController(*shared, steps)
        lifecycle.workers = 1
        lifecycle.monotonic = steps.records.monotonic = lambda: self.agenda.now
        ledger_units = SeamedUnits(self.engine, seams, partial(self._posted, seams))
        metering = MeteringController(ledger_units, shared[2], clock)
        history = SeamedHistory(GoogleHistory(logging_client(channel), self.patience), seams)
        evidence = EvidenceController(units, cloud, history, shared[2], clock)
        periods: dict[int, list[Controller]] = {}
        works: list[tuple[int, Controller]] = [
            (self.inventory_seconds, inventory),
            (self.inventory_seconds, garbage),
            (self.inventory_seconds, evidence),
            (self.lifecycle_seconds, lifecycle),
            (METERING_SECONDS, metering),
            (METERING_SECONDS, self._forecasts(units, clock)),
            *self.more(process),
        ]
        if self.jobs is not None:
            works.append((LIFECYCLE_SECONDS, self.jobs(cloud, clock, process)))
        for period, controller in works:
            periods.setdefault(period, []).append(controller)
        return periods

    def _forecasts(self, units: Units, clock: Clock) -> ForecastsController:
        books = units, PriceBookCache(), clock
        return ForecastsController(units, ForecastService(*books, CostService(*books)), clock)

    def leave(self, seconds: float) -> None:
        """Be away for a while, once it is through with what it is about: it keeps what it has in
        memory, and knows nothing of the time."""
        self._away_until = max(self._away_until, self.agenda.now + seconds)
        self.agenda.fog.cover(self.agenda.now, self._away_until)

    @property
    def away(self) -> float:
        """For how many seconds it still is."""
        return max(0.0, self._away_until - self.agenda.now)

    def _often(
        self, period: float, work: Callable[[], None], process: Process, worker: OneByOne
    ) -> None:
        """Take that step of the daemon at this period, unless something holds it up."""

        def turn() -> None:
            if process.is_over:
                return
            if not self.away and (self.keeps_leases or not worker.is_busy):
                work()
            self.agenda.after(period, turn)

        self.agenda.after(self.luck.uniform(0, period), turn)

    def _posted(self, seams: CrashPoints, nodes: list[Node], lease: Lease | None) -> None:
        self.saved(nodes, lease)
        self.posted()
        seams.posted()

    def _die(self, process: Process) -> None:
        if process.is_over:
            return  # it was dead before that turn knew
        process.is_over = True
        self.deaths += 1
        away = self.luck.uniform(1, 120)
        self.agenda.fog.cover(self.agenda.now, self.agenda.now + away)
        self.agenda.after(away, self.begin)
