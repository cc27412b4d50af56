"""One daemon of the simulation: the real controllers, ticking on the agenda until it is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from sqlalchemy import Engine

from service.cloud.google.channel import legacy_client, tpu_client
from service.cloud.google.flex import FlexStart
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.pace import Pace
from service.controllers.base import Controller
from service.controllers.evidence import EvidenceController
from service.controllers.garbage import GarbageController
from service.controllers.inventory import InventoryController
from service.controllers.lifecycle import LifecycleController
from service.controllers.metering import MeteringController
from service.controllers.steps import Steps
from service.controllers.tools import Manners, Tools
from service.daemon.leaseholder import LEASE_SECONDS, Leaseholder
from service.domain.agreed_clock import AgreedClock
from service.domain.clock import Clock
from service.domain.errors import StewardError
from service.domain.lease import Lease
from service.domain.node import Node
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world import World
from service.store.pricebook import PriceShelf
from tests.fakes import Killed
from tests.simulation.clock import Agenda
from tests.simulation.restdoor import ADDRESS, RestDoor
from tests.simulation.seams import Commanded, SeamedCloud, SeamedHistory, SeamedUnits, Seams

PROJECT = "lab"
INSTALL = "sim"
INVENTORY_SECONDS, LIFECYCLE_SECONDS, METERING_SECONDS = 15, 5, 600


@dataclass
class Replica:
    """A process: what it has in memory dies with it, and a new one begins after a while."""

    name: str
    agenda: Agenda
    world: World
    engine: Engine
    seams: Seams
    saved: Callable[..., None]
    luck: Random
    deaths: int = 0
    skew: float = 0.0
    """By how many seconds its machine's clock is ahead of the true time."""
    posted: Callable[[], None] = lambda: None
    """Called when the metering has committed."""
    commanded: Commanded = lambda *_: None
    """Hears of each command to end something, before it is sent."""
    more: Callable[[], Sequence[tuple[float, Controller]]] = lambda: ()
    """What else a daemon does, by the period in seconds: made anew with each."""
    jobs: Callable[[SeamedCloud, Clock], Controller] | None = None
    """Makes the controller of the jobs, where there are any."""
    lifecycle_seconds: int = LIFECYCLE_SECONDS
    inventory_seconds: int = INVENTORY_SECONDS
    _busy: bool = field(default=False, init=False)
    _away_until: float = field(default=0.0, init=False)

    def begin(self) -> None:
        """Start with nothing in memory, as a process does."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        legacy = LegacyTpus(legacy_client(channel), ONCE)
        pace = Pace(lambda: self.agenda.now)
        flex = FlexStart(lambda: RestDoor(self.world, self.agenda.pass_), ADDRESS)
        real = GoogleTpus(tpu_client(channel), pace, ONCE, flex, legacy)
        cloud = SeamedCloud(real, self.seams, self.engine, self.commanded)
        units = SeamedUnits(self.engine, self.seams, self.saved)
        clock = AgreedClock(lambda: self.agenda.now + self.skew, lambda: self.agenda.now)
        shared = units, cloud, PriceShelf(), clock
        minding = Manners(INSTALL, self.inventory_seconds)
        garbage = GarbageController(*shared, minding)  # type: ignore[arg-type]
        inventory = InventoryController(*shared, onlookers=(garbage,))  # type: ignore[arg-type]
        steps = Steps(Tools(*shared, Manners(INSTALL, self.lifecycle_seconds)))  # type: ignore[arg-type]
        lifecycle = LifecycleController(*shared, steps)  # type: ignore[arg-type]
        lifecycle.workers = 1
        lifecycle.monotonic = steps.records.monotonic = lambda: self.agenda.now
        ledger_units = SeamedUnits(self.engine, self.seams, self._posted)
        metering = MeteringController(ledger_units, shared[2], clock)
        history = SeamedHistory(GoogleHistory(logging_client(channel), ONCE), self.seams)
        evidence = EvidenceController(units, cloud, history, shared[2], clock)  # type: ignore[arg-type]
        holder = f"{self.name}-{self.deaths}"
        leasing = SeamedUnits(self.engine, self.seams, self.saved, fenced=False)
        self._leases = Leaseholder(leasing, [PROJECT], inventory.looked_at, clock, holder)
        life = self.deaths
        self._every(LEASE_SECONDS / 3, self._leases.renew, life)
        for period, controller in (
            (self.inventory_seconds, inventory),
            (self.inventory_seconds, garbage),
            (self.inventory_seconds, evidence),
            (self.lifecycle_seconds, lifecycle),
            (METERING_SECONDS, metering),
            *self.more(),
            *([] if self.jobs is None else [(LIFECYCLE_SECONDS, self.jobs(cloud, clock))]),
        ):
            self._every(period, lambda one=controller: self._tick(one), life)

    def leave(self, seconds: float) -> None:
        """Be away for a while, once it is through with what it is about: it keeps what it has in
        memory, and knows nothing of the time."""
        self._away_until = max(self._away_until, self.agenda.now + seconds)
        self.agenda.fog.cover(self.agenda.now, self._away_until)

    @property
    def away(self) -> float:
        """For how many seconds it still is."""
        return max(0.0, self._away_until - self.agenda.now)

    def _every(self, period: float, work: Callable[[], None], life: int) -> None:
        def turn() -> None:
            if life != self.deaths:
                return
            # One thing at a time: a daemon that is held up in a call does nothing else, not even
            # renew its lease, which is harsher than its threads are.
            if not self._busy and self.agenda.now >= self._away_until:
                self._busy = True
                try:
                    work()
                except Killed:
                    self._die()
                    return
                finally:
                    self._busy = False
            self.agenda.after(period, turn)

        self.agenda.after(self.luck.uniform(0, period), turn)

    def _tick(self, controller: Controller) -> None:
        for lease in self._leases.held():
            try:
                controller.tick(lease)
            except StewardError:
                """Told in the log, and tried again at the next tick, as the daemon does."""

    def _posted(self, nodes: list[Node], lease: Lease | None) -> None:
        self.saved(nodes, lease)
        self.posted()
        self.seams.posted()

    def _die(self) -> None:
        self.deaths += 1
        away = self.luck.uniform(1, 120)
        self.agenda.fog.cover(self.agenda.now, self.agenda.now + away)
        self.agenda.after(away, self.begin)
