"""Calendar reservations, as their buyers recorded them."""

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
    """One row each; the only change is the withdrawal."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, reservation: Reservation) -> None:
        """Record a reservation."""
        values = {_COLUMN.get(name, name): getattr(reservation, name) for name in _FIELDS}
        values["labels"] = dumps(dict(reservation.labels))
        self._connection.execute(insert(reservations).values(**values))

    def lock_until_commit(self, project: str) -> None:
        """Let no other transaction record a reservation for this project before the end of this
        one: the existing records are read first. On SQLite all writers take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN, {"project": project})

    def withdraw(self, reservation_id: str, reason: str, now: int) -> bool:
        """Withdraw a record; returns whether it was not withdrawn before."""
        changed = self._connection.execute(
            update(reservations)
            .where(reservations.c.id == reservation_id, reservations.c.withdrawn_at.is_(None))
            .values(withdrawn_at=now, reason=reason)
        )
        return changed.rowcount == 1

    def get(self, reservation_id: str) -> Reservation:
        """One reservation; raises NotFound."""
        statement = select(*_COLUMNS).where(reservations.c.id == reservation_id)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            raise NotFound(
                f"there is no reservation {reservation_id[:80]!r}; GET /v1/reservations lists them"
            )
        return _from_row(row)

    def list_all(self) -> Sequence[Reservation]:
        """Every reservation ever recorded, the latest to begin first."""
        statement = select(*_COLUMNS).order_by(
            reservations.c.start_at.desc(), reservations.c.id.desc()
        )
        return [_from_row(row) for row in self._connection.execute(statement)]

    def list_standing(self) -> Sequence[Reservation]:
        """The reservations that were not withdrawn."""
        return [record for record in self.list_all() if record.withdrawn_at is None]


def _from_row(row: Any) -> Reservation:
    values = dict(zip(_FIELDS, row, strict=True))
    return Reservation(**{**values, "labels": loads(values["labels"], dict[str, str])})
