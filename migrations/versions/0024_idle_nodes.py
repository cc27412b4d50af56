"""Idle nodes: policies, courses, rollups, plans, history, links, heartbeats, and who is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_TABLES = (
    "heartbeat_tokens",
    "heartbeats",
    "cleanup_links",
    "cleanup_history",
    "cleanup_plans",
    "cleanups",
    "idle_rollups",
    "idle_courses",
    "idle_policies",
)
_KEPT = ("kept_because", "ends_after_keep")


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _whole(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=nullable) for name in names]


def _count(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _of_a_node(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=f"fk_{table}_node_id")


def upgrade() -> None:
    _add_policies_and_courses()
    _add_cleanups()
    _add_heartbeats()
    op.add_column("nodes", sa.Column("kept_until", sa.BigInteger))
    held = sa.Column("held_since", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("leases", held)
    for name in _KEPT:
        empty = sa.Column(name, sa.Text, nullable=False, server_default=sa.text("''"))
        op.add_column("nodes", empty)


def _add_policies_and_courses() -> None:
    op.create_table(
        "idle_policies",
        *_text("scope", "rule", "recipients"),
        *_whole("updated_at"),
        *_count("version"),
        sa.PrimaryKeyConstraint("scope", name="pk_idle_policies"),
    )
    op.create_table(
        "idle_courses",
        *_text("node_id", "project", "state", "verdict", "signals"),
        *_count("incarnation", "version"),
        *_whole("since", "frozen_seconds", "judged_at"),
        *_whole("notified_at", "frozen_at", "blind_told_at", "due_at", nullable=True),
        sa.Column("told", sa.Text),
        sa.PrimaryKeyConstraint("node_id", name="pk_idle_courses"),
        _of_a_node("idle_courses"),
    )
    op.create_index("ix_idle_courses_project_node_id", "idle_courses", ["project", "node_id"])
    op.create_table(
        "idle_rollups",
        *_text("node_id", "levels", "values"),
        *_count("incarnation"),
        *_whole("hour"),
        sa.PrimaryKeyConstraint("node_id", "incarnation", "hour", name="pk_idle_rollups"),
        _of_a_node("idle_rollups"),
    )
    op.create_index("ix_idle_rollups_hour", "idle_rollups", ["hour"])


def _add_cleanups() -> None:
    op.create_table(
        "cleanups",
        *_text("project", "paused_by", "pause_reason", "breaker", "families", "holds", "waiting"),
        *_whole("ticked_at"),
        *_whole("paused_at", "mass_since", nullable=True),
        *_count("pauses", "version"),
        sa.PrimaryKeyConstraint("project", name="pk_cleanups"),
    )
    op.create_table(
        "cleanup_plans",
        *_text("id", "project", "plan", "made_by"),
        *_whole("as_of"),
        sa.PrimaryKeyConstraint("id", name="pk_cleanup_plans"),
    )
    op.create_index("ix_cleanup_plans_as_of", "cleanup_plans", ["as_of"])
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "cleanup_history",
        sa.Column("id", serial, nullable=False, autoincrement=True),
        *_text("project", "node_id", "name", "action", "actor", "reason", "plan_id", "evidence"),
        *_whole("at"),
        *_whole("hourly", nullable=True),
        *_count("incarnation"),
        sa.PrimaryKeyConstraint("id", name="pk_cleanup_history"),
        _of_a_node("cleanup_history"),
    )
    op.create_index("ix_cleanup_history_project_id", "cleanup_history", ["project", "id"])
    op.create_index("ix_cleanup_history_node_id_id", "cleanup_history", ["node_id", "id"])
    deleted = sa.text("action = 'delete'")
    op.create_index(
        "uq_cleanup_history_deletion",
        "cleanup_history",
        ["node_id", "incarnation"],
        unique=True,
        sqlite_where=deleted,
        postgresql_where=deleted,
    )
    op.create_table(
        "cleanup_links",
        *_text("token_hash", "verb", "node_id"),
        *_count("incarnation", "version"),
        *_whole("notified_at", "expires_at"),
        *_whole("used_at", nullable=True),
        sa.PrimaryKeyConstraint("token_hash", name="pk_cleanup_links"),
        _of_a_node("cleanup_links"),
    )
    op.create_index("ix_cleanup_links_expires_at", "cleanup_links", ["expires_at"])


def _add_heartbeats() -> None:
    op.create_table(
        "heartbeats",
        *_text("node_id", "note"),
        *_count("incarnation", "version"),
        *_whole("at", "until"),
        sa.PrimaryKeyConstraint("node_id", name="pk_heartbeats"),
        _of_a_node("heartbeats"),
    )
    op.create_table(
        "heartbeat_tokens",
        *_text("token_hash", "node_id"),
        *_count("incarnation"),
        *_whole("created_at", "expires_at"),
        sa.PrimaryKeyConstraint("token_hash", name="pk_heartbeat_tokens"),
        _of_a_node("heartbeat_tokens"),
    )
    op.create_index("ix_heartbeat_tokens_node_id", "heartbeat_tokens", ["node_id"])


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)
    for name in ("kept_until", *_KEPT):
        op.drop_column("nodes", name)
    op.drop_column("leases", "held_since")
