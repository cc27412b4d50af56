"""prices and reservations stay."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"

_KEPT = (
    "id",
    "name",
    "project",
    "zone",
    "generation",
    "chips",
    "start_at",
    "end_at",
    "owner",
    "team",
    "labels",
    "recorded_at",
    "recorded_by",
)
"""What was said of a reservation when it was written down."""

_PRICES = "the table prices is only added to"
_RESERVATIONS = "the table reservations is only added to; each row may be withdrawn, once"

_OTHER = " OR ".join(f"NEW.{name} <> OLD.{name}" for name in _KEPT)
_NO_WITHDRAWAL = f"OLD.withdrawn_at IS NOT NULL OR NEW.withdrawn_at IS NULL OR {_OTHER}"
"""No column but `withdrawn_at` can be NULL."""


def upgrade() -> None:
    """Every amount rests on the price that it names, and on what was bought: neither is rewritten.
    A reservation is withdrawn once, which says so and takes nothing back."""
    if op.get_bind().dialect.name == "sqlite":
        _on_sqlite()
    else:
        _on_postgresql()


def _on_sqlite() -> None:
    refusals = (
        ("prices_refuses_update", "UPDATE ON prices", _PRICES),
        ("prices_refuses_delete", "DELETE ON prices", _PRICES),
        ("reservations_refuses_delete", "DELETE ON reservations", _RESERVATIONS),
        (
            "reservations_refuses_update",
            f"UPDATE ON reservations WHEN {_NO_WITHDRAWAL}",
            _RESERVATIONS,
        ),
    )
    for name, change, said in refusals:
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {change} BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )
    for table, said in (("prices", _PRICES), ("reservations", _RESERVATIONS)):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_replacement BEFORE INSERT ON {table}"  # noqa: S608
            f" BEGIN SELECT RAISE(ABORT, '{said}') FROM {table}"
            " WHERE rowid = NEW.rowid OR id = NEW.id; END"
        )


def _on_postgresql() -> None:
    for table, said in (("prices", _PRICES), ("reservations", _RESERVATIONS)):
        op.execute(
            f"CREATE FUNCTION {table}_refuses() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION '{said}'; END $$"
        )
    op.execute(
        "CREATE TRIGGER prices_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON prices"
        " FOR EACH STATEMENT EXECUTE FUNCTION prices_refuses()"
    )
    op.execute(
        "CREATE TRIGGER reservations_refuses_removal BEFORE DELETE OR TRUNCATE ON reservations"
        " FOR EACH STATEMENT EXECUTE FUNCTION reservations_refuses()"
    )
    op.execute(
        "CREATE TRIGGER reservations_refuses_changes BEFORE UPDATE ON reservations"
        f" FOR EACH ROW WHEN ({_NO_WITHDRAWAL}) EXECUTE FUNCTION reservations_refuses()"
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in ("prices", "reservations"):
            for change in ("update", "delete", "replacement"):
                op.execute(f"DROP TRIGGER {table}_refuses_{change}")
        return
    for table in ("prices", "reservations"):
        op.execute(f"DROP FUNCTION {table}_refuses() CASCADE")
