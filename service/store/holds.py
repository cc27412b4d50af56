"""Holds: what is set aside for nodes that have not ended, and what the ledger holds beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    ScalarSelect,
    Select,
    Table,
    and_,
    bindparam,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from service.domain.budgets.admission import Hold
from service.domain.budgets.budget import Scope
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.money import MAX_NANOS
from service.domain.nodes.node import Asked
from service.domain.time_window import Window
from service.store.attributions import attributed
from service.store.json_columns import dumps
from service.store.tables import attributions, daily_costs, holds, ledger, node_days, nodes, usage


def _unposted(node_id: ColumnElement[str]) -> ScalarSelect[int]:
    """Where the part of a node's usage begins that the ledger does not hold yet."""
    is_open = or_(usage.c.end_at.is_(None), usage.c.dirty)
    statement = select(func.min(usage.c.posted_until)).where(usage.c.node_id == node_id, is_open)
    return statement.scalar_subquery()


_HOLD = (
    nodes.c.id,
    holds.c.rate_nanos,
    holds.c.ttl_seconds,
    nodes.c.asked,
    nodes.c.state,
    nodes.c.ready_at,
    _unposted(nodes.c.id),
    holds.c.placed_at,
)
_LATELY = select(attributions.c.node_id).where(
    attributions.c.since > 0, attributions.c.since > bindparam("lately", type_=BigInteger)
)
_ANY_LATELY = _LATELY.limit(1)
_ASKED = {one.value: one for one in Asked}
_SAID = ("project", "team", "owner", "job")


def _upsert(statement: sqlite.Insert | postgresql.Insert) -> Executable:
    new = {name: statement.excluded[name] for name in ("rate_nanos", "ttl_seconds", "placed_at")}
    return statement.on_conflict_do_update(index_elements=["node_id"], set_=new)


_PLACE: Mapping[str, Executable] = {
    "sqlite": _upsert(sqlite.insert(holds)),
    "postgresql": _upsert(postgresql.insert(holds)),
}


