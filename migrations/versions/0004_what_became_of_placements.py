"""what became of placements."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_TEXTS = ("project", "accelerator_type", "generation", "scope")
_INDEXES = (
    ("ix_placements_project_model_started_at", ["project", "model", "started_at"]),
    ("ix_placements_started_at", ["started_at"]),
)

# Until now every attempt of a node was for the same hardware, and only the present one is known to
# have come up at an instant.
_BACKFILL = """
UPDATE placements SET
    project = (SELECT n.project FROM nodes n WHERE n.id = placements.node_id),
    generation = (SELECT n.generation FROM nodes n WHERE n.id = placements.node_id),
    accelerator_type = (
        SELECT {of_spec} FROM nodes n WHERE n.id = placements.node_id
    ),
    ready_at = (
        SELECT n.up_since FROM nodes n
        WHERE n.id = placements.node_id AND n.attempt = placements.attempt
    )
"""
_OF_SPEC = {
    "sqlite": "json_extract(n.spec, '$.accelerator_type')",
    "postgresql": "CAST(n.spec AS json) ->> 'accelerator_type'",
}


def upgrade() -> None:
    """Learn from attempts: what was tried for whom, when it came up, and how far a refusal goes."""
    for name in _TEXTS:
        op.add_column("placements", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.add_column("placements", sa.Column("ready_at", sa.BigInteger(), nullable=True))
    op.execute(_BACKFILL.format(of_spec=_OF_SPEC[op.get_bind().dialect.name]))
    for name, columns in _INDEXES:
        op.create_index(name, "placements", columns)


def downgrade() -> None:
    for name, _ in _INDEXES:
        op.drop_index(name, "placements")
    for name in ("ready_at", *_TEXTS):
        op.drop_column("placements", name)
