"""Events: the history of every node. Append-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from service.domain.event import Event
from service.store.json_columns import dumps, loads
from service.store.tables import events, nodes


class Events:
    """Sentences about nodes, numbered in the order of writing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, *told: Event) -> None:
        """Write events."""
        for event in told:
            self._connection.execute(
                insert(events).values(
                    node_id=event.node_id,
                    at=event.at,
                    kind=event.kind,
                    message=event.message,
                    actor=event.actor,
                    facts=dumps(event.facts),
                )
            )

    def list_by_node(self, node_id: str, after: int, limit: int) -> Sequence[tuple[int, Event]]:
        """(number, event) of a node with numbers above `after`, oldest first."""
        statement = (
            select(events)
            .where(events.c.node_id == node_id, events.c.id > after)
            .order_by(events.c.id)
            .limit(limit)
        )
        return [(row.id, _from_row(row)) for row in self._connection.execute(statement)]

    def list_newest(
        self, node_id: str, before: int | None, limit: int
    ) -> Sequence[tuple[int, Event]]:
        """(number, event) of a node with numbers below `before`, newest first; the newest of all
        if `before` is None."""
        statement = select(events).where(events.c.node_id == node_id)
        if before is not None:
            statement = statement.where(events.c.id < before)
        statement = statement.order_by(events.c.id.desc()).limit(limit)
        return [(row.id, _from_row(row)) for row in self._connection.execute(statement)]

    def list_latest(self, kinds: Sequence[str], limit: int) -> Sequence[tuple[str, Event]]:
        """(name of the node, event) of the latest events of these kinds, newest first. The name is
        empty where no node is recorded, as for an orphan."""
        statement = (
            select(events, nodes.c.name)
            .join_from(events, nodes, nodes.c.id == events.c.node_id, isouter=True)
            .where(events.c.kind.in_(kinds))
            .order_by(events.c.id.desc())
            .limit(limit)
        )
        return [(row.name or "", _from_row(row)) for row in self._connection.execute(statement)]

    def count_before(self, node_id: str, number: int) -> int:
        """The number of events of a node with numbers below `number`."""
        statement = (
            select(func.count())
            .select_from(events)
            .where(events.c.node_id == node_id, events.c.id < number)
        )
        return self._connection.execute(statement).scalar_one()

    def list_by_kind(self, node_id: str, kind: str, since: int) -> Sequence[Event]:
        """The events of a kind that happened to a node since an instant, oldest first."""
        statement = (
            select(events)
            .where(events.c.node_id == node_id, events.c.kind == kind, events.c.at >= since)
            .order_by(events.c.id)
        )
        return list(map(_from_row, self._connection.execute(statement)))


def _from_row(row: Any) -> Event:
    return Event(
        row.node_id, row.at, row.kind, row.message, row.actor, loads(row.facts, dict[str, object])
    )
