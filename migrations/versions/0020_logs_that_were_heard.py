"""logs that were heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """For which epoch of a lease the audit log has said what it knows: for none so far."""
    none = sa.text("0")
    op.add_column(
        "leases", sa.Column("heard_epoch", sa.BigInteger(), nullable=False, server_default=none)
    )


def downgrade() -> None:
    op.drop_column("leases", "heard_epoch")
