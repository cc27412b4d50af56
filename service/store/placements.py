"""Placements: every attempt to get a node somewhere, and how it ended."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from service.domain.placement import Outcome, Placement
from service.store.tables import placements


class Placements:
    """Attempts by node, in their order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, placement: Placement) -> None:
        """Write down an attempt before it is made."""
        self._connection.execute(
            insert(placements).values(
                node_id=placement.node_id,
                attempt=placement.attempt,
                zone=placement.zone,
                model=placement.model,
                cloud_id=placement.cloud_id,
                started_at=placement.started_at,
                outcome=placement.outcome,
                reason=placement.reason,
                ended_at=placement.ended_at,
            )
        )

    def end(self, node_id: str, attempt: int, outcome: Outcome, reason: str, at: int) -> bool:
        """Write down how an attempt ended; what is already written stays. Answers whether it was
        news."""
        ended = self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.ended_at.is_(None))
            .values(outcome=outcome, reason=reason, ended_at=at)
        )
        return ended.rowcount > 0

    def came_up(self, node_id: str, attempt: int) -> None:
        """Write down that an attempt led to READY."""
        self._connection.execute(
            update(placements)
            .where(placements.c.node_id == node_id, placements.c.attempt == attempt)
            .where(placements.c.outcome == Outcome.OPEN)
            .values(outcome=Outcome.READY)
        )

    def of(self, node_id: str) -> tuple[Placement, ...]:
        """The attempts of a node, first to last."""
        statement = (
            select(placements).where(placements.c.node_id == node_id).order_by(placements.c.attempt)
        )
        return tuple(
            Placement(**{**row, "outcome": Outcome(row["outcome"])})
            for row in self._connection.execute(statement).mappings()
        )
