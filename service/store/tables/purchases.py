"""Reservations and commitments, which are paid whether they are used or not."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Table, Text

from service.store.tables.schema import metadata

reservations = Table(
    "reservations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("generation", Text, nullable=False),
    Column("chips", Integer, nullable=False),
    Column("start_at", BigInteger, nullable=False),
    Column("end_at", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("withdrawn_at", BigInteger),
    Column("reason", Text, nullable=False),
    CheckConstraint("chips > 0", name="has_chips"),
    CheckConstraint("end_at > start_at", name="ends_after_start"),
)

commitments = Table(
    "commitments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("generation", Text, nullable=False),
    Column("chips", Integer, nullable=False),
    Column("term", Text, nullable=False),
    Column("start_at", BigInteger, nullable=False),
    Column("end_at", BigInteger, nullable=False),
    Column("contract_nanos", BigInteger),
    Column("owner", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("withdrawn_at", BigInteger),
    Column("reason", Text, nullable=False),
    CheckConstraint("chips > 0", name="has_chips"),
    CheckConstraint("end_at > start_at", name="ends_after_start"),
    CheckConstraint("contract_nanos > 0", name="has_a_rate"),
)
