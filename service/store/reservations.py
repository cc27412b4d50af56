"""Reservations by the calendar, as their buyers wrote them down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from service.domain.errors import NotFound
from service.domain.metering.reservation import Reservation
from service.store.json_columns import dumps, loads
from service.store.tables import reservations

_COLUMN = {"start": "start_at", "end": "end_at"}
_FIELDS = tuple(Reservation.__dataclass_fields__)
_COLUMNS = [reservations.c[_COLUMN.get(name, name)] for name in _FIELDS]
_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward reservations ' || :project))")


class Reservations:
    """One row each; the only change is that it is withdrawn."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, one: Reservation) -> None:
        """Write down what was bought."""
        values = {_COLUMN.get(name, name): getattr(one, name) for name in _FIELDS}
        values["labels"] = dumps(dict(one.labels))
        self._connection.execute(insert(reservations).values(**values))

    def take_turns(self, project: str) -> None:
        """Let nobody else write one down for this project before this transaction is over: those
        that stand are looked through first. On SQLite all that write take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN, {"project": project})

    def withdraw(self, reservation_id: str, reason: str, now: int) -> bool:
        """Say of a record that it is wrong; answers whether it stood until now."""
        changed = self._connection.execute(
            update(reservations)
            .where(reservations.c.id == reservation_id, reservations.c.withdrawn_at.is_(None))
            .values(withdrawn_at=now, reason=reason)
        )
        return changed.rowcount == 1

    def get(self, reservation_id: str) -> Reservation:
        """One of them; raises NotFound."""
        statement = select(*_COLUMNS).where(reservations.c.id == reservation_id)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            raise NotFound(
                f"there is no reservation {reservation_id[:80]!r}; GET /v1/reservations lists them"
            )
        return _read(row)

    def all(self) -> Sequence[Reservation]:
        """Every one ever written down, the latest to begin first."""
        statement = select(*_COLUMNS).order_by(
            reservations.c.start_at.desc(), reservations.c.id.desc()
        )
        return [_read(row) for row in self._connection.execute(statement)]

    def standing(self) -> Sequence[Reservation]:
        """Those that were not withdrawn."""
        return [one for one in self.all() if one.withdrawn_at is None]


def _read(row: Any) -> Reservation:
    values = dict(zip(_FIELDS, row, strict=True))
    return Reservation(**{**values, "labels": loads(values["labels"], dict[str, str])})