class Holds:
    """One row for each node that was asked for; it counts until the node has ended."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def place(self, hold: Hold, now: int) -> None:
        """Set aside what a node may cost, in place of what was set aside for it before."""
        rate = None if hold.rate is None else min(hold.rate, MAX_NANOS)
        values = {
            "node_id": hold.node_id,
            "rate_nanos": rate,
            "ttl_seconds": hold.ttl,
            "placed_at": now,
        }
        self._connection.execute(_PLACE[self._connection.dialect.name], values)

    def raise_rate(self, node_id: str, rate: int) -> None:
        """Set aside at least `rate` nano-dollars an hour for a node. Its time to live stays as it
        is stored, whoever changes that meanwhile."""
        is_lower = or_(holds.c.rate_nanos.is_(None), holds.c.rate_nanos < rate)
        self._connection.execute(
            update(holds)
            .where(holds.c.node_id == node_id, is_lower)
            .values(rate_nanos=min(rate, MAX_NANOS))
        )

    def open(self, scopes: Sequence[Scope]) -> Sequence[tuple[Hold, tuple[bool, ...], bool]]:
        """Those that count in any of the scopes: the hold, whether it does in each, and whether it
        was ever placed; for one that was not, rate and time to live are not known here."""
        conditions = [_of_node(scope) for scope in scopes]
        return self._read(select(*_HOLD, *conditions), or_(*conditions))

    def _read(
        self, columns: Select[Any], condition: ColumnElement[bool]
    ) -> Sequence[tuple[Hold, tuple[bool, ...], bool]]:
        statement = columns.select_from(
            nodes.outerjoin(holds, holds.c.node_id == nodes.c.id)
        ).where(nodes.c.ended_at.is_(None), condition)
        return [
            (
                Hold(row[0], row[1], row[2], _ASKED[row[3]], row[4], row[5], row[6]),
                tuple(row[8:]),
                row[7] is not None,
            )
            for row in self._connection.execute(statement).all()  # a third of the time it takes
        ]

    def moved(self, since: int) -> Sequence[tuple[Hold, tuple[bool, ...], bool]]:
        """Those of nodes that are charged to somebody else since then, and of which somebody before
        owes what is not posted yet, as `open` answers them."""
        if self._connection.execute(_ANY_LATELY, {"lately": since}).first() is None:
            return ()  # as nearly always, and it is asked before each node
        later = _LATELY.where(attributions.c.since > _unposted(attributions.c.node_id))
        return self._read(select(*_HOLD), nodes.c.id.in_(later.params(lately=since)))

    def placed(self, project: str) -> Sequence[Hold]:
        """Those of a project that were placed and count."""
        return [hold for hold, _, placed in self.open([Scope(project=project)]) if placed]

    def posted(self, scope: Scope, window: Window) -> int:
        """Nano-dollars that the ledger holds for a window. The hour in which it begins counts as a
        whole where a time zone cuts it: that can only say too much."""
        first, last = -(-window.start // DAY) * DAY, floor_to(window.end, DAY)
        if first >= last:
            return self._sum([_hours(scope, floor_to(window.start, HOUR), window.end)])
        parts = [_days(scope, first, last)]
        if window.start < first:
            parts.append(_hours(scope, floor_to(window.start, HOUR), first))
        if last < window.end:
            parts.append(_hours(scope, last, window.end))
        return self._sum(parts)

    def _sum(self, parts: Sequence[Select[Any]]) -> int:
        """What all of them come to, in one question."""
        statement = select(*(part.scalar_subquery() for part in parts))
        return sum(int(one or 0) for one in self._connection.execute(statement).one())


def _of_node(scope: Scope) -> ColumnElement[bool]:
    """Whether a node counts, as it is charged now."""
    pairs = (
        (nodes.c.project, scope.project),
        (nodes.c.payer_team, scope.team),
        (nodes.c.payer_owner, scope.owner),
        (nodes.c.payer_job, scope.job),
    )
    found = [column == value for column, value in pairs if value is not None]
    if scope.label is not None:
        found.append(_mentions(nodes.c.payer_labels, scope.label))
    return and_(literal(value=True), *found)


def _days(scope: Scope, start: int, end: int) -> Select[Any]:
    """By the rollup; the finer one where a label has to be looked at."""
    table = daily_costs if scope.label is None else node_days
    within = table.c.day >= start, table.c.day < end
    if scope.label is None:
        return _summed(scope, table, table, table).where(*within)
    of_people = any(getattr(scope, name) is not None for name in _SAID if name != "project")
    source = attributed(table) if of_people else table
    labelled = _mentions(table.c.labels, scope.label)
    return _summed(scope, table, source, attributions).where(*within, labelled)


def _hours(scope: Scope, start: int, end: int) -> Select[Any]:
    within = ledger.c.hour >= start, ledger.c.hour < end
    if scope.label is None:
        return _summed(scope, ledger, ledger, ledger).where(*within)
    labelled = _mentions(attributions.c.labels, scope.label)
    return _summed(scope, ledger, attributed(ledger), ledger).where(*within, labelled)


def _summed(scope: Scope, table: Table, source: FromClause, who: Table) -> Select[Any]:
    statement = select(func.sum(table.c.amount_nanos)).select_from(source)
    for name in _SAID:
        value = getattr(scope, name)
        if value is not None:
            of = table if name == "project" else who
            statement = statement.where(of.c[name] == value)
    return statement


def _mentions(labels: ColumnElement[str], label: tuple[str, str]) -> ColumnElement[bool]:
    """Labels are kept as one JSON text in which a pair is always spelled the same."""
    key, value = label
    return _Holding(labels, literal(f"{dumps(key)}:{dumps(value)}"))


class _Holding(FunctionElement[bool]):
    """Whether a text holds another, letter by letter: LIKE is slower, and on SQLite it takes small
    letters for capital ones."""

    type = Boolean()
    inherit_cache = True


@compiles(_Holding, "sqlite")
def _on_sqlite(element: _Holding, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)}) > 0"


@compiles(_Holding, "postgresql")
def _on_postgresql(element: _Holding, compiler: SQLCompiler, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)}) > 0"
