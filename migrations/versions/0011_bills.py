"""Bills of the cloud that were held against the ledger: the files, and what came of each line."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """`bill_rows` holds rows only while a file is read; what is kept are the comparisons."""
    _bills()
    _rows()
    _lines()


def _bills() -> None:
    op.create_table(
        "bills",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("tolerance", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("apart", sa.Text(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bills")),
    )
    op.create_index(
        "uq_bills_same_file",
        "bills",
        ["digest", "tolerance"],
        unique=True,
        sqlite_where=sa.text("finished_at IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NOT NULL"),
    )


def _rows() -> None:
    op.create_table(
        "bill_rows",
        sa.Column("bill_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("sku_id", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.Column("at_list", sa.BigInteger(), nullable=True),
        sa.Column("chip_seconds", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["bill_id"], ["bills.id"], name=op.f("fk_bill_rows_bill_id")),
        sa.PrimaryKeyConstraint("bill_id", "digest", name=op.f("pk_bill_rows")),
    )
    op.create_index(op.f("ix_bill_rows_bill_id_hour"), "bill_rows", ["bill_id", "hour"])


def _lines() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "bill_lines",
        sa.Column("id", serial, nullable=False),
        sa.Column("bill_id", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("sku_id", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("billed", sa.BigInteger(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.Column("billed_at_list", sa.BigInteger(), nullable=True),
        sa.Column("billed_chip_seconds", sa.BigInteger(), nullable=True),
        sa.Column("charged", sa.BigInteger(), nullable=False),
        sa.Column("charged_at_list", sa.BigInteger(), nullable=True),
        sa.Column("charged_chip_seconds", sa.BigInteger(), nullable=False),
        sa.Column("variance", sa.BigInteger(), nullable=False),
        sa.Column("by_seconds", sa.BigInteger(), nullable=True),
        sa.Column("difference", sa.Text(), nullable=False),
        sa.Column("seen", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["bill_id"], ["bills.id"], name=op.f("fk_bill_lines_bill_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bill_lines")),
    )
    op.create_index(
        op.f("ix_bill_lines_bill_id_verdict_id"), "bill_lines", ["bill_id", "verdict", "id"]
    )


def downgrade() -> None:
    for table in ("bill_lines", "bill_rows", "bills"):
        op.drop_table(table)
