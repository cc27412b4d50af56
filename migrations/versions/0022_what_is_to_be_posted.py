"""what is to be posted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """SQLite uses an index of some rows only where a query names them in the same letters; without
    it all usage ever was read to find what the ledger does not say yet."""
    _index("dirty = 1")


def downgrade() -> None:
    _index("dirty")


def _index(rows: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.drop_index("ix_usage_dirty", table_name="usage")
        op.create_index("ix_usage_dirty", "usage", ["dirty"], sqlite_where=sa.text(rows))
