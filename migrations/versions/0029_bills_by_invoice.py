"""bills by invoice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_TEXTS = (
    ("bills", "periods", "'[]'"),
    ("bills", "invoices", "'[]'"),
    ("bills", "joined", "'[]'"),
    ("bills", "joined_into", "''"),
    ("bill_rows", "period", "''"),
    ("bill_rows", "account", "''"),
    ("bill_rows", "currency", "'USD'"),
    ("bill_rows", "credit_kinds", "'{}'"),
    ("bill_lines", "credit_kinds", "'{}'"),
)
_NUMBERS = (
    ("bill_rows", "copies", "1"),
    ("bill_rows", "rows", "1"),
    ("bill_rows", "converted", "1"),
    ("bill_rows", "local_cost", "0"),
    ("bill_rows", "local_credits", "0"),
    ("bill_lines", "is_explained", "0"),
    ("bills", "is_alone", "0"),
)
_SAME_FILE = "uq_bills_same_file"
_FINISHED = sa.text("finished_at IS NOT NULL")


def upgrade() -> None:
    """What rows are billed as, and which import has them: a later file of the month joins them.

    Imports of before kept no rows to be joined. Their files are taken in once more when they are
    sent again: so the digest of each is no longer that of its file.
    """
    for kind, columns in ((sa.Text(), _TEXTS), (sa.BigInteger(), _NUMBERS)):
        for table, name, default in columns:
            op.add_column(
                table, sa.Column(name, kind, nullable=False, server_default=sa.text(default))
            )
    _index("digest", "tolerance", "is_alone")
    op.execute(sa.text("UPDATE bills SET digest = digest || ' of ' || id"))
    op.execute(sa.text("UPDATE bill_lines SET is_explained = 1 WHERE verdict = 'matched'"))


def _index(*columns: str) -> None:
    op.drop_index(_SAME_FILE, "bills")
    op.create_index(
        _SAME_FILE,
        "bills",
        list(columns),
        unique=True,
        sqlite_where=_FINISHED,
        postgresql_where=_FINISHED,
    )


def downgrade() -> None:
    op.execute(
        sa.text("DELETE FROM bill_lines WHERE bill_id IN (SELECT id FROM bills WHERE is_alone = 1)")
    )
    op.execute(sa.text("DELETE FROM bill_rows"))
    op.execute(sa.text("DELETE FROM bills WHERE is_alone = 1"))
    _index("digest", "tolerance")
    for table, name, _ in (*_NUMBERS, *_TEXTS):
        op.drop_column(table, name)
