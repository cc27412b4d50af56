"""usage carries a version, and is set aside where it cannot be posted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Whoever writes usage writes over the version that was read. What cannot be posted waits until
    `post_after`, so that it holds up nothing else."""
    op.add_column(
        "usage", sa.Column("version", sa.Integer, nullable=False, server_default=sa.text("1"))
    )
    op.add_column(
        "usage", sa.Column("post_after", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    # to take over a lease changes a key, and waits for the writers under it; to renew one does not
    op.create_index("uq_leases_epoch", "leases", ["project", "epoch", "holder"], unique=True)


def downgrade() -> None:
    op.drop_index("uq_leases_epoch", "leases")
    op.drop_column("usage", "post_after")
    op.drop_column("usage", "version")
