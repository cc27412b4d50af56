"""Budgets, their holds, alerts and messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Table, Text

from service.store.tables.schema import metadata, serial

budgets = Table(
    "budgets",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("project", Text),
    Column("team", Text),
    Column("owner", Text),
    Column("job", Text),
    Column("label_key", Text),
    Column("label_value", Text),
    Column("amount", BigInteger, nullable=False),
    Column("period", Text, nullable=False),
    Column("tz", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("thresholds", Text, nullable=False),
    Column("on_exceeded", Text, nullable=False),
    Column("start", BigInteger),
    Column("end", BigInteger),
    Column("burn_rate", BigInteger),
    Column("grace_seconds", BigInteger, nullable=False),
    Column("webhook", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("emails", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("checked_at", BigInteger, nullable=False),
    CheckConstraint("amount > 0", name="more_than_zero"),
)

holds = Table(
    "holds",
    metadata,
    Column("node_id", Text, ForeignKey("nodes.id"), primary_key=True),
    Column("rate_nanos", BigInteger),
    Column("ttl_seconds", BigInteger),
    Column("placed_at", BigInteger, nullable=False),
)

refusals = Table(
    "refusals",
    metadata,
    Column("id", serial, primary_key=True),
    Column("budget_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("message", Text, nullable=False),
    Index(None, "budget_id", "id"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("budget_id", Text, ForeignKey("budgets.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("period", BigInteger, nullable=False),
    Column("fired_at", BigInteger),
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Text, primary_key=True),
    Column("about_id", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("next_try_at", BigInteger),
    Column("tries", BigInteger, nullable=False),
    Column("sent_at", BigInteger),
    Column("last_error", Text, nullable=False),
    Column("about_kind", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Index(None, "next_try_at"),
    Index(None, "about_kind", "about_id", "created_at"),
)
"""`recipient` is a document. It is empty for a budget, which has its own recipients."""
