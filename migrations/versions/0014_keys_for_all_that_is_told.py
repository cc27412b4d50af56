"""keys for all that is told."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """An idempotency key leads to a price or a discount as well as to a node."""
    with op.batch_alter_table("idempotency_keys") as table:
        table.drop_constraint(op.f("fk_idempotency_keys_node_id"), type_="foreignkey")
        table.alter_column("node_id", new_column_name="led_to")
    op.execute("UPDATE idempotency_keys SET scope = 'nodes/' || scope")


def downgrade() -> None:
    op.execute("DELETE FROM idempotency_keys WHERE scope NOT LIKE 'nodes/%'")
    op.execute("UPDATE idempotency_keys SET scope = substr(scope, 7)")
    with op.batch_alter_table("idempotency_keys") as table:
        table.alter_column("led_to", new_column_name="node_id")
    with op.batch_alter_table("idempotency_keys") as table:
        table.create_foreign_key(op.f("fk_idempotency_keys_node_id"), "nodes", ["node_id"], ["id"])
