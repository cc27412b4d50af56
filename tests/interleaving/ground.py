"""The PostgreSQL database of this process: made once, and emptied before each run."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from sqlalchemy import Engine, event

from service.store.engine import make_engine
from tests.databases import fresh_database

_EMPTY = """
DO $$
DECLARE
    one text;
    is_written boolean;
BEGIN
    FOR one IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', one) INTO is_written;
        IF is_written THEN
            EXECUTE format('TRUNCATE %I RESTART IDENTITY CASCADE', one);
        END IF;
    END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I RESTART', one);
    END LOOP;
END $$"""
"""Only what was written: to truncate a table makes new files for it and for each of its indexes.
It is not deleted instead, as in `tests.databases`: what stays in the files of a table could change
the order in which a run finds its rows."""


class Ground:
    """A migrated database that finds deadlocks at once, and a connection beside the engine."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(TemporaryDirectory()))
        address = self._stack.enter_context(fresh_database("postgresql", folder))
        self.engine = _make_engine(address)
        self._stack.callback(self.engine.dispose)
        self._beside = self._stack.enter_context(psycopg.connect(address, autocommit=True))
        # the triggers that refuse to empty a table are of no use here
        self._beside.execute("SET session_replication_role = replica")
        self._asking = threading.Lock()

    def ask(self, statement: Any, *parameters: object) -> list[Any]:
        """What the database answers outside of all transactions, seen by no stage."""
        with self._asking:
            return self._beside.execute(statement, parameters).fetchall()

    def empty(self) -> None:
        """Come back to the state after the migration."""
        with self._asking:
            self._beside.execute(_EMPTY)

    def close(self) -> None:
        """Drop the database, once."""
        self._stack.close()


def _make_engine(address: str) -> Engine:
    engine = make_engine(address, pool_size=64)
    engine.pool._pre_ping = False  # nobody takes a connection away

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: object) -> None:
        connection.autocommit = True
        connection.execute("set deadlock_timeout = '20ms'")
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.autocommit = False

    return engine


_grounds: list[Ground] = []


def _make_ground() -> Ground:
    ground = Ground()
    _grounds.append(ground)
    atexit.register(ground.close)  # the server has begun by now, so it ends after that
    return ground


@contextmanager
def empty_ground() -> Iterator[Ground]:
    """The emptied database. Whoever failed in it may have left threads that wait within a
    transaction, so the next one gets another database."""
    ground = _grounds[0] if _grounds else _make_ground()
    ground.empty()
    try:
        yield ground
    except BaseException:
        _grounds.remove(ground)
        ground.close()
        raise
