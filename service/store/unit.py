"""Units of work: one transaction each, committed when the block ends without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from functools import cached_property
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine

from service.domain.lease import Lease
from service.store.attributions import Attributions
from service.store.bill_matches import BillMatches
from service.store.bills import Bills
from service.store.budgets import Budgets
from service.store.capacity import Capacity
from service.store.charges import Charges
from service.store.cleanups import Cleanups
from service.store.commitments import Commitments
from service.store.costs import Costs
from service.store.database_errors import translate_errors
from service.store.engine import make_reading_engine
from service.store.events import Events
from service.store.fleet_counts import FleetCounts
from service.store.forecasts import Forecasts
from service.store.holds import Holds
from service.store.idempotency import IdempotencyKeys
from service.store.idle import IdleCourses, IdleRollups
from service.store.jobs import Jobs
from service.store.leases import Leases
from service.store.ledger import Ledger
from service.store.links import Heartbeats, Links
from service.store.node_list import NodeList
from service.store.nodes import Nodes
from service.store.notifications import Alerts, Notifications
from service.store.observations import Observations
from service.store.orphans import Orphans
from service.store.placements import Placements
from service.store.policies import IdlePolicies
from service.store.prices import Prices
from service.store.quotas import Quotas
from service.store.reservations import Reservations
from service.store.revisions import Revisions
from service.store.sorted_nodes import SortedNodes
from service.store.statements import Statements
from service.store.usage import Usages
from service.store.usage_versions import UsageVersions
from service.store.writer_turns import turns_of


class LastWrites(IntEnum):
    """Writes at the end of a transaction, in this order, before the rollups."""

    NODES = 1
    RESERVATIONS = 2


_T = TypeVar("_T")


class _Repository(Generic[_T]):
    """A repository of a unit, created on first use: most transactions use three of the many
    repositories."""

    def __init__(self, make: Callable[[Connection], _T]) -> None:
        self._make = make

    def __set_name__(self, _: type[Unit], name: str) -> None:
        self._name = name

    def __get__(self, unit: Unit, _: type[Unit]) -> _T:
        made = unit.__dict__[self._name] = self._make(unit._connection)  # noqa: SLF001
        return made


class Unit:
    """What can be read and written within one transaction."""

    placements = _Repository(Placements)
    capacity = _Repository(Capacity)
    attributions = _Repository(Attributions)
    fleet = _Repository(FleetCounts)
    node_list = _Repository(NodeList)
    sorted_nodes = _Repository(SortedNodes)
    observations = _Repository(Observations)
    usage_versions = _Repository(UsageVersions)
    ledger = _Repository(Ledger)
    charges = _Repository(Charges)
    costs = _Repository(Costs)
    forecasts = _Repository(Forecasts)
    statements = _Repository(Statements)
    prices = _Repository(Prices)
    reservations = _Repository(Reservations)
    commitments = _Repository(Commitments)
    events = _Repository(Events)
    idempotency_keys = _Repository(IdempotencyKeys)
    jobs = _Repository(Jobs)
    leases = _Repository(Leases)
    orphans = _Repository(Orphans)
    quotas = _Repository(Quotas)
    bills = _Repository(Bills)
    bill_matches = _Repository(BillMatches)
    budgets = _Repository(Budgets)
    holds = _Repository(Holds)
    alerts = _Repository(Alerts)
    notifications = _Repository(Notifications)
    idle_policies = _Repository(IdlePolicies)
    idle_courses = _Repository(IdleCourses)
    idle_rollups = _Repository(IdleRollups)
    cleanups = _Repository(Cleanups)
    links = _Repository(Links)
    heartbeats = _Repository(Heartbeats)

    def __init__(self, connection: Connection, *, writes: bool = True) -> None:
        self._connection = connection
        self._writes = writes
        self._last: list[tuple[int, str, Callable[[], None]]] = []

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes, with their placements and attributions."""
        return Nodes(self._connection, self.placements, self.attributions)

    @cached_property
    def usage(self) -> Usages:
        """Intervals of use; a transaction that writes locks the intervals that it reads."""
        return Usages(self._connection, writes=self._writes)

    @cached_property
    def revisions(self) -> Revisions:
        """How often each topic was written."""
        return Revisions(self._connection, writes=self._writes)

    def at_the_end(self, rank: LastWrites, of: str, work: Callable[[], None]) -> None:
        """Do `work` at the end of the transaction, sorted by rank and then by `of`. Every
        transaction writes shared rows in this order, so none waits for another in a circle."""
        self._last.append((rank, of, work))

    def finish(self) -> None:
        """Do the work that was left for the end, and write the rollups. Work may add more work of a
        higher rank."""
        while self._last:
            self._last.sort(key=lambda write: write[:2])
            _, _, work = self._last.pop(0)
            work()
        self.costs.flush()


class Units:
    """`with units() as unit:` writes, `with units.reading() as unit:` reads."""

    def __init__(self, engine: Engine, *, first: bool = False) -> None:
        """`first` says that its writers go before other writers that wait for a turn."""
        self._writing = engine
        self._reading = make_reading_engine(engine)
        self._turns = turns_of(str(engine.url)) if self.is_local else None
        self._first = first

    @property
    def is_local(self) -> bool:
        """Whether reads stay on this machine, without a network."""
        return self._writing.dialect.name == "sqlite"

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        """A unit that may write. With a lease, it raises LeaseLost if another daemon holds the
        lease: a daemon that slept past the end of its lease can change nothing."""
        turn: AbstractContextManager[None]
        turn = nullcontext() if self._turns is None else self._turns.take_turn(first=self._first)
        with turn, translate_errors(), self._writing.begin() as connection:
            unit = Unit(connection)
            if lease is not None:
                unit.leases.check_held(lease)
            yield unit
            unit.finish()

    @contextmanager
    def reading(self) -> Iterator[Unit]:
        """A unit that only reads, and waits for no writer."""
        with translate_errors(), self._reading.begin() as connection:
            yield Unit(connection, writes=False)
