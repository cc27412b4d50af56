"""money."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Who is charged from when on, what was believed of usage, and what the list price was."""
    _attributions()
    _beliefs()
    _ledger()
    _rollups()
    for name in ("owner", "team"):
        op.drop_column("usage", name)
    uncertain = sa.text("start_hi > start_at OR end_lo < end_at")
    op.create_index(
        "ix_usage_uncertain",
        "usage",
        ["start_at"],
        unique=False,
        sqlite_where=uncertain,
        postgresql_where=uncertain,
    )


def _attributions() -> None:
    op.create_table(
        "attributions",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_attributions_node_id")),
        sa.PrimaryKeyConstraint("node_id", "since", name=op.f("pk_attributions")),
    )
    op.execute(
        "INSERT INTO attributions (node_id, since, owner, team, job, labels, recorded_at)"
        " SELECT id, 0, owner, team, '', labels, created_at FROM nodes"
    )
    _refuse_changes("attributions")


def _beliefs() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "beliefs",
        sa.Column("id", serial, nullable=False),
        sa.Column("usage_id", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("start_hi", sa.BigInteger(), nullable=False),
        sa.Column("start_evidence", sa.Text(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("end_lo", sa.BigInteger(), nullable=True),
        sa.Column("end_evidence", sa.Text(), nullable=True),
        sa.Column("free", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["usage_id"], ["usage.id"], name=op.f("fk_beliefs_usage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_beliefs")),
    )
    op.create_index(op.f("ix_beliefs_usage_id_id"), "beliefs", ["usage_id", "id"], unique=False)
    _refuse_changes("beliefs")


def _ledger() -> None:
    """What was posted before says nothing of its list price; its period is that of its charge."""
    op.add_column("ledger", sa.Column("since", sa.BigInteger(), nullable=False, server_default="0"))
    for name in ("period", "list_price_nanos", "list_nanos", "corrects_id"):
        op.add_column("ledger", sa.Column(name, sa.BigInteger(), nullable=True))
    corrections = sa.text("period IS NOT NULL")
    op.create_index(
        "ix_ledger_period",
        "ledger",
        ["period"],
        unique=False,
        sqlite_where=corrections,
        postgresql_where=corrections,
    )


def _rollups() -> None:
    op.add_column(
        "daily_costs", sa.Column("list_nanos", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.execute("UPDATE daily_costs SET list_nanos = amount_nanos")
    op.create_table(
        "node_days",
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("accelerator_type", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("amount_nanos", sa.BigInteger(), nullable=False),
        sa.Column("chip_seconds", sa.BigInteger(), nullable=False),
        sa.Column("list_nanos", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day", "node_id", "since", "zone", "accelerator_type", "model",
            name=op.f("pk_node_days"),
        ),
    )  # fmt: skip
    op.execute(
        "INSERT INTO node_days (day, node_id, since, zone, accelerator_type, model, generation,"
        " project, amount_nanos, chip_seconds, list_nanos)"
        " SELECT hour - hour % 86400, node_id, 0, zone, accelerator_type, model, generation,"
        " project, sum(amount_nanos), sum(chip_seconds), sum(amount_nanos) FROM ledger"
        " GROUP BY hour - hour % 86400, node_id, zone, accelerator_type, model, generation, project"
    )


def _refuse_changes(table: str) -> None:
    """What was written is never changed and never deleted, whoever tries."""
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, 'the table {table} is only added to'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_refuses() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'the table {table} is only added to'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuses()"
    )


def downgrade() -> None:
    op.drop_index("ix_usage_uncertain", "usage")
    for name in ("owner", "team"):
        op.add_column("usage", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.drop_table("node_days")
    op.drop_index("ix_ledger_period", "ledger")
    op.drop_column("daily_costs", "list_nanos")
    for name in ("since", "period", "list_price_nanos", "list_nanos", "corrects_id"):
        op.drop_column("ledger", name)
    op.drop_index(op.f("ix_beliefs_usage_id_id"), "beliefs")
    for table in ("beliefs", "attributions"):
        op.drop_table(table)
        if op.get_bind().dialect.name != "sqlite":
            op.execute(f"DROP FUNCTION {table}_refuses()")
