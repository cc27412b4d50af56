"""One run: two daemons and their callers work on one PostgreSQL at once, and the books are read."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sqlalchemy import text
from structlog.testing import capture_logs

from service.application.costs.costs import CostService
from service.application.nodes.nodes import NodeChange, NodeService
from service.daemon import leaseholder
from service.domain import ids
from service.domain.errors import StaleVersion, StewardError
from service.domain.idle.terms import TermsChange
from service.domain.metering.attribution import Reattribution
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.price_book import PriceBook
from service.emulator.app import build_world
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from service.store import revisions
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit
from tests.interleaving.daemon import CallersUnits, Daemon, works_of
from tests.interleaving.ground import Ground, empty_ground
from tests.interleaving.oracle import Oracle
from tests.interleaving.parts import Budgets, Cleanup, Jobs, Mail, Part, Post
from tests.interleaving.stage import Actor, Stage
from tests.simulation.crash_points import Unfenced
from tests.simulation.invariants import Invariants, Violation

PROJECT, OTHER = "lab", "other"
HARDWARE = (
    ("v5litepod-1", "us-west4-a"),
    ("v5litepod-4", "us-west4-a"),
    ("v5litepod-8", "us-west4-a"),
    ("v6e-4", "us-east5-a"),
    ("v6e-8", "us-east5-a"),
)
GENERATIONS = ["v5e", "v6e"]
FULL_HOUR = 3_600
NIGHT = 1_793_880_000
"""The virtual clock begins at a full hour."""
BROKEN = ("failed", "broke", "batch_failed")
"""Ends of the names of log events by which the service tells of a defect of its own."""
RUNS_OUT = "the lease runs out"
TOO = " too"
"""Ends the name of a caller who does the same as another, whenever that one does it."""
REST_ROUNDS = 15
MOVING = ("inventory", "lifecycle 0", "lifecycle 1", "jobs")
"""What brings nodes and jobs on."""
Work = Callable[[], object]
_SUMS = (
    """select day, team, owner, sum(amount_nanos), sum(chip_seconds) from daily_costs
    group by day, team, owner order by 1, 2, 3""",
    "select node_id, since, sum(amount_nanos) from node_days group by node_id, since order by 1, 2",
    """select id, posted_nanos - coalesce((select sum(amount_nanos) from ledger
    where node_id = nodes.id), 0) from nodes order by 1""",
)
"""The sums that are kept of the ledger; the last is what a node has more than its entries."""


@dataclass
class Run:
    """Everything of one run; `seed` decides it, but for how long the database takes."""

    seed: int
    ground: Ground
    only: Sequence[type[Part]] | None = None
    """What there is beside nodes and their books; where it is not said, chance says it."""
    ours: list[Node] = field(default_factory=list)
    now: float = NIGHT

    def __post_init__(self) -> None:
        self.luck = Random(f"{self.seed}/interleaving")
        self.world = build_world(seed=self.seed, clock=lambda: self.now)
        self.truth = Invariants(self.world)
        self.stage = Stage(self.ground, self.luck)
        self.projects = [PROJECT, OTHER] if self.luck.random() < 0.3 else [PROJECT]
        self.oracle = Oracle(self)
        self.units = CallersUnits(self.ground, self.oracle.watch)
        books = self.units, PriceBookCache(), self.clock
        self.nodes = NodeService(*books, self.projects)
        self.costs = CostService(*books)
        self.post = Post()
        self.parts = self._drawn_parts()
        self.daemons = [Daemon("first", self), Daemon("second", self)]
        self._has_run_out = False

    def _drawn_parts(self) -> list[Part]:
        """A seed has few of them, so that it stays short."""
        number = self.luck.choice([0, 1, 1, 1, 2])
        drawn: list[type[Part]] = self.luck.sample([Jobs, Cleanup, Budgets], number)
        kinds = drawn if self.only is None else self.only
        is_told = Cleanup in kinds or Budgets in kinds
        return [kind(self) for kind in (*kinds, *([Mail] if is_told else []))]

    def clock(self) -> int:
        """Whole virtual seconds."""
        return int(self.now)

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        for number in range(self.luck.randint(2, 4)):
            self._ask(number)
        self._each(Part.begin)
        self.in_turns(3, 30)
        self._each(Part.settle)
        passes = [5, 60, 900, 3_000, FULL_HOUR, FULL_HOUR]
        for _ in range(self.luck.randint(3, 5)):
            self._pass(self.luck.choice(passes))
            self._mishap()
            self._each(Part.prepare)
            self._play()
            self._each(Part.played)
            self._check_ended()
        self._each(Part.let_end)
        for node in self.ours:
            self.nodes.delete(node.id)
        self._come_to_rest()
        self._pass(FULL_HOUR)
        self.in_turns(2, 60)
        self._each(Part.at_rest)
        self.oracle.at_rest()
        self.truth.at_rest(self.units, self._all(), lied=0)
        self.check_books()

    def _each(self, do: Callable[[Part], object]) -> None:
        for part in self.parts:
            getattr(part, do.__name__)()

    def _all(self) -> list[Node]:
        return [*self.ours, *(node for part in self.parts for node in part.nodes())]

    def _come_to_rest(self) -> None:
        """Have them work in a calm house until all has ended, for as long as that may take."""
        for _ in range(REST_ROUNDS):
            self.in_turns(1, 120, MOVING)
            if not self.truth.left() and all(
                self.nodes.get(daemon.id).has_ended for daemon in self._all()
            ):
                return

    def _check_ended(self) -> None:
        """What has ended, and is not to be looked at once more, is posted as it should be."""
        with self.units.reading() as unit:
            book, ledger = PriceBookCache().get_book(unit), _ledger(unit)
            for node in self.ours:
                for usage in unit.usage.list_by_node(node.id):
                    if usage.end is not None and not usage.dirty:
                        self._check_posted(usage, book, ledger)

    def check_books(self) -> None:
        """The ledger says of each usage what it should, and so do all sums made of it."""
        with self.units.reading() as unit:
            book, ledger = PriceBookCache().get_book(unit), _ledger(unit)
            for node in self._all():
                for usage in unit.usage.list_by_node(node.id):
                    self._check_posted(usage, book, ledger)
            before = self._sums(unit)
        if any(row[1] != "0" for row in before[-1]):
            raise Violation(f"the sums of nodes differ from their entries by {before[-1]}")
        with self.units() as unit:
            unit.costs.rebuild()
        with self.units.reading() as unit:
            if (after := self._sums(unit)) != before:
                raise Violation(f"the rollups say {before}, and the ledger {after}")

    def _check_posted(self, usage: Usage, book: PriceBook, ledger: Mapping[str, int]) -> None:
        wanted = sum(meter.total_charge() for meter in make_meters([usage], book, self.clock()))
        posted = int(ledger.get(usage.id, 0))
        if posted != wanted or usage.dirty:
            raise Violation(
                f"usage {usage.id} of {usage.node_id}: {posted} nano-dollars are posted and"
                f" {wanted} are right ({usage.start} to {usage.end},"
                f" posted until {usage.posted_until}, dirty {usage.dirty})"
            )

    def _sums(self, unit: Any) -> Any:
        connection = unit.nodes._connection
        return [
            [tuple(map(str, row)) for row in connection.execute(text(sum_)).all()] for sum_ in _SUMS
        ]

    def request(self, name: str) -> RequestedNode:
        """What somebody may ask for."""
        luck, (kind, zone) = self.luck, self.luck.choice(HARDWARE)
        return RequestedNode(
            project=luck.choice(self.projects),
            name=name,
            owner=luck.choice(["ada", "bob"]),
            team=luck.choice(["nlp", "vision"]),
            accelerator_type=kind,
            zone=zone,
        )

    def _ask(self, number: int) -> None:
        self.ours.append(self.nodes.request(self.request(f"n-{number}-{len(self.ours)}")).node)

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.world.run_due_events()

    def _mishap(self) -> None:
        """What the world does meanwhile."""
        ready = sorted(name for name, one in self.world.nodes.items() if one.state == "READY")
        if ready and self.luck.random() < 0.6:
            with suppress(ApiError):
                control.preempt_node(self.world, {"name": self.luck.choice(ready)})

    def in_turns(self, rounds: int, seconds: float, only: tuple[str, ...] = ()) -> None:
        """One after the other, as in a calm house."""
        for _ in range(rounds):
            self._pass(seconds)
            for daemon in self.daemons:
                daemon.leases.renew()
                for lease in daemon.leases.list_held():
                    for work in works_of(daemon, only).values():
                        work(lease)

    def _play(self) -> None:
        luck = self.luck
        works: dict[str, Work] = {}
        holders = set()
        for number, one in enumerate(self.daemons):
            works[f"{number} renew"] = one.leases.renew
            for lease in sorted(one.leases.list_held(), key=lambda lease: lease.project):
                holders.add(f"{number} renew")
                for name, work in one.works.items():
                    if luck.random() < 0.75:
                        of = f"{number} {name} of {lease.project}"
                        works[of] = partial(_turn, name, partial(work, lease))
        if luck.random() < 0.15:
            works[RUNS_OUT] = self._run_out
        for name, call in self._callers().items():
            twin = name.removesuffix(TOO)
            if twin in works if name.endswith(TOO) else luck.random() < 0.4:
                works[name] = partial(_bearing, call)
        is_calm = not self._has_run_out and RUNS_OUT not in works
        self._has_run_out = RUNS_OUT in works  # who renews one lease may take another that is over
        self._judge(self.stage.play(works), holders if is_calm else set())

    def _callers(self) -> Mapping[str, Work]:
        luck, node = self.luck, self.luck.choice(self.ours)
        who = Reattribution(owner=luck.choice(["ada", "eve"]), team=luck.choice(["nlp", "vision"]))
        terms = TermsChange(ttl_seconds=luck.choice([None, 40_000]))
        found: dict[str, Work] = {
            "delete": partial(self.nodes.delete, node.id),
            "ask": partial(self._ask, 99),
            "reattribute": partial(self.nodes.update, node.id, NodeChange(who)),
            "change": partial(self.nodes.update, node.id, NodeChange(terms=terms)),
            "stop": partial(self.nodes.stop, luck.choice(self.ours).id),
            "start": partial(self.nodes.start, luck.choice(self.ours).id),
        }
        if luck.random() < 0.3:
            found["reprice"] = partial(self._reprice, luck.sample(GENERATIONS, 2))
        for part in self.parts:
            found |= part.callers()
        return found

    def _reprice(self, generations: Sequence[str]) -> None:
        """Have what ran be priced anew, as when the price list of the cloud has changed."""
        with self.units() as unit:
            unit.usage.mark_dirty(dict.fromkeys(generations, NIGHT))

    def _run_out(self) -> None:
        """The holder was asleep for longer than its lease."""
        with self.ground.engine.begin() as connection:
            connection.execute(text("update leases set expires_at = 0"))

    def _judge(self, cast: list[Actor], holders: Set[str]) -> None:
        """No deadlock, no defect, and whoever renews a lease that it holds waits for nobody."""
        if self.stage.deadlocks:
            raise Violation(f"a deadlock: {self.stage.deadlocks[0]}")
        self.check_seen()
        for daemon in cast:
            if daemon.error is not None:
                raise Violation(f"{daemon.name} ended with {daemon.error!r}") from daemon.error
            if daemon.blocked and daemon.name in holders:
                raise Violation(f"{daemon.name} had to wait for {daemon.waited_for[:300]}")

    def check_seen(self) -> None:
        """Raise Violation for what was seen within a turn."""
        if self.stage.violations:
            raise Violation(self.stage.violations[0])


def _ledger(unit: Unit) -> dict[str, int]:
    posted = text("select usage_id, sum(amount_nanos) from ledger group by usage_id")
    return dict(unit.nodes._connection.execute(posted).all())


def _bearing(work: Work) -> None:
    """What the service itself says no to is an answer."""
    with suppress(StewardError):
        work()


def _turn(name: str, work: Work) -> None:
    """A turn of a controller. It may end early, but not because a row of many was changed by
    somebody else: whatever has its turn at the same time would end each of its turns so."""
    try:
        work()
    except StaleVersion as error:
        raise Violation(f"a turn of {name} was given up: {error}") from error
    except StewardError:
        pass


def run(seed: int, only: Sequence[type[Part]] | None = None) -> Run:
    """Live through one seed, with those parts alone if any are named; raises Violation with the
    seed."""
    with ExitStack() as stack:
        ground = stack.enter_context(empty_ground())
        logs = stack.enter_context(capture_logs())
        # the database goes by the true time, of which a slow machine takes more
        stack.enter_context(patch.object(leaseholder, "LEASE_SECONDS", 3_600))
        living = Run(seed, ground, only)
        stack.enter_context(_repeatable_chance(living))
        try:
            living.live()
            living.check_seen()
            _check_logs(logs)
        except Unfenced as error:
            raise Violation(living.stage.violations[0]) from error
        except (Exception, Violation) as error:
            parts = [type(part).__name__ for part in living.parts]
            error.add_note(f"seed {seed} has {parts} in {living.projects}")
            error.add_note(f"again with: python -m tests.interleaving {seed}")
            raise
        return living


@contextmanager
def _repeatable_chance(living: Run) -> Iterator[None]:
    """Ids hold the time and chance; here both are the run's own. Each actor has a chance of its
    own, as two may get on at once where one sets a lock free that the other waits for."""
    lucks: dict[str, Random] = {}

    def luck() -> Random:
        name = living.stage.name_of_actor()
        return lucks.setdefault(name, Random(f"{living.seed}/chance/{name}"))

    bits = SimpleNamespace(
        randbits=lambda count: luck().getrandbits(count), token_hex=secrets.token_hex
    )
    parts = SimpleNamespace(randrange=lambda end: luck().randrange(end))
    clock = SimpleNamespace(time=lambda: living.now)
    with (
        patch.object(ids, "secrets", bits),
        patch.object(ids, "time", clock),
        patch.object(revisions, "random", parts),
    ):
        yield


def _check_logs(logs: Sequence[Any]) -> None:
    broken = [log for log in logs if log["event"].rpartition(".")[2] in BROKEN]
    if broken:
        raise Violation(f"an error inside: {broken[0]}")
