"""Versions of usage: each version is kept, and the newest counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from service.domain.metering.meter import Usage
from service.store.tables import usage_versions

_OF_USAGE = {
    "start_at": "start",
    "start_hi": "start_hi",
    "start_evidence": "start_evidence",
    "end_at": "end",
    "end_lo": "end_lo",
    "end_evidence": "end_evidence",
    "free": "free",
}


@dataclass(frozen=True, slots=True)
class UsageVersion:
    """One version of a usage; instants are UTC seconds."""

    usage_id: str
    start_at: int
    start_hi: int
    start_evidence: str
    end_at: int | None
    end_lo: int | None
    end_evidence: str | None
    free: str
    recorded_at: int


_COLUMNS = [usage_versions.c[name] for name in UsageVersion.__dataclass_fields__]


class UsageVersions:
    """Versions by usage. Append-only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, usage: Usage, now: int) -> None:
        """Write the version that counts from now on."""
        values = {column: getattr(usage, name) for column, name in _OF_USAGE.items()}
        self._connection.execute(
            insert(usage_versions).values(usage_id=usage.id, recorded_at=now, **values)
        )

    def list_by_usage(self, usage_id: str) -> Sequence[UsageVersion]:
        """Every version, first to last."""
        statement = (
            select(*_COLUMNS)
            .where(usage_versions.c.usage_id == usage_id)
            .order_by(usage_versions.c.id)
        )
        return [UsageVersion(*row) for row in self._connection.execute(statement)]
