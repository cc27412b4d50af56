"""Counters of the writes that figures depend on."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from service.store.tables.schema import metadata

revisions = Table(
    "revisions",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)
