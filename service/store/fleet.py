"""The fleet in numbers: how many nodes and chips, where, in which state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, cast, func, select

from service.domain.pricing import Sku
from service.store.tables import nodes, usage


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


class Fleet:
    """Counts over everything alive."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def counts(self) -> Sequence[FleetCount]:
        """Live nodes by state and by what people watch."""
        columns = (nodes.c.state, nodes.c.generation, nodes.c.model, nodes.c.zone, nodes.c.team)
        statement = (
            select(*columns, func.count(), cast(func.sum(nodes.c.chips), BigInteger))
            .where(nodes.c.ended_at.is_(None))
            .group_by(*columns)
            .order_by(*columns)
        )
        return [FleetCount(*row) for row in self._connection.execute(statement)]

    def running(self) -> Sequence[tuple[Sku, int, int]]:
        """(what is priced, nodes, chips) of everything that is billed now."""
        columns = (usage.c.generation, usage.c.model, usage.c.region, usage.c.single_device)
        statement = (
            select(*columns, func.count(), func.sum(usage.c.chips))
            .where(usage.c.end_at.is_(None))
            .group_by(*columns)
        )
        return [(Sku(*row[:4]), row[4], int(row[5])) for row in self._connection.execute(statement)]
