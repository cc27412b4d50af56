"""The fleet in numbers: how many nodes and chips, where, in which state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, case, cast, exists, func, or_, select

from service.domain.nodes.node import Asked, NodeState
from service.domain.nodes.placement import Outcome
from service.domain.pricing.price_book import RESERVED, Sku
from service.store.tables import nodes, placements, usage

_WANTED_SINCE = func.coalesce(
    nodes.c.delete_requested_at, case((nodes.c.replacing, nodes.c.replacing_since))
)
"""The SQL form of `service.domain.nodes.deletion.wanted_since`."""

_OVERDUE = (
    nodes.c.ended_at.is_(None),
    nodes.c.alarmed_at.is_not(None),
    _WANTED_SINCE.is_not(None),
)
"""The SQL form of `service.domain.nodes.deletion.overdue_since`."""

FAILING = (
    nodes.c.ended_at.is_(None),
    _WANTED_SINCE.is_not(None),
    or_(
        nodes.c.alarmed_at.is_not(None),
        nodes.c.tries > case((nodes.c.queue_state != "", 1), else_=0),
    ),
)
"""The SQL form of `service.domain.nodes.deletion.find_deletion_failure`."""


@dataclass(frozen=True, slots=True)
class FleetCount:
    """Live nodes and their chips in one state, by generation, model, zone and team."""

    state: str
    generation: str
    model: str
    zone: str
    team: str
    nodes: int
    chips: int


@dataclass(frozen=True, slots=True)
class RunningCount:
    """Nodes that are billed now at one price, and their users' machines that drive them."""

    sku: Sku
    vm: Sku | None
    nodes: int
    chips: int
    vms: int


COMING = frozenset({NodeState.REQUESTED, NodeState.QUEUED, NodeState.CREATING, NodeState.STARTING})
"""States of nodes that are not billed yet, and will be once they are READY."""


@dataclass(frozen=True, slots=True)
class OverdueDeletion:
    """A node whose deletion was requested at `asked_at` and has not ended, so that a person was
    notified. `replacing` says that the node is deleted to create another. Instants are UTC
    seconds."""

    node_id: str
    name: str
    state: str
    zone: str
    asked_at: int
    replacing: bool = False


@dataclass(frozen=True, slots=True)
class FailingDeletion:
    """A node that has not been deleted since `asked_at`, although the deletion was tried: `tries`
    attempts in a row have failed, the last one with `error`. `asked_at` is in UTC seconds."""

    node_id: str
    name: str
    asked_at: int
    tries: int
    error: str


