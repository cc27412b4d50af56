"""Placements: every attempt to get a node somewhere, and how it ended."""

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
"""Attempts that are looked back upon at most. A burst of them is told by its end; what falls out of
sight is taken for free and tried again, once."""

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
    """Attempts by node, in their order, and the last ones of a project."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, placement: Placement) -> None:
        """Write down an attempt before it is made."""
        self._connection.execute(insert(placements).values(**asdict(placement)))

    def end(
        self, node_id: str, attempt: int, outcome: Outcome, reason: str, at: int, scope: str = ""
    ) -> bool:
        """Write down how an attempt ended; what is already written stays. Answers whether it was
        news. `scope` is the region or zone for which a quota was refused."""
        self._identify(node_id, attempt)
        ended = self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.ended_at.is_(None))
            .values(outcome=outcome, reason=reason, ended_at=at, scope=scope)
        )
        return ended.rowcount > 0

    def _identify(self, node_id: str, attempt: int) -> None:
        """Keep by which uids its nodes were known: what bears its name and another uid later was
        made by somebody else. Where its create was sent twice, that may be our own, and none is
        kept."""
        row = self._connection.execute(_SEEN, {"id": node_id, "attempt": attempt}).one_or_none()
        if row is None or is_sent_twice(row.sent_at, row.unanswered_at):
            return
        slices = loads(row.slices_seen, tuple[Slice, ...])
        uids = [one.cloud_uid for one in slices] or [row.cloud_uid]
        if any(uids):
            self._connection.execute(
                update(placements)
                .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
                .values(cloud_uids=dumps(uids))
            )

    def came_up(self, node_id: str, attempt: int, at: int) -> None:
        """Write down that an attempt led to READY, and when."""
        self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.outcome == Outcome.OPEN)
            .values(outcome=Outcome.READY, ready_at=at)
        )

    def of(self, node_id: str) -> tuple[Placement, ...]:
        """The attempts of a node, first to last."""
        return tuple(map(_read, self._connection.execute(_OF_NODE, {"node": node_id})))

    def take_turns(self, project: str) -> None:
        """Let nobody else choose a place for this project before this transaction is over, so that
        two do not take the same chance. On SQLite all that write take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN, {"project": project})

    def recent(self, project: str, model: str, now: int) -> Sequence[Placement]:
        """The last attempts of a project by one provisioning model, as far back as they matter."""
        values = {"project": project, "model": model, "since": now - WINDOW_SECONDS}
        return list(map(_read, self._connection.execute(_RECENT, values)))


def _read(row: Any) -> Placement:
    values = list(row)
    values[_OUTCOME] = Outcome(values[_OUTCOME])
    return Placement(*values)
