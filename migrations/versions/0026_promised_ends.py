"""what a message about an idle node promised."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """An idle node goes no sooner than its message said; without a value the grace of its policy
    counts alone."""
    op.add_column("idle_courses", sa.Column("promised_at", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("idle_courses", "promised_at")
