"""messages about nodes and projects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """A message says what it is about, and to whom it goes; until now each was about a budget."""
    op.drop_index("ix_notifications_budget_id_created_at", "notifications")
    with op.batch_alter_table("notifications") as table:
        table.drop_constraint(op.f("fk_notifications_budget_id"), type_="foreignkey")
        table.alter_column("budget_id", new_column_name="about_id")
        table.add_column(
            sa.Column("about_kind", sa.Text, nullable=False, server_default=sa.text("'budget'"))
        )
        table.add_column(
            sa.Column("recipient", sa.Text, nullable=False, server_default=sa.text("''"))
        )
    with op.batch_alter_table("notifications") as table:
        for name in ("about_kind", "recipient"):
            table.alter_column(name, server_default=None)
    op.create_index(
        op.f("ix_notifications_about_kind_about_id_created_at"),
        "notifications",
        ["about_kind", "about_id", "created_at"],
    )


def downgrade() -> None:
    op.execute("DELETE FROM notifications WHERE about_kind <> 'budget'")
    op.drop_index("ix_notifications_about_kind_about_id_created_at", "notifications")
    with op.batch_alter_table("notifications") as table:
        table.drop_column("about_kind")
        table.drop_column("recipient")
        table.alter_column("about_id", new_column_name="budget_id")
    with op.batch_alter_table("notifications") as table:
        table.create_foreign_key(
            op.f("fk_notifications_budget_id"), "budgets", ["budget_id"], ["id"]
        )
    op.create_index(
        op.f("ix_notifications_budget_id_created_at"), "notifications", ["budget_id", "created_at"]
    )
