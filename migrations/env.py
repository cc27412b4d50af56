"""Runs the migrations on the engine that the program itself uses."""

from __future__ import annotations

from alembic import context

from service.store.engine import make_engine
from service.store.tables import metadata


def run() -> None:
    """Migrate in one transaction: a migration that fails leaves nothing behind."""
    address = context.config.get_main_option("sqlalchemy.url") or ""
    engine = make_engine(address)
    with engine.begin() as connection:
        context.configure(connection, target_metadata=metadata, render_as_batch=True)
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


run()
