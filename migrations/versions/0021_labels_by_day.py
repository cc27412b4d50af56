"""labels by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """The labels by which a day of a node was charged stand beside it: a budget by label is asked
    before each node, and looked them up for every day of every node."""
    op.add_column("node_days", sa.Column("labels", sa.Text(), nullable=False, server_default="{}"))
    op.execute(
        "UPDATE node_days SET labels = coalesce((SELECT labels FROM attributions"
        " WHERE attributions.node_id = node_days.node_id"
        " AND attributions.since = node_days.since), '{}')"
    )


def downgrade() -> None:
    op.drop_column("node_days", "labels")
