"""Tests whether the database can be read and written, over a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import event

from service.domain.errors import StoreUnavailable
from service.store.database_errors import is_busy, translate_errors
from service.store.engine import make_engine
from service.store.unit import Units

BUSY_SECONDS = 30.0
"""How long the database may be too busy for a probe before it counts as unusable."""

_SQLITE = ("pragma busy_timeout=500",)
_POSTGRESQL = ("SET SESSION statement_timeout = '3s'", "SET SESSION lock_timeout = '500ms'")
"""A probe waits only briefly: its caller has little time, and writers go first."""

_LARGEST = 2**31 - 1
_TOUCH = "UPDATE alembic_version SET version_num = version_num"


class DatabaseProbe:
    """Reads and writes something cheap.

    Its one connection is not from the pool that requests use up. On SQLite each look opens the file
    again: an open connection keeps what it has read, and does not see damage.
    """

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._engine = make_engine(address, pool_size=1)
        self._units = Units(self._engine)
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._worked_at = clock()
        self._alone: Sequence[str] = []
        event.listen(self._engine, "connect", self._limit_waits)

    def check_usable(self, projects: Sequence[str]) -> Sequence[str]:
        """The projects that no daemon looks after now. Raises StoreUnavailable with the reason if
        the database cannot be read or written.

        While other writers block the database for a short time, the last answer stands.
        """
        try:
            with self._units.reading() as unit:
                unit.prices.count_rows()
                unit.nodes.list_due("", 0, 1)
                found = [project for project in projects if not unit.leases.read_sight(project)[1]]
            # Write and commit, without waiting for a turn, which may take long.
            with translate_errors(), self._engine.begin() as connection:
                if self._is_sqlite:  # a row that is set to its own value would not be written
                    number: int = connection.exec_driver_sql("pragma user_version").scalar_one()
                    connection.exec_driver_sql(f"pragma user_version={(number + 1) % _LARGEST}")
                else:
                    connection.exec_driver_sql(_TOUCH)
        except StoreUnavailable as error:
            if not is_busy(error) or self._clock() - self._worked_at >= BUSY_SECONDS:
                raise
            return self._alone
        finally:
            if self._is_sqlite:
                self._engine.dispose()
        self._alone, self._worked_at = found, self._clock()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def _limit_waits(self, connection: Any, _record: object) -> None:
        if self._is_sqlite:
            for statement in _SQLITE:
                connection.execute(statement)
            return
        connection.autocommit = True  # else a rollback would undo it
        for statement in _POSTGRESQL:
            connection.execute(statement)
        connection.autocommit = False
