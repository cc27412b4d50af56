"""Observations of nodes: when a fact happened, when it was seen, and when it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, bindparam, insert, select

from service.store.tables import observations

_OF_NODE = (
    select(observations)
    .where(observations.c.node_id == bindparam("node"))
    .order_by(observations.c.id)
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One fact with its three times; `happened_at` is None if only the look is known."""

    node_id: str
    cloud_uid: str
    state: str
    happened_at: int | None
    observed_at: int
    recorded_at: int
    source: str


class Observations:
    """The facts behind every interval of usage. Append-only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, observation: Observation) -> None:
        """Write one fact."""
        self._connection.execute(insert(observations).values(**asdict(observation)))

    def list_by_node(self, node_id: str) -> Sequence[Observation]:
        """The facts about a node, in the order in which they were seen."""
        rows = self._connection.execute(_OF_NODE, {"node": node_id})
        return [Observation(*row[1:]) for row in rows]
