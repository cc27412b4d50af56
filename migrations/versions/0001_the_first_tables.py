"""the first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table, and let three of them only be added to."""
    op.create_table(
        "daily_costs",
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("accelerator_type", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("amount_nanos", sa.BigInteger(), nullable=False),
        sa.Column("chip_seconds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day",
            "team",
            "owner",
            "job",
            "generation",
            "accelerator_type",
            "model",
            "zone",
            "project",
            name=op.f("pk_daily_costs"),
        ),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_events_node_id_id"), ["node_id", "id"], unique=False)

    op.create_table(
        "leases",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_leases")),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("chips", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_since", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("cloud_id", sa.Text(), nullable=False),
        sa.Column("cloud_uid", sa.Text(), nullable=False),
        sa.Column("health", sa.Text(), nullable=False),
        sa.Column("endpoints", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("up_since", sa.BigInteger(), nullable=True),
        sa.Column("replacing", sa.Boolean(), nullable=False),
        sa.Column("gave_up", sa.Boolean(), nullable=False),
        sa.Column("delete_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("delete_reason", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("posted_nanos", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_seconds", sa.BigInteger(), nullable=False),
        sa.Column("price_key", sa.Text(), nullable=False),
        sa.Column("metered_from", sa.BigInteger(), nullable=True),
        sa.Column("metered_until", sa.BigInteger(), nullable=True),
        sa.Column("view", sa.Text(), nullable=False),
        sa.Column("view_format", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
    )
    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_nodes_next_try_at"),
            ["next_try_at"],
            unique=False,
            sqlite_where=sa.text("next_try_at IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_nodes_open",
            ["project", "zone", "cloud_id"],
            unique=False,
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        )
        batch_op.create_index(batch_op.f("ix_nodes_owner_id"), ["owner", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_project_id"), ["project", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_state_id"), ["state", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_team_id"), ["team", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_nodes_zone_id"), ["zone", "id"], unique=False)
        batch_op.create_index(
            "uq_nodes_live_name",
            ["project", "name"],
            unique=True,
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        )

    op.create_table(
        "prices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=False),
        sa.Column("effective_from", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("nanos > 0", name=op.f("ck_prices_more_than_zero")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prices")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_idempotency_keys_node_id")
        ),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "node_labels",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_node_labels_node_id")),
        sa.PrimaryKeyConstraint("node_id", "key", name=op.f("pk_node_labels")),
    )
    with op.batch_alter_table("node_labels", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_node_labels_key_value"), ["key", "value"], unique=False
        )

    op.create_table(
        "observations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("cloud_uid", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("happened_at", sa.BigInteger(), nullable=True),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_observations_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
    )
    with op.batch_alter_table("observations", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_observations_node_id_observed_at"),
            ["node_id", "observed_at"],
            unique=False,
        )

    op.create_table(
        "placements",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("cloud_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_placements_node_id")),
        sa.PrimaryKeyConstraint("node_id", "attempt", name=op.f("pk_placements")),
        sa.UniqueConstraint("cloud_id", name=op.f("uq_placements_cloud_id")),
    )
    op.create_table(
        "usage",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("single_device", sa.Boolean(), nullable=False),
        sa.Column("accelerator_type", sa.Text(), nullable=False),
        sa.Column("chips", sa.Integer(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("start_hi", sa.BigInteger(), nullable=False),
        sa.Column("start_evidence", sa.Text(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("end_lo", sa.BigInteger(), nullable=True),
        sa.Column("end_evidence", sa.Text(), nullable=True),
        sa.Column("free", sa.Text(), nullable=False),
        sa.Column("posted_until", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_seconds", sa.BigInteger(), nullable=False),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "end_at IS NULL OR end_at >= start_at", name=op.f("ck_usage_ends_after_start")
        ),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_usage_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    with op.batch_alter_table("usage", schema=None) as batch_op:
        batch_op.create_index(
            "ix_usage_dirty",
            ["dirty"],
            unique=False,
            sqlite_where=sa.text("dirty"),
            postgresql_where=sa.text("dirty"),
        )
        batch_op.create_index(batch_op.f("ix_usage_end_at"), ["end_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_usage_node_id_start_at"), ["node_id", "start_at"], unique=False
        )
        batch_op.create_index("ix_usage_start_at", ["start_at"], unique=False)
        batch_op.create_index(
            "ix_usage_unpriced",
            ["start_at"],
            unique=False,
            sqlite_where=sa.text("unpriced_seconds > 0"),
            postgresql_where=sa.text("unpriced_seconds > 0"),
        )
        batch_op.create_index(
            "uq_usage_one_open",
            ["node_id"],
            unique=True,
            sqlite_where=sa.text("end_at IS NULL"),
            postgresql_where=sa.text("end_at IS NULL"),
        )

    op.create_table(
        "ledger",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("usage_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("charge_start", sa.BigInteger(), nullable=False),
        sa.Column("charge_end", sa.BigInteger(), nullable=False),
        sa.Column("chip_seconds", sa.BigInteger(), nullable=False),
        sa.Column("price_id", sa.Text(), nullable=False),
        sa.Column("price_nanos", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanos", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("posted_at", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("accelerator_type", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["usage_id"], ["usage.id"], name=op.f("fk_ledger_usage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
        sa.UniqueConstraint("key", name=op.f("uq_ledger_key")),
    )
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.create_index("ix_ledger_hour", ["hour"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_ledger_node_id_hour"), ["node_id", "hour"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_ledger_usage_id_hour"), ["usage_id", "hour"], unique=False
        )
    _refuse_changes("ledger")
    _refuse_changes("observations")
    _refuse_changes("events")


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
