"""queued resources and slices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ONE_OPEN = "uq_usage_one_open"
_RUNNING = sa.text("end_at IS NULL")


def upgrade() -> None:
    """Follow a node's queued resource, and keep apart what was seen and used of each slice."""
    for name, before in (("queue_state", ""), ("slices_seen", "[]"), ("tails", "")):
        op.add_column("nodes", sa.Column(name, sa.Text(), nullable=False, server_default=before))
    for name in ("queue_since", "alarmed_at"):
        op.add_column("nodes", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("usage", sa.Column("slice", sa.Integer(), nullable=False, server_default="-1"))
    op.drop_index(_ONE_OPEN, "usage")
    op.create_index(
        _ONE_OPEN,
        "usage",
        ["node_id", "slice"],
        unique=True,
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )


def downgrade() -> None:
    op.drop_index(_ONE_OPEN, "usage")
    op.create_index(
        _ONE_OPEN,
        "usage",
        ["node_id"],
        unique=True,
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    op.drop_column("usage", "slice")
    for name in ("queue_state", "queue_since", "alarmed_at", "slices_seen", "tails"):
        op.drop_column("nodes", name)
