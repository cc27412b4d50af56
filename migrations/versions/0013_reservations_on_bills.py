"""reservations on bills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Where a row of a bill says that it was used, and the reservation that a comparison is of."""
    for table, name in (("bill_rows", "zone"), ("bill_lines", "reservation")):
        empty = sa.text("''")
        op.add_column(table, sa.Column(name, sa.Text(), nullable=False, server_default=empty))


def downgrade() -> None:
    op.drop_column("bill_lines", "reservation")
    op.drop_column("bill_rows", "zone")
