"""commitments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

_TABLE = "commitments"
_TEXTS = ("name", "project", "region", "generation", "term", "owner", "team", "labels")
_SAID = "the table commitments is only added to; each row may be withdrawn, once"

_NOT_NULL = ("id", *_TEXTS, "chips", "start_at", "end_at", "recorded_at", "recorded_by")
_OTHER = " OR ".join(f"NEW.{name} <> OLD.{name}" for name in _NOT_NULL)
_RATE = "coalesce(NEW.contract_nanos, 0) <> coalesce(OLD.contract_nanos, 0)"
_NO_WITHDRAWAL = f"OLD.withdrawn_at IS NOT NULL OR NEW.withdrawn_at IS NULL OR {_RATE} OR {_OTHER}"


def upgrade() -> None:
    """Committed-use discounts as their buyers recorded them; no row is rewritten or deleted."""
    op.create_table(
        _TABLE,
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("chips", sa.Integer(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("contract_nanos", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.CheckConstraint("chips > 0", name=op.f("ck_commitments_has_chips")),
        sa.CheckConstraint("end_at > start_at", name=op.f("ck_commitments_ends_after_start")),
        sa.CheckConstraint("contract_nanos > 0", name=op.f("ck_commitments_has_a_rate")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commitments")),
    )
    if op.get_bind().dialect.name == "sqlite":
        _on_sqlite()
    else:
        _on_postgresql()


def _on_sqlite() -> None:
    for name, change in (
        ("update", f"UPDATE ON {_TABLE} WHEN {_NO_WITHDRAWAL}"),
        ("delete", f"DELETE ON {_TABLE}"),
    ):
        op.execute(
            f"CREATE TRIGGER {_TABLE}_refuses_{name} BEFORE {change}"
            f" BEGIN SELECT RAISE(ABORT, '{_SAID}'); END"
        )
    op.execute(
        f"CREATE TRIGGER {_TABLE}_refuses_replacement BEFORE INSERT ON {_TABLE}"  # noqa: S608
        f" BEGIN SELECT RAISE(ABORT, '{_SAID}') FROM {_TABLE}"
        " WHERE rowid = NEW.rowid OR id = NEW.id; END"
    )


def _on_postgresql() -> None:
    op.execute(
        f"CREATE FUNCTION {_TABLE}_refuses() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{_SAID}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {_TABLE}_refuses_removal BEFORE DELETE OR TRUNCATE ON {_TABLE}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_refuses()"
    )
    op.execute(
        f"CREATE TRIGGER {_TABLE}_refuses_changes BEFORE UPDATE ON {_TABLE}"
        f" FOR EACH ROW WHEN ({_NO_WITHDRAWAL}) EXECUTE FUNCTION {_TABLE}_refuses()"
    )


def downgrade() -> None:
    op.drop_table(_TABLE)
    if op.get_bind().dialect.name != "sqlite":
        op.execute(f"DROP FUNCTION {_TABLE}_refuses()")
