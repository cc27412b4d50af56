"""Migrates a database to the schema of this program."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Engine

from service.domain.errors import StoreUnavailable
from service.store.database_errors import translate_errors
from service.store.unit import Units

_PACKAGE = Path(__file__).resolve().parent.parent


def migrate(engine: Engine) -> None:
    """Apply the missing migrations, and renew stored views whose format changed."""
    config = _make_config()
    config.set_main_option(
        "sqlalchemy.url", engine.url.render_as_string(hide_password=False).replace("%", "%%")
    )
    try:
        with translate_errors():
            command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(f"the database is newer than this program: {error}") from error
    with Units(engine)() as unit:
        unit.nodes.renew_views()


def check_migrated(engine: Engine) -> None:
    """Raise StoreUnavailable with the remedy unless the database fits this program."""
    head = ScriptDirectory.from_config(_make_config()).get_current_head()
    with translate_errors(), engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    if found is None:
        raise StoreUnavailable("the database has no tables yet; run: tpu-steward migrate")
    if found != head:
        raise StoreUnavailable(
            f"the database is at {found}, this program needs {head}; run: tpu-steward migrate"
        )


def _make_config() -> Config:
    config = Config()
    # The migrations are inside the package if it is installed, and beside it in a checkout.
    inside = _PACKAGE / "migrations"
    scripts = inside if inside.is_dir() else _PACKAGE.parent / "migrations"
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("path_separator", "os")
    return config
