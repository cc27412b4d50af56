"""Revisions: numbers that grow with each commit that changes what figures depend on.

An answer that was computed at a revision is right while the revision is the same, in every
process and on every replica. The engine counts in the writing transaction, so that no writer can
forget to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Executable, Table, TextClause, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import UpdateBase

from service.store import tables

PARTS = 8
"""Rows that add up to a number: two writers wait for each other only if they add to the same row,
and then only for a commit."""


class Topic(StrEnum):
    """The tables that are counted together."""

    BOOKS = "books"
    """The ledger, its rollups, usage, who is charged, and prices."""

    NODES = "nodes"
    """Nodes, and what is set aside for them."""

    UPKEEP = "upkeep"
    """What is known of idle nodes, orphans and attempts, budgets with their alerts, and the
    recorded forecasts."""


class Revision(NamedTuple):
    """How often each topic was written, as one transaction sees it."""

    books: int
    nodes: int
    upkeep: int


_TABLES: Mapping[Topic, tuple[Table, ...]] = {
    Topic.BOOKS: (
        tables.ledger,
        tables.daily_costs,
        tables.node_days,
        tables.usage,
        tables.attributions,
        tables.prices,
        tables.discounts,
        tables.reservations,
        tables.commitments,
    ),
    Topic.NODES: (tables.nodes, tables.node_labels, tables.holds),
    Topic.UPKEEP: (
        tables.idle_courses,
        tables.idle_policies,
        tables.cleanups,
        tables.orphans,
        tables.forecasts,
        tables.budgets,
        tables.alerts,
        tables.placements,
    ),
}
_TOPICS_OF = {table.name: (topic,) for topic, some in _TABLES.items() for table in some}
_WRITES = re.compile(r"\s*(insert|update|delete|with|copy|truncate)\b", re.IGNORECASE)
_WRITTEN = "written_topics"
_ALL = select(tables.revisions.c.topic, func.sum(tables.revisions.c.number)).group_by(
    tables.revisions.c.topic
)


def _make_upsert(statement: sqlite.Insert | postgresql.Insert) -> Executable:
    return statement.on_conflict_do_update(
        index_elements=["topic", "part"], set_={"number": tables.revisions.c.number + 1}
    )


_ADD: Mapping[str, Executable] = {
    "sqlite": _make_upsert(sqlite.insert(tables.revisions)),
    "postgresql": _make_upsert(postgresql.insert(tables.revisions)),
}


class Revisions:
    """The numbers as of the current transaction."""

    def __init__(self, connection: Connection, *, writes: bool = True) -> None:
        self._connection = connection
        self._writes = writes

    def read_current(self) -> Revision:
        """How often each topic was written. Only a transaction that reads may ask: the writes of
        the transaction itself are not counted yet."""
        assert not self._writes, "a transaction that writes has no revision"
        found = {row[0]: int(row[1]) for row in self._connection.execute(_ALL)}
        return Revision(*(found.get(topic, 0) for topic in Topic))


def count_writes(engine: Engine) -> None:
    """Have every transaction of an engine count its writes."""

    def forget_topics(connection: Connection) -> None:
        # A connection that is lost took its notes with it. To ask for them would hide the error
        # that tells of the loss.
        if not connection.invalidated:
            connection.info.pop(_WRITTEN, None)

    event.listen(engine, "after_execute", _note_topics)
    event.listen(engine, "commit", _count_written)
    event.listen(engine, "rollback", forget_topics)


def _note_topics(connection: Connection, statement: Any, *_: Any) -> None:
    """Note the topics that a statement may change."""
    topics: Iterable[Topic] = ()
    if isinstance(statement, UpdateBase):
        topics = _TOPICS_OF.get(statement.entity_description["table"].name, ())
    elif isinstance(statement, TextClause) and _WRITES.match(str(statement)):
        topics = Topic if any(name in str(statement) for name in _TOPICS_OF) else ()
    if topics:
        connection.info.setdefault(_WRITTEN, set()).update(topics)


def _count_written(connection: Connection) -> None:
    """Add to the numbers at the end of the transaction, and always in the same order: these rows
    are locked only until the commit, and no two transactions deadlock."""
    written = connection.info.pop(_WRITTEN, ())
    part = random.randrange(PARTS)  # noqa: S311 - any part will do
    for topic in sorted(written):
        values = {"topic": topic, "part": part, "number": 1}
        connection.execute(_ADD[connection.dialect.name], values)
