"""Idle nodes: policies, courses with their signals, rollups, plans, ended nodes, and links."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from service.store.tables.schema import metadata, serial

idle_policies = Table(
    "idle_policies",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("recipients", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
)

idle_courses = Table(
    "idle_courses",
    metadata,
    Column("node_id", Text, ForeignKey("nodes.id"), primary_key=True),
    Column("project", Text, nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("notified_at", BigInteger),
    Column("told", Text),
    Column("frozen_at", BigInteger),
    Column("frozen_seconds", BigInteger, nullable=False),
    Column("blind_told_at", BigInteger),
    Column("promised_at", BigInteger),
    Column("verdict", Text, nullable=False),
    Column("judged_at", BigInteger, nullable=False),
    Column("due_at", BigInteger),
    Column("signals", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Index(None, "project", "node_id"),
)
"""One row for each node, about its current incarnation. `signals` are the tracks and the newest
reports of its workers, `verdict` is what they proved at `judged_at`."""

idle_rollups = Table(
    "idle_rollups",
    metadata,
    Column("node_id", Text, ForeignKey("nodes.id"), primary_key=True),
    Column("incarnation", Integer, primary_key=True),
    Column("hour", BigInteger, primary_key=True),
    Column("levels", Text, nullable=False),
    Column("values", Text, nullable=False),
    Index(None, "hour"),
)
"""One row for each node and hour: a letter for each five minutes, and the highest value of each
signal in them. Values are dropped after 30 days, rows after 400."""

cleanups = Table(
    "cleanups",
    metadata,
    Column("project", Text, primary_key=True),
    Column("ticked_at", BigInteger, nullable=False),
    Column("paused_at", BigInteger),
    Column("paused_by", Text, nullable=False),
    Column("pause_reason", Text, nullable=False),
    Column("pauses", Integer, nullable=False),
    Column("breaker", Text, nullable=False),
    Column("families", Text, nullable=False),
    Column("mass_since", BigInteger),
    Column("holds", Text, nullable=False),
    Column("waiting", Text, nullable=False),
    Column("version", Integer, nullable=False),
)
"""One row for each project: the pause, the breaker, what Cloud Monitoring has, the rails that hold,
and the nodes that wait for them."""

cleanup_plans = Table(
    "cleanup_plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Index(None, "as_of"),
)

cleanup_history = Table(
    "cleanup_history",
    metadata,
    Column("id", serial, primary_key=True, autoincrement=True),
    Column("project", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("node_id", Text, ForeignKey("nodes.id"), nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("hourly", BigInteger),
    Column("plan_id", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Index(None, "project", "id"),
    Index(None, "node_id", "id"),
    Index(
        "uq_cleanup_history_deletion",
        "node_id",
        "incarnation",
        unique=True,
        sqlite_where=text("action = 'delete'"),
        postgresql_where=text("action = 'delete'"),
    ),
)
"""The ends that the daemon or a person began. The last index lets an incarnation be deleted only
once."""

cleanup_links = Table(
    "cleanup_links",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("verb", Text, nullable=False),
    Column("node_id", Text, ForeignKey("nodes.id"), nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("notified_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Column("version", Integer, nullable=False),
    Index(None, "expires_at"),
    Index(None, "node_id", "notified_at"),
)

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("node_id", Text, ForeignKey("nodes.id"), primary_key=True),
    Column("incarnation", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
    Column("version", Integer, nullable=False),
)

heartbeat_tokens = Table(
    "heartbeat_tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("node_id", Text, ForeignKey("nodes.id"), nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index(None, "node_id"),
)
