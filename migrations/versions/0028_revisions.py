"""revisions of what figures depend on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """How often the books and the nodes were written, so that figures are kept until they change.
    Each number is in several parts, so that writers at the same time do not wait for each other."""
    op.create_table(
        "revisions",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("part", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("revisions")
