"""Google's bill as it was read, to be compared with ours."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, Table, Text, text

from service.store.tables.schema import metadata, serial

bills = Table(
    "bills",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("tolerance", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("counts", Text, nullable=False),
    Column("duplicates", BigInteger, nullable=False),
    Column("apart", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("finished_at", BigInteger),
    Index(
        "uq_bills_same_file",
        "digest",
        "tolerance",
        unique=True,
        sqlite_where=text("finished_at IS NOT NULL"),
        postgresql_where=text("finished_at IS NOT NULL"),
    ),
)

bill_rows = Table(
    "bill_rows",
    metadata,
    Column("bill_id", Text, ForeignKey("bills.id"), primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("sku_id", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("generation", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("hour", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("at_list", BigInteger),
    Column("chip_seconds", BigInteger),
    Column("zone", Text, nullable=False, server_default=text("''")),
    Index(None, "bill_id", "hour"),
)

bill_lines = Table(
    "bill_lines",
    metadata,
    Column("id", serial, primary_key=True),
    Column("bill_id", Text, ForeignKey("bills.id"), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("sku_id", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("generation", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("hour", BigInteger, nullable=False),
    Column("billed", BigInteger, nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("billed_at_list", BigInteger),
    Column("billed_chip_seconds", BigInteger),
    Column("charged", BigInteger, nullable=False),
    Column("charged_at_list", BigInteger),
    Column("charged_chip_seconds", BigInteger, nullable=False),
    Column("variance", BigInteger, nullable=False),
    Column("by_seconds", BigInteger),
    Column("difference", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("reservation", Text, nullable=False, server_default=text("''")),
    Index(None, "bill_id", "verdict", "id"),
)
