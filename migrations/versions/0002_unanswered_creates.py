"""unanswered creates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Know of each node whether a create without an answer may still take effect."""
    op.add_column("nodes", sa.Column("unanswered_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("nodes", "unanswered_at")
