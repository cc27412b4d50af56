"""One run: two daemons and their callers work on one PostgreSQL at once, and the books are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine, StaticPool, create_engine, event, text
from structlog.testing import capture_logs

from service.application.costs import CostService
from service.application.nodes import NodeService
from service.application.prices import PriceService
from service.cloud.google.channel import tpu_client
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.pace import Pace
from service.controllers.evidence import EvidenceController
from service.controllers.garbage import GarbageController
from service.controllers.inventory import InventoryController
from service.controllers.lifecycle import LifecycleController
from service.controllers.metering import MeteringController
from service.controllers.steps import Steps
from service.controllers.tools import Manners, Tools
from service.daemon import leaseholder
from service.daemon.leaseholder import Leaseholder
from service.domain.attribution import Reattribution
from service.domain.errors import StewardError
from service.domain.lease import Lease
from service.domain.lines import meters
from service.domain.node import Node
from service.domain.wish import Wish
from service.emulator.app import build_world
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.store.engine import make_engine
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units
from tests.databases import fresh_database
from tests.interleaving.stage import Actor, Stage
from tests.simulation.truth import Truth, Violation

PROJECT, ZONE = "lab", "us-west4-a"
FULL_HOUR = 3_600
NIGHT = 1_793_880_000
"""The virtual clock begins at a full hour."""
BROKEN = ("failed", "broke", "batch_failed")
"""Ends of the names of log events by which the service tells of a defect of its own."""
RUNS_OUT = "the lease runs out"
Work = Callable[[], object]
_SUMS = (
    """select day, team, owner, sum(amount_nanos), sum(chip_seconds) from daily_costs
    group by day, team, owner order by 1, 2, 3""",
    "select node_id, since, sum(amount_nanos) from node_days group by node_id, since order by 1, 2",
    """select id, posted_nanos - coalesce((select sum(amount_nanos) from ledger
    where node_id = nodes.id), 0) from nodes order by 1""",
)
"""The sums that are kept of the ledger; the last is what a node has more than its entries."""


class FencedUnits(Units):
    """Units of work under leases: after each commit, that lease was the one of the project still.

    What is read then is what is committed: who takes the lease over waits for all that was begun
    under it, and commits at its own turn.
    """

    def __init__(self, engine: Engine, stage: Stage) -> None:
        super().__init__(engine)
        self._stage = stage
        self._spy = create_engine(engine.url, poolclass=StaticPool, isolation_level="AUTOCOMMIT")
        self._spying = threading.Lock()

    def close(self) -> None:
        """Let go of the connection."""
        self._spy.dispose()

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        with super().__call__(lease) as unit:
            yield unit
        if lease is not None and (epoch := self._epoch(lease.project)) > lease.epoch:
            self._stage.violations.append(
                f"committed under epoch {lease.epoch}, when epoch {epoch} had begun"
            )

    def _epoch(self, project: str) -> int:
        with self._spying, self._spy.connect() as connection:
            asked = text("select epoch from leases where project = :project")
            return int(connection.execute(asked, {"project": project}).scalar_one())


class Daemon:
    """The controllers of one process, with what they remember."""

    def __init__(self, name: str, life: Run) -> None:
        channel = LocalChannel(life.world)
        cloud: Any = GoogleTpus(tpu_client(channel), Pace(lambda: life.now), ONCE)
        shared = life.units, cloud, PriceShelf(), life.clock
        self.garbage = GarbageController(*shared, Manners("ilv", 15))
        self.inventory = InventoryController(*shared, onlookers=(self.garbage,))
        steps = Steps(Tools(*shared, Manners("ilv", 5)))
        self.lifecycle = LifecycleController(*shared, steps)
        self.metering = MeteringController(life.units, PriceShelf(), life.clock)
        history = GoogleHistory(logging_client(channel), ONCE)
        self.evidence = EvidenceController(life.units, cloud, history, PriceShelf(), life.clock)
        self.leases = Leaseholder(life.units, [PROJECT], self.inventory.looked_at, holder=name)

    def works(self) -> Mapping[str, Callable[[Any], object]]:
        """What each of its timers does under a lease."""
        return {
            "inventory": self.inventory.tick,
            "garbage": self.garbage.tick,
            "metering": self.metering.tick,
            "evidence": self.evidence.tick,
            "lifecycle 0": partial(self._lifecycle, 0),
            "lifecycle 1": partial(self._lifecycle, 1),
        }

    def _lifecycle(self, share: int, lease: Any) -> None:
        """One of the two threads that bring nodes on."""
        self.lifecycle.workers = 1
        with self.lifecycle._units.reading() as unit:
            due = unit.nodes.due(lease.project, self.lifecycle._clock(), 100)
        for node_id in due[share::2]:
            self.lifecycle._isolated(node_id, lease)


@dataclass
class Run:
    """Everything of one run; `seed` decides it, but for how long the database takes."""

    seed: int
    engine: Engine

    def __post_init__(self) -> None:
        self.luck = Random(f"{self.seed}/interleaving")
        self.now = float(NIGHT)
        self.world = build_world(seed=self.seed, clock=lambda: self.now)
        self.truth = Truth(self.world)
        self.stage = Stage(self.engine, self.luck)
        self.units = FencedUnits(self.engine, self.stage)
        books = self.units, PriceShelf(), self.clock
        self.nodes = NodeService(*books, [PROJECT])
        self.prices = PriceService(*books)
        self.costs = CostService(*books)
        self.daemons = [Daemon("first", self), Daemon("second", self)]
        self.ours: list[Node] = []

    def clock(self) -> int:
        """Whole virtual seconds."""
        return int(self.now)

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        for number in range(self.luck.randint(3, 6)):
            self._ask(number)
        self._in_turns(3, 30)
        for _ in range(self.luck.randint(4, 7)):
            self._pass(self.luck.choice([5, 20, 60, 900, 3_000, FULL_HOUR]))
            self._mishap()
            self._play()
        for node in self.ours:
            self.nodes.delete(node.id)
        self._in_turns(8, 120)
        self._pass(FULL_HOUR)
        self._in_turns(2, 60)
        self.truth.at_rest(self.units, self.ours, lied=0)
        self.check_books()

    def check_books(self) -> None:
        """The ledger says of each usage what it should, and so do all sums made of it."""
        with self.units.reading() as unit:
            book = PriceShelf().book(unit)
            ledger = dict(
                unit.nodes._connection.execute(
                    text("select usage_id, sum(amount_nanos) from ledger group by usage_id")
                ).all()
            )
            for node in self.ours:
                for usage in unit.usage.of(node.id):
                    wanted = sum(one.total() for one in meters([usage], book, self.clock()))
                    posted = int(ledger.get(usage.id, 0))
                    if posted != wanted or usage.dirty:
                        raise Violation(
                            f"usage {usage.id} of {node.name}: {posted} nano-dollars are posted and"
                            f" {wanted} are right ({usage.start} to {usage.end},"
                            f" posted until {usage.posted_until}, dirty {usage.dirty})"
                        )
            before = self._sums(unit)
        if any(row[1] != "0" for row in before[-1]):
            raise Violation(f"the sums of nodes differ from their entries by {before[-1]}")
        with self.units() as unit:
            unit.costs.rebuild()
        with self.units.reading() as unit:
            if (after := self._sums(unit)) != before:
                raise Violation(f"the rollups say {before}, and the ledger {after}")

    def _sums(self, unit: Any) -> Any:
        connection = unit.nodes._connection
        return [
            [tuple(map(str, row)) for row in connection.execute(text(one)).all()] for one in _SUMS
        ]

    def _ask(self, number: int) -> None:
        luck = self.luck
        wish = Wish(
            project=PROJECT,
            name=f"n-{number}-{len(self.ours)}",
            owner=luck.choice(["ada", "bob"]),
            team=luck.choice(["nlp", "vision"]),
            accelerator_type=luck.choice(["v5litepod-1", "v5litepod-4", "v5litepod-8"]),
            zone=ZONE,
        )
        self.ours.append(self.nodes.request(wish).node)

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.world.settle()

    def _mishap(self) -> None:
        """What the world does meanwhile."""
        names = sorted(name for name, one in self.world.nodes.items() if one.state == "READY")
        if names and self.luck.random() < 0.4:
            with suppress(ApiError):
                control.preempt(self.world, {"name": self.luck.choice(names)})

    def _in_turns(self, rounds: int, seconds: float) -> None:
        """One after the other, as in a calm house."""
        for _ in range(rounds):
            self._pass(seconds)
            for one in self.daemons:
                one.leases.renew()
                for lease in one.leases.held():
                    for work in one.works().values():
                        work(lease)

    def _play(self) -> None:
        luck = self.luck
        works: dict[str, Work] = {}
        holders = set()
        for number, one in enumerate(self.daemons):
            works[f"{number} renew"] = one.leases.renew
            for lease in one.leases.held():
                holders.add(f"{number} renew")
                for name, work in one.works().items():
                    if luck.random() < 0.75:
                        works[f"{number} {name}"] = partial(_bearing, partial(work, lease))
        if luck.random() < 0.15:
            works[RUNS_OUT] = self._run_out
        for name, work in self._callers().items():
            if luck.random() < 0.5:
                works[name] = partial(_bearing, work)
        self._judge(self.stage.play(works), set() if RUNS_OUT in works else holders)

    def _callers(self) -> Mapping[str, Work]:
        luck, node = self.luck, self.luck.choice(self.ours)
        who = Reattribution(owner=luck.choice(["ada", "eve"]), team=luck.choice(["nlp", "vision"]))
        return {
            "delete": partial(self.nodes.delete, node.id),
            "ask": partial(self._ask, 99),
            "reattribute": partial(self.nodes.reattribute, node.id, who),
            "reprice": partial(self._reprice, luck.choice([100, 250]) * 10_000_000),
        }

    def _reprice(self, nanos: int) -> None:
        """Have what ran be priced anew, as when a price becomes known."""
        del nanos
        with self.units() as unit:
            unit.usage.reconsider("v5e", NIGHT)

    def _run_out(self) -> None:
        """The holder was asleep for longer than its lease."""
        with self.engine.begin() as connection:
            connection.execute(text("update leases set expires_at = 0"))

    def _judge(self, cast: list[Actor], holders: Set[str]) -> None:
        """No deadlock, no defect, and whoever renews a lease that it holds waits for nobody."""
        if self.stage.deadlocks:
            raise Violation(f"a deadlock: {self.stage.deadlocks[0]}")
        if self.stage.violations:
            raise Violation(self.stage.violations[0])
        for one in cast:
            if one.error is not None:
                raise Violation(f"{one.name} ended with {one.error!r}") from one.error
            if one.blocked and one.name in holders:
                raise Violation(f"{one.name} had to wait for others")


def _bearing(work: Work) -> None:
    """What the service itself says no to is an answer."""
    with suppress(StewardError):
        work()


def run(seed: int) -> Run:
    """Live through one seed; raises Violation with the seed."""
    with ExitStack() as stack:
        engine = stack.enter_context(database())
        logs = stack.enter_context(capture_logs())
        # the database goes by the true time, of which a slow machine takes more
        stack.enter_context(patch.object(leaseholder, "LEASE_SECONDS", 3_600))
        living = Run(seed, engine)
        stack.callback(living.units.close)
        try:
            living.live()
            _check_logs(logs)
        except Exception as error:
            error.add_note(f"again with: python -m tests.interleaving {seed}")
            raise
        return living


def _check_logs(logs: Sequence[Any]) -> None:
    broken = [one for one in logs if one["event"].rpartition(".")[2] in BROKEN]
    if broken:
        raise Violation(f"an error inside: {broken[0]}")


@contextmanager
def database() -> Iterator[Engine]:
    """A fresh PostgreSQL database, that finds deadlocks at once."""
    with TemporaryDirectory() as folder, fresh_database("postgresql", Path(folder)) as address:
        engine = make_engine(address, pool_size=32)

        @event.listens_for(engine, "connect")
        def connect(connection: Any, _: object) -> None:
            connection.autocommit = True
            connection.execute("set deadlock_timeout = '20ms'")
            connection.autocommit = False

        try:
            yield engine
        finally:
            engine.dispose()
