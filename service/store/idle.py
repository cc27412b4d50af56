"""The idle courses of nodes with their signals, and the rollups of those signals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from service.domain.clock import DAY, HOUR
from service.domain.errors import StaleVersion
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.policy import Action
from service.domain.idle.proof import Host, IdleVerdict, Signals
from service.domain.idle.rollup import BUSY, IDLE, ActivityHour
from service.domain.idle.signals.signal import Kind, SignalTrack
from service.domain.nodes.node import Asked, NodeState
from service.store.json_columns import dumps, loads
from service.store.tables import idle_courses, idle_rollups, nodes

VALUES_SECONDS = 30 * DAY
"""How long the values of signals are kept; the levels, which divide the costs, stay longer."""

ROLLUP_SECONDS = 400 * DAY

_COURSE = [part.name for part in fields(IdleCourse)]
_LIVE = select(nodes.c.id).where(
    nodes.c.project == bindparam("project"), nodes.c.ended_at.is_(None)
)
_VERSIONS = select(idle_courses.c.node_id, idle_courses.c.version).where(
    idle_courses.c.node_id.in_(_LIVE)
)
_SAVE = (
    update(idle_courses)
    .where(idle_courses.c.node_id == bindparam("of"), idle_courses.c.version == bindparam("over"))
    .values(
        {
            column.name: bindparam(column.name)
            for column in idle_courses.c
            if column.name != "node_id"
        }
    )
)


@dataclass(frozen=True, slots=True)
class _Stored:
    """`Signals` as a document: JSON keys cannot be pairs."""

    tracks: dict[str, SignalTrack]
    hosts: dict[int, Host]
    asked_at: int | None
    instances: dict[int, str]
    named_at: dict[int, int] = field(default_factory=dict)
    unread_since: int | None = None


@dataclass(frozen=True, slots=True)
class RestingNode:
    """A READY node that is proved idle, or of which that is unknown, without its signals. `told` is
    the action that was announced, `due_at` when it happens; None for no action."""

    node_id: str
    project: str
    name: str
    state: State
    since: int
    verdict: IdleVerdict | None
    told: Action | None
    due_at: int | None


_RESTING = select(
    *(nodes.c.id, idle_courses.c.project, nodes.c.name),
    *(idle_courses.c.state, idle_courses.c.since),
    *(idle_courses.c.verdict, idle_courses.c.told, idle_courses.c.due_at),
).where(
    nodes.c.id == idle_courses.c.node_id,
    nodes.c.attempt == idle_courses.c.incarnation,
    nodes.c.ended_at.is_(None),
    nodes.c.state == NodeState.READY,
    nodes.c.asked == Asked.PRESENT,
    idle_courses.c.state.in_([State.CANDIDATE, State.NOTIFIED, State.UNKNOWN]),
)


class IdleCourses:
    """The idle course of each node; one row for each, guarded by its version."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_by_project(
        self, project: str, known: Mapping[str, WatchedNode]
    ) -> Mapping[str, WatchedNode]:
        """The courses of all live nodes of a project, by node. Courses that are `known` in their
        current version are not read again."""
        rows = self._connection.execute(_VERSIONS, {"project": project}).all()
        found: dict[str, WatchedNode] = {}
        changed: list[str] = []
        for node_id, version in rows:
            before = known.get(node_id)
            if before is not None and before.course.version == version:
                found[node_id] = before
            else:
                changed.append(node_id)
        return found | self.find_many(changed)

    def find_many(self, ids: Iterable[str]) -> dict[str, WatchedNode]:
        """The courses of several nodes, by id; nodes that were never looked at are left out."""
        wanted, found = list(ids), dict[str, WatchedNode]()
        for first in range(0, len(wanted), 500):
            some = idle_courses.c.node_id.in_(wanted[first : first + 500])
            for row in self._connection.execute(select(*idle_courses.c).where(some)).mappings():
                found[row["node_id"]] = _from_row(row)
        return found

    def find_by_node(self, node_id: str) -> WatchedNode | None:
        """The course of a node, also after its end; None for a node that was never looked at."""
        statement = select(*idle_courses.c).where(idle_courses.c.node_id == node_id)
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else _from_row(row)

    def list_resting(self, projects: Iterable[str]) -> Sequence[RestingNode]:
        """The READY nodes of these projects that are proved idle, or unknown."""
        statement = _RESTING.where(idle_courses.c.project.in_(list(projects)))
        return [
            RestingNode(
                node_id=row.id,
                project=row.project,
                name=row.name,
                state=State(row.state),
                since=row.since,
                verdict=loads(row.verdict, IdleVerdict) if row.verdict else None,
                told=None if row.told is None else Action(row.told),
                due_at=row.due_at,
            )
            for row in self._connection.execute(statement)
        ]

    def save(self, watched: Iterable[WatchedNode]) -> Sequence[WatchedNode]:
        """Write courses over the versions that were read, 0 for new ones; returns them with their
        new versions. Raises StaleVersion if another transaction wrote any of them since."""
        before = list(watched)
        after = [
            replace(
                watched_node,
                course=replace(watched_node.course, version=watched_node.course.version + 1),
            )
            for watched_node in before
        ]
        new = [_to_row(watched_node) for watched_node in after if watched_node.course.version == 1]
        old = [
            {
                **_to_row(watched_node),
                "of": watched_node.course.node_id,
                "over": watched_node.course.version - 1,
            }
            for watched_node in after
            if watched_node.course.version > 1
        ]
        try:
            if new:
                self._connection.execute(insert(idle_courses), new)
        except IntegrityError as error:
            raise _stale_error() from error
        if old and self._connection.execute(_SAVE, old).rowcount != len(old):
            raise _stale_error()
        return after


