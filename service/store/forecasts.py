"""Forecasts as they were made on each day of a period, and the actual cost after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        """Write forecasts; an earlier forecast of the same day stays."""
        rows = [
            {
                "scope": snapshot.scope,
                "start_at": snapshot.window.start,
                "day": snapshot.day,
                "end_at": snapshot.window.end,
                "made_at": snapshot.made_at,
                "low_nanos": snapshot.band.low,
                "mid_nanos": snapshot.band.mid,
                "high_nanos": snapshot.band.high,
                "method": snapshot.method,
                "actual_nanos": snapshot.actual,
                "scored_at": snapshot.scored_at,
            }
            for snapshot in snapshots
        ]
        if not rows:
            return
        sqlite = self._connection.dialect.name == "sqlite"
        statement = (sqlite_insert if sqlite else postgresql_insert)(forecasts)
        self._connection.execute(statement.on_conflict_do_nothing(), rows)

    def has_day(self, day: int) -> bool:
        """Whether forecasts were written on that UTC day."""
        statement = select(forecasts.c.day).where(forecasts.c.day == day).limit(1)
        return self._connection.execute(statement).first() is not None

    def list_by_window(self, window: Window, scope: str | None = None) -> Sequence[Snapshot]:
        """The forecasts of a period, of one scope or of all, by scope and day."""
        statement = (
            select(forecasts)
            .where(forecasts.c.start_at == window.start, forecasts.c.end_at == window.end)
            .order_by(forecasts.c.scope, forecasts.c.day)
        )
        if scope is not None:
            statement = statement.where(forecasts.c.scope == scope)
        return [
            Snapshot(
                scope=row.scope,
                window=Window(row.start_at, row.end_at),
                day=row.day,
                made_at=row.made_at,
                band=Band(row.low_nanos, row.mid_nanos, row.high_nanos),
                method=Method(row.method),
                actual=row.actual_nanos,
                scored_at=row.scored_at,
            )
            for row in self._connection.execute(statement)
        ]

    def save_actual(self, snapshot: Snapshot, actual: int, now: int) -> None:
        """Write the actual cost, as far as it is known now."""
        self._connection.execute(
            update(forecasts)
            .where(
                forecasts.c.scope == snapshot.scope,
                forecasts.c.start_at == snapshot.window.start,
                forecasts.c.day == snapshot.day,
            )
            .values(actual_nanos=actual, scored_at=now)
        )