class FleetCounts:
    """Counts over all live nodes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count_by_state(self) -> Sequence[FleetCount]:
        """Live nodes by state, generation, model, zone and team."""
        columns = (nodes.c.state, nodes.c.generation, nodes.c.model, nodes.c.zone, nodes.c.team)
        statement = (
            select(*columns, func.count(), cast(func.sum(nodes.c.chips), BigInteger))
            .where(nodes.c.ended_at.is_(None))
            .group_by(*columns)
            .order_by(*columns)
        )
        return [FleetCount(*row) for row in self._connection.execute(statement)]

    def count_coming(self) -> Mapping[str, int]:
        """How many nodes are wanted and on their way to READY, with nothing billed yet, by price
        key."""
        is_billed = exists().where(usage.c.node_id == nodes.c.id, usage.c.end_at.is_(None))
        statement = (
            select(nodes.c.price_key, func.count())
            .where(
                nodes.c.ended_at.is_(None),
                nodes.c.asked == Asked.PRESENT,
                nodes.c.state.in_(sorted(COMING)),
                ~is_billed,
            )
            .group_by(nodes.c.price_key)
        )
        return {row[0]: row[1] for row in self._connection.execute(statement)}

    def list_overdue(self, limit: int) -> tuple[int, Sequence[OverdueDeletion]]:
        """The number of overdue deletions, and the oldest of them."""
        columns = (nodes.c.id, nodes.c.name, nodes.c.state, nodes.c.zone)
        statement = (
            select(
                *(func.count().over(), *columns),
                *(_WANTED_SINCE, nodes.c.delete_requested_at.is_(None)),
            )
            .where(*_OVERDUE)
            .order_by(_WANTED_SINCE, nodes.c.id)
            .limit(limit)
        )
        rows = self._connection.execute(statement).all()
        return (rows[0][0] if rows else 0), [OverdueDeletion(*row[1:]) for row in rows]

    def list_failing_deletions(self) -> Sequence[FailingDeletion]:
        """Deletions that failed at least once or are overdue, the oldest first."""
        statement = (
            select(
                *(nodes.c.id, nodes.c.name, _WANTED_SINCE),
                *(nodes.c.tries, nodes.c.last_error),
            )
            .where(*FAILING)
            .order_by(_WANTED_SINCE, nodes.c.id)
        )
        return [FailingDeletion(*row) for row in self._connection.execute(statement)]

    def list_ending(self, until: int) -> Sequence[str]:
        """The ids of READY nodes with a time limit that may end them before `until`. The lifecycle
        notes the next instant of each as its next step."""
        statement = (
            select(nodes.c.id)
            .where(
                nodes.c.ended_at.is_(None),
                nodes.c.next_try_at < until,
                nodes.c.state == NodeState.READY,
                nodes.c.asked == Asked.PRESENT,
            )
            .order_by(nodes.c.next_try_at, nodes.c.id)
        )
        return self._connection.execute(statement).scalars().all()

    def count_preemptions(self) -> Sequence[tuple[str, str, int]]:
        """Preempted attempts of all time by generation and provisioning model."""
        columns = (placements.c.generation, placements.c.model)
        statement = (
            select(*columns, func.count())
            .where(placements.c.outcome == Outcome.PREEMPTED)
            .group_by(*columns)
            .order_by(*columns)
        )
        return [(row[0], row[1], row[2]) for row in self._connection.execute(statement)]

    def count_preemptions_since(self, start: int) -> int:
        """Attempts that were preempted since an instant."""
        statement = select(func.count()).where(
            placements.c.outcome == Outcome.PREEMPTED, placements.c.ended_at >= start
        )
        return self._connection.execute(statement).scalar_one()

    def list_preemptions(self, start: int, end: int) -> Sequence[int]:
        """When attempts were preempted in [start, end), in UTC seconds."""
        statement = select(placements.c.ended_at).where(
            placements.c.outcome == Outcome.PREEMPTED,
            placements.c.ended_at >= start,
            placements.c.ended_at < end,
        )
        return list(self._connection.execute(statement).scalars())

    def count_overdue(self) -> int:
        """How many deletions are overdue."""
        statement = select(func.count()).select_from(nodes).where(*_OVERDUE)
        return self._connection.execute(statement).scalar_one()

    def count_running(self, among: Select[Any] | None = None) -> Sequence[RunningCount]:
        """The nodes that are billed now, by price; with `among`, those with one of these ids."""
        pool = case(
            (
                usage.c.model == RESERVED,
                usage.c.project + "/" + usage.c.zone + "/" + usage.c.reservation,
            ),
            else_="",
        )
        among_these = () if among is None else (usage.c.node_id.in_(among),)
        columns = (
            *(usage.c.generation, usage.c.model, usage.c.region, usage.c.single_device),
            *(pool, usage.c.vm, usage.c.vm_model),
        )
        statement = (
            select(
                *columns,
                func.count(usage.c.node_id.distinct()),
                func.sum(usage.c.chips),
                func.count(),
            )
            .where(usage.c.end_at.is_(None), *among_these)
            .group_by(*columns)
        )
        return [
            RunningCount(
                sku=Sku(*row[:5]),
                vm=Sku(row[5], row[6], row[2], is_vm=True) if row[5] else None,
                nodes=row[7],
                chips=int(row[8]),
                vms=row[9] if row[5] else 0,
            )
            for row in self._connection.execute(statement)
        ]
