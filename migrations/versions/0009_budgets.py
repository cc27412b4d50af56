"""budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Budgets, what is set aside and refused under them, and who was told of what."""
    _budgets()
    _holds()
    _refusals()
    _alerts()
    _notifications()
    op.create_index(
        "ix_attributions_later",
        "attributions",
        ["since"],
        unique=False,
        sqlite_where=sa.text("since > 0"),
        postgresql_where=sa.text("since > 0"),
    )


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _budgets() -> None:
    op.create_table(
        "budgets",
        _text("id"),
        _text("name"),
        *(_text(name, nullable=True) for name in ("project", "team", "owner", "job")),
        *(_text(name, nullable=True) for name in ("label_key", "label_value")),
        _number("amount"),
        _text("period"),
        _text("tz"),
        _number("created_at"),
        _text("thresholds"),
        _text("on_exceeded"),
        _number("start", nullable=True),
        _number("end", nullable=True),
        _number("burn_rate", nullable=True),
        _number("grace_seconds"),
        *(_text(name) for name in ("webhook", "secret", "emails")),
        _number("version"),
        _number("checked_at"),
        _text("request_key", nullable=True),
        _text("request_digest"),
        sa.CheckConstraint("amount > 0", name=op.f("ck_budgets_more_than_zero")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        sa.UniqueConstraint("name", name=op.f("uq_budgets_name")),
        sa.UniqueConstraint("request_key", name=op.f("uq_budgets_request_key")),
    )


def _holds() -> None:
    op.create_table(
        "holds",
        _text("node_id"),
        _number("rate_nanos", nullable=True),
        _number("ttl_seconds", nullable=True),
        _number("placed_at"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_holds_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_holds")),
    )


def _refusals() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "refusals",
        sa.Column("id", serial, nullable=False),
        _text("budget_id"),
        _number("at"),
        _text("message"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusals")),
    )
    op.create_index(op.f("ix_refusals_budget_id_id"), "refusals", ["budget_id", "id"], unique=False)


def _alerts() -> None:
    op.create_table(
        "alerts",
        _text("budget_id"),
        _text("kind"),
        _number("period"),
        _number("fired_at", nullable=True),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], name=op.f("fk_alerts_budget_id")),
        sa.PrimaryKeyConstraint("budget_id", "kind", name=op.f("pk_alerts")),
    )


def _notifications() -> None:
    op.create_table(
        "notifications",
        _text("id"),
        _text("budget_id"),
        *(_text(name) for name in ("channel", "subject", "body")),
        _number("created_at"),
        _number("next_try_at", nullable=True),
        _number("tries"),
        _number("sent_at", nullable=True),
        _text("last_error"),
        sa.ForeignKeyConstraint(
            ["budget_id"], ["budgets.id"], name=op.f("fk_notifications_budget_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    op.create_index(
        op.f("ix_notifications_next_try_at"), "notifications", ["next_try_at"], unique=False
    )
    op.create_index(
        op.f("ix_notifications_budget_id_created_at"),
        "notifications",
        ["budget_id", "created_at"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_index("ix_attributions_later", "attributions")
    for table in ("notifications", "alerts", "refusals", "holds", "budgets"):
        op.drop_table(table)
