"""`migrate`: upgrades the database schema."""

from __future__ import annotations

import typer

from service.cli.terminal import configuration
from service.domain.errors import StoreUnavailable


def migrate() -> None:
    """Upgrade the database schema."""
    typer.echo(apply_migrations(configuration.load_settings().database_url))


def apply_migrations(database_url: str) -> str:
    """Apply the missing migrations. Returns the result in one line; raises StoreUnavailable."""
    from service.store.engine import make_engine  # noqa: PLC0415 - costs what others need not pay
    from service.store.migrate import check_migrated  # noqa: PLC0415 - likewise
    from service.store.migrate import migrate as bring_up  # noqa: PLC0415 - likewise

    engine = make_engine(database_url, is_patient=True)
    shown = engine.url.render_as_string(hide_password=True)
    try:
        check_migrated(engine)
        done = "has all its tables already"
    except StoreUnavailable:
        done = "is up to date now"
    try:
        bring_up(engine)
    finally:
        engine.dispose()
    return f"{shown} {done}"
