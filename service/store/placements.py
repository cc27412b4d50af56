"""Placements: every attempt to create a node in a zone, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, text, update

from service.domain.nodes.node import Slice
from service.domain.nodes.ownership import is_sent_twice
from service.domain.nodes.placement import Outcome, Placement
from service.domain.placement.cooldown import WINDOW_SECONDS
from service.store.json_columns import dumps, loads
from service.store.tables import nodes, placements

MOST_RECENT = 500
"""The largest number of recent attempts that are considered. A burst of failures counts by its end.
Hardware whose failures are older than these attempts is tried again, once."""

_COLUMNS = [placements.c[field.name] for field in fields(Placement)]
_OUTCOME = [field.name for field in fields(Placement)].index("outcome")
_OF_NODE = (
    select(*_COLUMNS)
    .where(placements.c.node_id == bindparam("node"))
    .order_by(placements.c.attempt)
)
_RECENT = (
    select(*_COLUMNS)
    .where(placements.c.project == bindparam("project"), placements.c.model == bindparam("model"))
    .where(placements.c.started_at > bindparam("since"))
    .order_by(placements.c.started_at.desc())
    .limit(MOST_RECENT)
)
_SEEN = select(
    nodes.c.cloud_uid, nodes.c.slices_seen, nodes.c.sent_at, nodes.c.unanswered_at
).where(nodes.c.id == bindparam("id"), nodes.c.attempt == bindparam("attempt"))
_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward placing ' || :project))")


class Placements:
    """Attempts by node, in order, and the last attempts of a project."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, placement: Placement) -> None:
        """Write an attempt before it is made."""
        self._connection.execute(insert(placements).values(**asdict(placement)))

    def end_attempt(
        self, node_id: str, attempt: int, outcome: Outcome, reason: str, at: int, scope: str = ""
    ) -> bool:
        """Write how an attempt ended; an outcome that is already written stays. Returns whether the
        outcome was new. `scope` is the region or zone of a refused quota."""
        # Save the uids of the attempt's nodes: a later resource with the same name and another uid
        # was made by others. If the create was sent twice, such a resource may be our own.
        row = self._connection.execute(_SEEN, {"id": node_id, "attempt": attempt}).one_or_none()
        if row is not None and not is_sent_twice(row.sent_at, row.unanswered_at):
            slices = loads(row.slices_seen, tuple[Slice, ...])
            uids = [slice_.cloud_uid for slice_ in slices] or [row.cloud_uid]
            if any(uids):
                self._connection.execute(
                    update(placements)
                    .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
                    .values(cloud_uids=dumps(uids))
                )
        ended = self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.ended_at.is_(None))
            .values(outcome=outcome, reason=reason, ended_at=at, scope=scope)
        )
        return ended.rowcount > 0

    def save_ready(self, node_id: str, attempt: int, at: int) -> None:
        """Write that an attempt became READY, and when."""
        self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.outcome == Outcome.OPEN)
            .values(outcome=Outcome.READY, ready_at=at)
        )

    def list_by_node(self, node_id: str) -> tuple[Placement, ...]:
        """The attempts of a node, first to last."""
        return tuple(map(_from_row, self._connection.execute(_OF_NODE, {"node": node_id})))

    def lock_until_commit(self, project: str) -> None:
        """Lock the placements of a project until the commit, so that two transactions do not choose
        the same hardware. SQLite has one writer at a time anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN, {"project": project})

    def list_recent(self, project: str, model: str, now: int) -> Sequence[Placement]:
        """The last attempts of a project with one provisioning model, as far back as they
        matter."""
        values = {"project": project, "model": model, "since": now - WINDOW_SECONDS}
        return list(map(_from_row, self._connection.execute(_RECENT, values)))


def _from_row(row: Any) -> Placement:
    values = list(row)
    values[_OUTCOME] = Outcome(values[_OUTCOME])
    return Placement(*values)
