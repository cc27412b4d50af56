"""commitments on bills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

_COLUMNS = (
    ("bills", "commitments", "'null'"),
    ("bill_rows", "region", "''"),
    ("bill_rows", "consumption_model", "''"),
)


def upgrade() -> None:
    """What a bill says of commitments, and what of its rows tells that.

    Bills of before are asked for it when they are read, as long as they have their rows: those have
    no region, which their zone and their description name too.
    """
    for table, name, default in _COLUMNS:
        op.add_column(
            table, sa.Column(name, sa.Text(), nullable=False, server_default=sa.text(default))
        )


def downgrade() -> None:
    for table, name, _ in reversed(_COLUMNS):
        op.drop_column(table, name)
