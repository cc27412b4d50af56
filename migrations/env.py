"""Runs the migrations on an engine whose statements may take as long as they want."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from service.store.engine import make_engine
from service.store.tables import metadata

LOCK = "SELECT pg_advisory_xact_lock(hashtext('tpu-steward migrate'))"
"""SQLite's transactions begin by taking turns; PostgreSQL's must be told to."""


def run() -> None:
    """Migrate in one transaction: a migration that fails leaves nothing behind.

    Replicas that start at once wait for the first one, and find that nothing is left to do.
    """
    address = context.config.get_main_option("sqlalchemy.url") or ""
    engine = make_engine(address, is_patient=True, counts=False)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text(LOCK))
            context.configure(connection, target_metadata=metadata, render_as_batch=True)
            with context.begin_transaction():
                context.run_migrations()
    finally:
        engine.dispose()


run()
