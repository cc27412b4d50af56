"""Attributions: who is charged for each node, from when on. Append-only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    FromClause,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    insert,
    literal_column,
    or_,
    select,
    union_all,
)

from service.domain.budgets.budget import Payer, payer_under
from service.domain.metering.attribution import Attribution
from service.domain.nodes.node import Node
from service.store.json_columns import dumps, loads
from service.store.tables import attributions, usage

_FIELDS = ("node_id", "since", "owner", "team", "job", "labels")
_COLUMNS = [attributions.c[name] for name in _FIELDS]
_OF_NODE = (
    select(*_COLUMNS)
    .where(attributions.c.node_id == bindparam("node"))
    .order_by(attributions.c.since)
)


def join_attributions(table: Table, *, outer: bool = False) -> FromClause:
    """The rows of a table with a node and a segment, each joined with that segment; rows without
    one too if `outer`."""
    mine = and_(attributions.c.node_id == table.c.node_id, attributions.c.since == table.c.since)
    return table.join(attributions, mine, isouter=outer)


class Attributions:
    """Segments by node. The first segment begins with the node, so that every node has one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, attribution: Attribution, now: int) -> None:
        """Write who is charged for a node from `one.since` on."""
        values = {name: getattr(attribution, name) for name in _FIELDS}
        values |= {"labels": dumps(dict(attribution.labels)), "recorded_at": now}
        self._connection.execute(insert(attributions).values(**values))

    def list_by_node(self, node_id: str) -> tuple[Attribution, ...]:
        """All segments of a node, first to last."""
        return tuple(map(_from_row, self._connection.execute(_OF_NODE, {"node": node_id})))

    def find_payer(self, node: Node) -> Payer:
        """Who pays for a node now."""
        return payer_under(node, self.list_by_node(node.id)[-1])

    def list_by_nodes(self, node_ids: Sequence[str]) -> Mapping[str, tuple[Attribution, ...]]:
        """The segments of several nodes, by node."""
        statement = select(*_COLUMNS).where(attributions.c.node_id.in_(node_ids))
        return self._group_by_node(statement)

    def list_running(self) -> Mapping[str, tuple[Attribution, ...]]:
        """The segments of every node that is billed now, and of every reservation."""
        bought = usage.c.start_evidence == literal_column("'purchase'")
        used = union_all(
            select(usage.c.node_id).where(usage.c.end_at.is_(None)),
            select(usage.c.node_id).where(bought),
        )
        return self._group_by_node(select(*_COLUMNS).where(attributions.c.node_id.in_(used)))

    def list_used_in(self, start: int, end: int) -> Mapping[str, tuple[Attribution, ...]]:
        """The segments of every node that was billed in [start, end)."""
        used = (
            select(usage.c.node_id)
            .where(usage.c.start_at < end)
            .where(or_(usage.c.end_at.is_(None), usage.c.end_at > start))
        )
        return self._group_by_node(select(*_COLUMNS).where(attributions.c.node_id.in_(used)))

    def find_labels(self, keys: Sequence[str]) -> Mapping[tuple[str, int], Mapping[str, str]]:
        """The labels of each segment that has one of these keys, by node and beginning."""
        columns = attributions.c
        mentions = or_(*(columns.labels.contains(dumps(key), autoescape=True) for key in keys))
        statement = select(columns.node_id, columns.since, columns.labels).where(mentions)
        return {
            (row.node_id, row.since): loads(row.labels, dict[str, str])
            for row in self._connection.execute(statement)
        }

    def _group_by_node(self, statement: Select[Any]) -> Mapping[str, tuple[Attribution, ...]]:
        found: dict[str, list[Attribution]] = defaultdict(list)
        ordered = statement.order_by(attributions.c.node_id, attributions.c.since)
        for row in self._connection.execute(ordered):
            found[row.node_id].append(_from_row(row))
        return {node_id: tuple(ones) for node_id, ones in found.items()}


def _from_row(row: Row[Any]) -> Attribution:
    values = dict(zip(_FIELDS, row, strict=True))
    return Attribution(**{**values, "labels": loads(values["labels"], dict[str, str])})
