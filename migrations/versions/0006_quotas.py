"""quotas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Remember what Google said that a project may have."""
    op.create_table(
        "quotas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("size", sa.Text(), nullable=False),
        sa.Column("allowed", sa.BigInteger(), nullable=False),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
    )
    op.create_index(
        op.f("ix_quotas_project_observed_at"), "quotas", ["project", "observed_at"], unique=False
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_quotas_project_observed_at"), table_name="quotas")
    op.drop_table("quotas")
