"""One daemon of the harness: its controllers, and the units of work that are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from service.cloud.google.channel import tpu_client
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.inventory.audit_log import EvidenceController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.controllers.orphans.orphans import OrphanController
from service.daemon.leaseholder import Leaseholder
from service.domain.lease import Lease
from service.emulator.surfaces.channel import LocalChannel
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests.interleaving.ground import Ground
from tests.interleaving.stage import Stage
from tests.simulation.crash_points import Unfenced

if TYPE_CHECKING:
    from tests.interleaving.run import Run

Tick = Callable[[Lease], object]
Watch = Callable[[Unit, Lease | None], Callable[[], None]]
"""Is told of each unit of work that begins; what it answers is called after the commit."""


class FencedUnits(Units):
    """Units of work of a daemon: each has a lease, and only rows of its project are written. After
    each commit, that lease was the one of the project still.

    What is read then is what is committed: who takes the lease over waits for all that was begun
    under it, and commits at its own turn.
    """

    def __init__(self, ground: Ground, stage: Stage, watch: Watch) -> None:
        super().__init__(ground.engine)
        self._ground = ground
        self._stage = stage
        self._watch = watch

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        if lease is None:
            self._stage.violations.append("a controller writes without a lease")
            raise Unfenced
        with super().__call__(lease) as unit:
            committed = self._watch(unit, lease)
            yield unit
        committed()
        if (epoch := self._epoch(lease.project)) > lease.epoch:
            self._stage.violations.append(
                f"committed under epoch {lease.epoch}, when epoch {epoch} had begun"
            )

    def _epoch(self, project: str) -> int:
        [(epoch,)] = self._ground.ask("select epoch from leases where project = %s", project)
        return int(epoch)


class CallersUnits(Units):
    """Units of work of callers, which need no lease."""

    def __init__(self, ground: Ground, watch: Watch) -> None:
        super().__init__(ground.engine)
        self._watch = watch

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        with super().__call__(lease) as unit:
            committed = self._watch(unit, lease)
            yield unit
        committed()


class Daemon:
    """The controllers of one process, with what they remember."""

    def __init__(self, name: str, life: Run) -> None:
        self.channel = LocalChannel(life.world)
        self.cloud: Any = GoogleTpus(tpu_client(self.channel), Pace(lambda: life.now), ONCE)
        self.units = FencedUnits(life.ground, life.stage, life.oracle.watch)
        self.clock = life.clock
        shared = self.units, self.cloud, PriceBookCache(), life.clock
        garbage = OrphanController(*shared, Installation("ilv", 15))
        inventory = InventoryController(*shared, onlookers=(garbage,))
        steps = Steps(StepContext(*shared, Installation("ilv", 5)))
        self._lifecycle = LifecycleController(*shared, steps)
        self._lifecycle.workers = 1
        metering = MeteringController(self.units, PriceBookCache(), life.clock)
        history = GoogleHistory(logging_client(self.channel), ONCE)
        evidence = EvidenceController(self.units, self.cloud, history, PriceBookCache(), life.clock)
        leasing = Units(life.ground.engine)
        self.leases = Leaseholder(leasing, life.projects, inventory.looked_at, holder=name)
        self.works: dict[str, Tick] = {
            "inventory": inventory.tick,
            "garbage": garbage.tick,
            "metering": metering.tick,
            "evidence": evidence.tick,
            "lifecycle 0": partial(self._share, 0),
            "lifecycle 1": partial(self._share, 1),
        }
        """What each of its timers does under a lease."""
        for part in life.parts:
            self.works |= part.works(self)

    def _share(self, share: int, lease: Lease) -> None:
        """One of the two threads that bring nodes on."""
        with self.units.reading() as unit:
            due = unit.nodes.list_due(lease.project, self.clock(), 100)
        for node_id in due[share::2]:
            self._lifecycle._reconcile_isolated(node_id, lease)


def works_of(daemon: Daemon, only: tuple[str, ...]) -> Mapping[str, Tick]:
    """Some of its works; all where none is named."""
    return {name: work for name, work in daemon.works.items() if not only or name in only}
