"""when replacing began."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Since when what is in the cloud is deleted so that another can be made. Of what is under way
    nobody knows any more; it is at least as old as the state that was seen last. A human was not
    told of it yet, whatever else he was told."""
    op.add_column("nodes", sa.Column("replacing_since", sa.BigInteger(), nullable=True))
    op.execute(
        "UPDATE nodes SET replacing_since = state_since, alarmed_at = CASE"
        " WHEN delete_requested_at IS NOT NULL THEN alarmed_at END"
        " WHERE replacing AND ended_at IS NULL AND sent_at IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_column("nodes", "replacing_since")
