"""nothing is replaced."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"

_SAME = {
    "attributions": "rowid = NEW.rowid OR (node_id = NEW.node_id AND since = NEW.since)",
    "beliefs": "rowid = NEW.rowid",
    "discounts": "rowid = NEW.rowid OR number = NEW.number",
    "events": "rowid = NEW.rowid",
    "ledger": "rowid = NEW.rowid OR key = NEW.key",
    "observations": "rowid = NEW.rowid",
}
"""Every table that is only added to, and which row of it a new one would replace."""


def upgrade() -> None:
    """INSERT OR REPLACE takes a row away without a DELETE that a trigger of SQLite would see, and
    PostgreSQL has nothing like it."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for table, same in _SAME.items():
        op.execute(
            f"CREATE TRIGGER {table}_refuses_replacement BEFORE INSERT ON {table}"  # noqa: S608
            " BEGIN"
            f" SELECT RAISE(ABORT, 'the table {table} is only added to') FROM {table}"
            f" WHERE {same}; END"
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in _SAME:
            op.execute(f"DROP TRIGGER {table}_refuses_replacement")
