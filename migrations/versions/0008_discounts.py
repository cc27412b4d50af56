"""discounts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """What was negotiated: only added to, like the ledger, as figures of the past rest on it."""
    op.create_table(
        "discounts",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("ppm", sa.BigInteger(), nullable=False),
        sa.Column("effective_from", sa.BigInteger(), nullable=False),
        sa.Column("effective_until", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("ppm > 0 AND ppm < 1000000", name=op.f("ck_discounts_is_a_share")),
        sa.CheckConstraint(
            "effective_until >= effective_from", name=op.f("ck_discounts_ends_after_it_began")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_discounts")),
    )
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER discounts_refuses_{change.lower()} BEFORE {change} ON discounts"
                " BEGIN SELECT RAISE(ABORT, 'the table discounts is only added to'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION discounts_refuses() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the table discounts is only added to'; END $$"
    )
    op.execute(
        "CREATE TRIGGER discounts_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON discounts"
        " FOR EACH STATEMENT EXECUTE FUNCTION discounts_refuses()"
    )


def downgrade() -> None:
    op.drop_table("discounts")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION discounts_refuses()")