def _stale_error() -> StaleVersion:
    return StaleVersion("the course of a node was changed by someone else just now")


def _to_row(node: WatchedNode) -> dict[str, Any]:
    course, signals = node.course, node.signals
    tracks = {f"{worker}:{kind}": track for (worker, kind), track in signals.tracks.items()}
    stored = _Stored(
        tracks,
        dict(signals.hosts),
        signals.asked_at,
        dict(signals.instances),
        dict(signals.named_at),
        signals.unread_since,
    )
    return {
        **{name: getattr(course, name) for name in _COURSE},
        "project": node.project,
        "verdict": "" if node.verdict is None else dumps(node.verdict),
        "judged_at": node.judged_at,
        "due_at": node.due_at,
        "signals": dumps(stored),
    }


def _from_row(row: RowMapping) -> WatchedNode:
    course = {name: row[name] for name in _COURSE}
    told = course["told"]
    stored = loads(row["signals"], _Stored)
    return WatchedNode(
        IdleCourse(
            **{
                **course,
                "state": State(course["state"]),
                "told": None if told is None else Action(told),
            }
        ),
        row["project"],
        Signals(
            {
                (int(worker), Kind(kind)): track
                for key, track in stored.tracks.items()
                for worker, _, kind in [key.partition(":")]
            },
            stored.hosts,
            stored.asked_at,
            stored.instances,
            stored.named_at,
            stored.unread_since,
        ),
        loads(row["verdict"], IdleVerdict) if row["verdict"] else None,
        row["judged_at"],
        row["due_at"],
    )


def count_slots(since: int) -> Select[Any]:
    """The statement for the busy and the idle slots of each node in the hours from `since` on."""

    def sum_of(letter: str) -> ColumnElement[Any]:
        rest = func.length(func.replace(idle_rollups.c.levels, letter, ""))
        return cast(func.sum(func.length(idle_rollups.c.levels) - rest), BigInteger)

    return (
        select(idle_rollups.c.node_id, sum_of(BUSY).label("busy"), sum_of(IDLE).label("idle"))
        .where(idle_rollups.c.hour >= since)
        .group_by(idle_rollups.c.node_id)
    )


class IdleRollups:
    """The activity of each node in each five minutes; one row for an hour."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_hours(
        self, ids: Iterable[str], start: int, end: int
    ) -> Mapping[str, Sequence[ActivityHour]]:
        """The hours of nodes that overlap [start, end), in order."""
        wanted, found = list(ids), dict[str, list[ActivityHour]]()
        for first in range(0, len(wanted), 500):
            statement = (
                select(*idle_rollups.c)
                .where(idle_rollups.c.node_id.in_(wanted[first : first + 500]))
                .where(idle_rollups.c.hour > start - HOUR, idle_rollups.c.hour < end)
                .order_by(idle_rollups.c.hour, idle_rollups.c.incarnation)
            )
            for row in self._connection.execute(statement):
                values = loads(row.values, dict[Kind, list[float | None]])
                hour = ActivityHour(row.node_id, row.incarnation, row.hour, row.levels, values)
                found.setdefault(row.node_id, []).append(hour)
        return found

    def count_slots(self, ids: Iterable[str], since: int) -> Mapping[str, tuple[int, int]]:
        """The busy and the idle slots of nodes in the hours from `since` on, by node. Nodes of
        which nothing is known are left out."""
        statement = count_slots(since).where(idle_rollups.c.node_id.in_(list(ids)))
        rows = self._connection.execute(statement).all()
        return {row.node_id: (row.busy, row.idle) for row in rows if row.busy + row.idle}

    def save(self, hours: Iterable[ActivityHour]) -> None:
        """Write hours, over the earlier rows of the same hours."""
        rows = [
            {
                "node_id": hour.node_id,
                "incarnation": hour.incarnation,
                "hour": hour.start,
                "levels": hour.levels,
                "values": dumps(hour.values),
            }
            for hour in hours
        ]
        if not rows:
            return
        is_sqlite = self._connection.dialect.name == "sqlite"
        writing = (sqlite_insert if is_sqlite else postgresql_insert)(idle_rollups)
        newer = {"levels": writing.excluded.levels, "values": writing.excluded["values"]}
        self._connection.execute(
            writing.on_conflict_do_update(
                index_elements=["node_id", "incarnation", "hour"], set_=newer
            ),
            rows,
        )

    def delete_old(self, now: int) -> None:
        """Delete values after 30 days, and rows after 400."""
        old = idle_rollups.c.hour < now - VALUES_SECONDS
        self._connection.execute(
            update(idle_rollups)
            .where(old, idle_rollups.c["values"] != "{}")
            .values({"values": "{}"})
        )
        self._connection.execute(
            delete(idle_rollups).where(idle_rollups.c.hour < now - ROLLUP_SECONDS)
        )
