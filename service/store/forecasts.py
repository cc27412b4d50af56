"""Forecasts: what was said on each day of a period, and after it what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.time_window import Window
from service.store.tables import forecasts


class Forecasts:
    """At most one row for each scope, period and UTC day."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, snapshots: Iterable[Snapshot]) -> None:
        """Write down what was forecast; what was said before on the same day stays."""
        rows = list(map(_row, snapshots))
        if not rows:
            return
        sqlite = self._connection.dialect.name == "sqlite"
        statement = (sqlite_insert if sqlite else postgresql_insert)(forecasts)
        self._connection.execute(statement.on_conflict_do_nothing(), rows)

    def taken(self, day: int) -> bool:
        """Whether it was written down on that UTC day."""
        statement = select(forecasts.c.day).where(forecasts.c.day == day).limit(1)
        return self._connection.execute(statement).first() is not None

    def of(self, window: Window, scope: str | None = None) -> Sequence[Snapshot]:
        """What was said of a period, of one scope or of all, in the order of scopes and days."""
        statement = (
            select(forecasts)
            .where(forecasts.c.start_at == window.start, forecasts.c.end_at == window.end)
            .order_by(forecasts.c.scope, forecasts.c.day)
        )
        if scope is not None:
            statement = statement.where(forecasts.c.scope == scope)
        return [_read(row) for row in self._connection.execute(statement)]

    def score(self, snapshot: Snapshot, actual: int, now: int) -> None:
        """Write down what it came to, as far as is known now."""
        self._connection.execute(
            update(forecasts)
            .where(
                forecasts.c.scope == snapshot.scope,
                forecasts.c.start_at == snapshot.window.start,
                forecasts.c.day == snapshot.day,
            )
            .values(actual_nanos=actual, scored_at=now)
        )


def _row(one: Snapshot) -> dict[str, Any]:
    return {
        "scope": one.scope,
        "start_at": one.window.start,
        "day": one.day,
        "end_at": one.window.end,
        "made_at": one.made_at,
        "low_nanos": one.band.low,
        "mid_nanos": one.band.mid,
        "high_nanos": one.band.high,
        "method": one.method,
        "actual_nanos": one.actual,
        "scored_at": one.scored_at,
    }


def _read(row: Any) -> Snapshot:
    return Snapshot(
        scope=row.scope,
        window=Window(row.start_at, row.end_at),
        day=row.day,
        made_at=row.made_at,
        band=Band(row.low_nanos, row.mid_nanos, row.high_nanos),
        method=Method(row.method),
        actual=row.actual_nanos,
        scored_at=row.scored_at,
    )
