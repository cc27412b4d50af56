"""forecasts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Remember what was forecast on each day, and what it came to."""
    op.create_table(
        "forecasts",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("low_nanos", sa.BigInteger(), nullable=False),
        sa.Column("mid_nanos", sa.BigInteger(), nullable=False),
        sa.Column("high_nanos", sa.BigInteger(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("actual_nanos", sa.BigInteger()),
        sa.Column("scored_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("scope", "start_at", "day", name=op.f("pk_forecasts")),
    )
    op.create_index("ix_forecasts_day", "forecasts", ["day"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_forecasts_day", table_name="forecasts")
    op.drop_table("forecasts")
