"""incarnations of placements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Which nodes an attempt was seen to have made, by the uids that Google gave them. Of attempts
    that are over already nobody knows any more."""
    empty = sa.text("'[]'")
    op.add_column(
        "placements", sa.Column("cloud_uids", sa.Text(), nullable=False, server_default=empty)
    )


def downgrade() -> None:
    op.drop_column("placements", "cloud_uids")
