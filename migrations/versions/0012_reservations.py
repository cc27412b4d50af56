"""reservations."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_OWED_BY_OTHERS = ("usage", "attributions")
"""What spoke of nodes alone, and speaks of reservations too from now on."""


def upgrade() -> None:
    """What was bought for a time, the machines that users drive a TPU with, and what each costs."""
    op.create_table(
        "reservations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("chips", sa.Integer(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.CheckConstraint("chips > 0", name=op.f("ck_reservations_has_chips")),
        sa.CheckConstraint("end_at > start_at", name=op.f("ck_reservations_ends_after_start")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    for table in _OWED_BY_OTHERS:
        _forget_nodes(table)
    for name in ("reservation", "vm", "vm_model"):
        op.add_column(
            "usage", sa.Column(name, sa.Text(), nullable=False, server_default=sa.text("''"))
        )
    purchases = sa.text("start_evidence = 'purchase'")
    op.create_index(
        "ix_usage_purchases",
        "usage",
        ["end_at"],
        unique=False,
        sqlite_where=purchases,
        postgresql_where=purchases,
    )
    reserved = sa.text("model = 'reserved'")
    op.create_index(
        "ix_usage_reserved",
        "usage",
        ["start_at"],
        unique=False,
        sqlite_where=reserved,
        postgresql_where=reserved,
    )
    op.add_column(
        "ledger", sa.Column("vm_seconds", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("ledger", sa.Column("reservation_id", sa.Text(), nullable=True))
    in_one = sa.text("reservation_id IS NOT NULL")
    op.create_index(
        "ix_ledger_reservation_id_hour",
        "ledger",
        ["reservation_id", "hour"],
        unique=False,
        sqlite_where=in_one,
        postgresql_where=in_one,
    )


def _forget_nodes(table: str) -> None:
    """Drop the foreign key to the nodes.

    SQLite cannot, but lets the text of a table be changed where nothing stored depends on it: of
    its two ways (https://www.sqlite.org/lang_altertable.html, section 7) the one that copies no
    rows. No name of a table or column is touched, so every trigger and index stays true.
    A database that was here before and went back has none any more: it is not made again.
    """
    key = f"fk_{table}_node_id"
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {key}")
        return
    asked = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :table")
    before = str(connection.execute(asked, {"table": table}).scalar_one())
    named = rf",\s*CONSTRAINT {key} FOREIGN KEY\s*\(node_id\) REFERENCES nodes \(id\)"
    after = re.sub(named, "", before)
    if after == before:
        return
    version = int(connection.exec_driver_sql("PRAGMA schema_version").scalar_one())
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    connection.execute(
        sa.text("UPDATE sqlite_master SET sql = :sql WHERE type = 'table' AND name = :table"),
        {"sql": after, "table": table},
    )
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = OFF")


def downgrade() -> None:
    op.drop_index("ix_ledger_reservation_id_hour", "ledger")
    op.drop_column("ledger", "reservation_id")
    op.drop_column("ledger", "vm_seconds")
    for name in ("ix_usage_reserved", "ix_usage_purchases"):
        op.drop_index(name, "usage")
    for name in ("reservation", "vm", "vm_model"):
        op.drop_column("usage", name)
    op.drop_table("reservations")
