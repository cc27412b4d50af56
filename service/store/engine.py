"""Engines for SQLite and PostgreSQL, with real transactions on both."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.domain.clock import DAY
from service.domain.errors import StoreUnavailable
from service.store.revisions import count_writes

_PRAGMAS = ("journal_mode=wal", "busy_timeout=5000", "synchronous=normal", "foreign_keys=on")
_FOLDER_MODE, _FILE_MODE, _OTHERS = 0o700, 0o600, 0o077
_EPOCH = 2_440_587.5
"""The Julian day of 1970-01-01T00:00:00Z."""


def parse_url(text: str) -> URL:
    """The database's address; `postgresql://` means psycopg. Raises StoreUnavailable."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise StoreUnavailable(
            "STEWARD_DATABASE_URL is not a database address; write sqlite:///var/steward.db or"
            " postgresql://user:password@host/name"
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "postgresql+psycopg"):
        return url
    raise StoreUnavailable(f"{url.drivername} is not supported; use sqlite or postgresql")


CONNECTIONS = 16
"""Connections of one process: as many as it works on at once, so that no work waits for a
connection. The last used connection is used next, because its cache is the warmest."""


_SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "300s",
}
"""Limits of a PostgreSQL session: the database aborts what takes longer, so that a hanging session
releases its locks."""
_NETWORK = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A database that disappears silently is noticed within a minute."""


def make_engine(
    address: str,
    *,
    pool_size: int = CONNECTIONS,
    is_patient: bool = False,
    counts: bool = True,
) -> Engine:
    """An engine for the address. With `is_patient`, statements have no time limit. `counts` says
    that writes are counted, so that cached figures are computed again after them; a migration may
    write before the counters exist.

    SQLite's writers begin IMMEDIATE: a transaction that found out only at its first write that
    another one was faster would fail, whatever the timeout. Errors hide their parameters: errors
    are logged, and a parameter may be a secret.
    """
    url = parse_url(address)
    if url.get_backend_name() == "sqlite":
        engine = _make_sqlite_engine(url, pool_size)
    else:
        engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_use_lifo=True,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args=_NETWORK,
        )
        if not is_patient:
            event.listen(engine, "connect", _limit_session)
    if counts:
        count_writes(engine)
    return engine


def set_clock(engine: Engine, seconds: Callable[[], float]) -> None:
    """Replace the clock of an SQLite database in this process, for the connections opened from now
    on. `seconds` returns UTC seconds. Leases and timestamps of the database follow it."""

    def add_functions(connection: Any, _record: object) -> None:
        connection.create_function("strftime", 2, lambda *_: str(int(seconds())))
        connection.create_function("julianday", 1, lambda _: seconds() / DAY + _EPOCH)

    event.listen(engine, "connect", add_functions)


def _limit_session(connection: Any, _record: object) -> None:
    connection.autocommit = True  # else a rollback would undo it
    with connection.cursor() as cursor:
        for name, limit in _SESSION.items():
            cursor.execute(f"SET SESSION {name} = '{limit}'")
    connection.autocommit = False


def make_reading_engine(engine: Engine) -> Engine:
    """The same pool for transactions that only read, all of whose statements see one snapshot.

    On SQLite they do not wait for writers.
    """
    if engine.dialect.name == "sqlite":
        return engine.execution_options(sqlite_begin="DEFERRED")
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _make_sqlite_engine(url: URL, pool_size: int) -> Engine:
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        folder = Path(url.database).parent
        try:
            folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(
                f"the database's folder {folder} cannot be made: {error.strerror}"
            ) from None
        _keep_private(Path(url.database))
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={"check_same_thread": False},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_transaction)
    return engine


def _keep_private(file: Path) -> None:
    """Let only the owner read the database file: it has the secrets that sign webhooks.

    SQLite gives the files beside it the mode of the first. A file that cannot be created or changed
    is reported better when SQLite opens it. An existing file is not opened here: closing it would
    drop the locks that SQLite holds on it in this process, and another process would then remove
    the log that is still in use.
    """
    with suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE))
    for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        with suppress(OSError):
            mode = path.stat().st_mode
            if mode & _OTHERS:
                path.chmod(mode & ~_OTHERS & 0o777)


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    for pragma in _PRAGMAS:
        connection.execute(f"pragma {pragma}")


def _begin_transaction(connection: Any) -> None:
    mode = connection.get_execution_options().get("sqlite_begin", "IMMEDIATE")
    connection.exec_driver_sql(f"BEGIN {mode}")
