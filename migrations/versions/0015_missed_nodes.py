"""missed nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Since when the lists lack a node, and how many of them did."""
    op.add_column("nodes", sa.Column("missed_at", sa.BigInteger(), nullable=True))
    op.add_column(
        "nodes", sa.Column("misses", sa.Integer(), nullable=False, server_default=sa.text("0"))
    )


def downgrade() -> None:
    op.drop_column("nodes", "misses")
    op.drop_column("nodes", "missed_at")
