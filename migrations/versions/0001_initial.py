"""Every table, and the triggers that let some of them only be added to."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None

ADDED_TO: Mapping[str, str] = {
    "attributions": "rowid = NEW.rowid OR (node_id = NEW.node_id AND since = NEW.since)",
    "usage_versions": "rowid = NEW.rowid",
    "discounts": "rowid = NEW.rowid OR number = NEW.number",
    "events": "rowid = NEW.rowid",
    "ledger": "rowid = NEW.rowid OR key = NEW.key",
    "observations": "rowid = NEW.rowid",
    "prices": "rowid = NEW.rowid OR id = NEW.id",
}
"""The tables that are only added to, and which row of each a new one would replace. Every amount
rests on what stands in them."""

BOUGHT: Mapping[str, tuple[str, ...]] = {
    "commitments": (
        *("name", "project", "region", "generation", "term", "owner", "team", "labels", "chips"),
        *("start_at", "end_at", "recorded_at", "recorded_by"),
    ),
    "reservations": (
        *("name", "project", "zone", "generation", "chips", "start_at", "end_at", "owner", "team"),
        *("labels", "recorded_at", "recorded_by"),
    ),
}
"""The tables of which a row may be withdrawn, once, and the columns of each that stay as they were
written. None of these can be NULL."""

MAY_BE_NULL: Mapping[str, tuple[str, ...]] = {"commitments": ("contract_nanos",)}
"""Numbers above zero that stay as well, and that not every row has."""


def upgrade() -> None:
    """Make everything."""
    _make_tables()
    for table, same in ADDED_TO.items():
        said = f"the table {table} is only added to"
        if op.get_bind().dialect.name == "sqlite":
            for change in ("UPDATE", "DELETE"):
                _refuse_on_sqlite(table, change, f"{change} ON {table}", said)
            _refuse_replacement(table, same, said)
        else:
            _refusing_function(table, said)
            _refuse_on_postgresql(table, "changes", "UPDATE OR DELETE OR TRUNCATE", "STATEMENT")
    for table in BOUGHT:
        _withdraw_once(table)


def downgrade() -> None:
    """There is nothing before this."""
    raise NotImplementedError("the first migration is not undone; drop the database instead")


def _withdraw_once(table: str) -> None:
    said = f"the table {table} is only added to; each row may be withdrawn, once"
    changes = [f"NEW.{name} <> OLD.{name}" for name in ("id", *BOUGHT[table])]
    changes += [
        f"coalesce(NEW.{name}, 0) <> coalesce(OLD.{name}, 0)" for name in MAY_BE_NULL.get(table, ())
    ]
    no_withdrawal = " OR ".join(
        ("OLD.withdrawn_at IS NOT NULL", "NEW.withdrawn_at IS NULL", *changes)
    )
    if op.get_bind().dialect.name == "sqlite":
        _refuse_on_sqlite(table, "UPDATE", f"UPDATE ON {table} WHEN {no_withdrawal}", said)
        _refuse_on_sqlite(table, "DELETE", f"DELETE ON {table}", said)
        _refuse_replacement(table, "rowid = NEW.rowid OR id = NEW.id", said)
    else:
        _refusing_function(table, said)
        _refuse_on_postgresql(table, "removal", "DELETE OR TRUNCATE", "STATEMENT")
        _refuse_on_postgresql(table, "changes", "UPDATE", f"ROW WHEN ({no_withdrawal})")


def _refuse_on_sqlite(table: str, name: str, change: str, said: str) -> None:
    op.execute(
        f"CREATE TRIGGER {table}_refuses_{name.lower()} BEFORE {change}"
        f" BEGIN SELECT RAISE(ABORT, '{said}'); END"
    )


def _refuse_replacement(table: str, same: str, said: str) -> None:
    """INSERT OR REPLACE takes a row away without a DELETE that a trigger of SQLite would see, and
    PostgreSQL has nothing like it."""
    op.execute(
        f"CREATE TRIGGER {table}_refuses_replacement BEFORE INSERT ON {table}"  # noqa: S608
        f" BEGIN SELECT RAISE(ABORT, '{said}') FROM {table} WHERE {same}; END"
    )


def _refusing_function(table: str, said: str) -> None:
    op.execute(
        f"CREATE FUNCTION {table}_refuses() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{said}'; END $$"
    )


def _refuse_on_postgresql(table: str, name: str, change: str, each: str) -> None:
    op.execute(
        f"CREATE TRIGGER {table}_refuses_{name} BEFORE {change} ON {table}"
        f" FOR EACH {each} EXECUTE FUNCTION {table}_refuses()"
    )


def _make_tables() -> None:
    op.create_table(
        "attributions",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "since", name=op.f("pk_attributions")),
    )
    op.create_index(
        "ix_attributions_later",
        "attributions",
        ["since"],
        unique=False,
        sqlite_where=sa.text("since > 0"),
        postgresql_where=sa.text("since > 0"),
    )
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
        sa.Column("periods", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("invoices", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("joined", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("joined_into", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("is_alone", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("commitments", sa.Text(), server_default=sa.text("'null'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bills")),
    )
    op.create_index(
        "uq_bills_same_file",
        "bills",
        ["digest", "tolerance", "is_alone"],
        unique=True,
        sqlite_where=sa.text("finished_at IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NOT NULL"),
    )
    op.create_table(
        "budgets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("team", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("job", sa.Text(), nullable=True),
        sa.Column("label_key", sa.Text(), nullable=True),
        sa.Column("label_value", sa.Text(), nullable=True),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("tz", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("thresholds", sa.Text(), nullable=False),
        sa.Column("on_exceeded", sa.Text(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=True),
        sa.Column("end", sa.BigInteger(), nullable=True),
        sa.Column("burn_rate", sa.BigInteger(), nullable=True),
        sa.Column("grace_seconds", sa.BigInteger(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("emails", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount > 0", name=op.f("ck_budgets_more_than_zero")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        sa.UniqueConstraint("name", name=op.f("uq_budgets_name")),
    )
    op.create_table(
        "cleanup_plans",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cleanup_plans")),
    )
    op.create_index(op.f("ix_cleanup_plans_as_of"), "cleanup_plans", ["as_of"], unique=False)
    op.create_table(
        "cleanups",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("ticked_at", sa.BigInteger(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=False),
        sa.Column("pause_reason", sa.Text(), nullable=False),
        sa.Column("pauses", sa.Integer(), nullable=False),
        sa.Column("breaker", sa.Text(), nullable=False),
        sa.Column("families", sa.Text(), nullable=False),
        sa.Column("mass_since", sa.BigInteger(), nullable=True),
        sa.Column("holds", sa.Text(), nullable=False),
        sa.Column("waiting", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_cleanups")),
    )
    op.create_table(
        "commitments",
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
        sa.CheckConstraint("contract_nanos > 0", name=op.f("ck_commitments_has_a_rate")),
        sa.CheckConstraint("end_at > start_at", name=op.f("ck_commitments_ends_after_start")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commitments")),
    )
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
        sa.Column("list_nanos", sa.BigInteger(), server_default="0", nullable=False),
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
        sa.CheckConstraint(
            "effective_until >= effective_from", name=op.f("ck_discounts_ends_after_it_began")
        ),
        sa.CheckConstraint("ppm > 0 AND ppm < 1000000", name=op.f("ck_discounts_is_a_share")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_discounts")),
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
    op.create_index(op.f("ix_events_node_id_id"), "events", ["node_id", "id"], unique=False)
    op.create_table(
        "forecasts",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("low_nanos", sa.BigInteger(), nullable=False),
        sa.Column("mid_nanos", sa.BigInteger(), nullable=False),
        sa.Column("high_nanos", sa.BigInteger(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("actual_nanos", sa.BigInteger(), nullable=True),
        sa.Column("scored_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("scope", "start_at", "day", name=op.f("pk_forecasts")),
    )
    op.create_index("ix_forecasts_day", "forecasts", ["day"], unique=False)
    op.create_table(
        "log_releases",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_log_releases")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("led_to", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "idle_policies",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("recipients", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_idle_policies")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("own_node", sa.Boolean(), nullable=False),
        sa.Column("node_request", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_since", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("exit_codes", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("image_digest", sa.Text(), nullable=False),
        sa.Column("image_checked_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("next_try_at", sa.BigInteger(), nullable=True),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(
        op.f("ix_jobs_next_try_at"),
        "jobs",
        ["next_try_at"],
        unique=False,
        sqlite_where=sa.text("next_try_at IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_node_id_created_at", "jobs", ["node_id", "created_at", "id"], unique=False
    )
    op.create_index(op.f("ix_jobs_project_id"), "jobs", ["project", "id"], unique=False)
    op.create_table(
        "leases",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("held_since", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_leases")),
    )
    op.create_index("uq_leases_epoch", "leases", ["project", "epoch", "holder"], unique=True)
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
        sa.Column("labels", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint(
            "day",
            "node_id",
            "since",
            "zone",
            "accelerator_type",
            "model",
            name=op.f("pk_node_days"),
        ),
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
        sa.Column("unanswered_at", sa.BigInteger(), nullable=True),
        sa.Column("queue_state", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("slices_seen", sa.Text(), server_default="[]", nullable=False),
        sa.Column("tails", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("queue_since", sa.BigInteger(), nullable=True),
        sa.Column("alarmed_at", sa.BigInteger(), nullable=True),
        sa.Column("missed_at", sa.BigInteger(), nullable=True),
        sa.Column("misses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("replacing_since", sa.BigInteger(), nullable=True),
        sa.Column("payer_owner", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("payer_team", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("payer_labels", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("payer_job", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("kept_until", sa.BigInteger(), nullable=True),
        sa.Column("kept_because", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("ends_after_keep", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("view", sa.Text(), nullable=False),
        sa.Column("view_format", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
    )
    op.create_index(
        op.f("ix_nodes_next_try_at"),
        "nodes",
        ["next_try_at"],
        unique=False,
        sqlite_where=sa.text("next_try_at IS NOT NULL"),
    )
    op.create_index(
        "ix_nodes_open",
        "nodes",
        ["project", "zone", "cloud_id"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(op.f("ix_nodes_owner_id"), "nodes", ["owner", "id"], unique=False)
    op.create_index(op.f("ix_nodes_project_id"), "nodes", ["project", "id"], unique=False)
    op.create_index(op.f("ix_nodes_state_id"), "nodes", ["state", "id"], unique=False)
    op.create_index(op.f("ix_nodes_team_id"), "nodes", ["team", "id"], unique=False)
    op.create_index(op.f("ix_nodes_zone_id"), "nodes", ["zone", "id"], unique=False)
    op.create_index(
        "uq_nodes_live_name",
        "nodes",
        ["project", "name"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "notifications",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("about_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("next_try_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("about_kind", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    op.create_index(
        op.f("ix_notifications_about_kind_about_id_created_at"),
        "notifications",
        ["about_kind", "about_id", "created_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_notifications_next_try_at"), "notifications", ["next_try_at"], unique=False
    )
    op.create_table(
        "orphans",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("certain", sa.Boolean(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("next_try_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orphans")),
    )
    op.create_index(
        op.f("ix_orphans_project_next_try_at"), "orphans", ["project", "next_try_at"], unique=False
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
        "quotas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("generation", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("size", sa.Text(), nullable=False),
        sa.Column("allowed", sa.BigInteger(), nullable=False),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.Column("said", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
    )
    op.create_index(
        op.f("ix_quotas_project_observed_at"), "quotas", ["project", "observed_at"], unique=False
    )
    op.create_table(
        "refusals",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refusals")),
    )
    op.create_index(op.f("ix_refusals_budget_id_id"), "refusals", ["budget_id", "id"], unique=False)
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
    op.create_table(
        "revisions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part", name=op.f("pk_revisions")),
    )
    op.create_table(
        "usage",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
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
        sa.Column("slice", sa.Integer(), server_default="-1", nullable=False),
        sa.Column("reservation", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("vm", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("vm_model", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("post_after", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "end_at IS NULL OR end_at >= start_at", name=op.f("ck_usage_ends_after_start")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    op.create_index(
        "ix_usage_dirty",
        "usage",
        ["dirty"],
        unique=False,
        sqlite_where=sa.text("dirty = 1"),
        postgresql_where=sa.text("dirty"),
    )
    op.create_index(op.f("ix_usage_end_at"), "usage", ["end_at"], unique=False)
    op.create_index(
        op.f("ix_usage_node_id_start_at"), "usage", ["node_id", "start_at"], unique=False
    )
    op.create_index(
        "ix_usage_purchases",
        "usage",
        ["end_at"],
        unique=False,
        sqlite_where=sa.text("start_evidence = 'purchase'"),
        postgresql_where=sa.text("start_evidence = 'purchase'"),
    )
    op.create_index(
        "ix_usage_reserved",
        "usage",
        ["start_at"],
        unique=False,
        sqlite_where=sa.text("model = 'reserved'"),
        postgresql_where=sa.text("model = 'reserved'"),
    )
    op.create_index("ix_usage_start_at", "usage", ["start_at"], unique=False)
    op.create_index(
        "ix_usage_uncertain",
        "usage",
        ["start_at"],
        unique=False,
        sqlite_where=sa.text("start_hi > start_at OR end_lo < end_at"),
        postgresql_where=sa.text("start_hi > start_at OR end_lo < end_at"),
    )
    op.create_index(
        "ix_usage_unpriced",
        "usage",
        ["start_at"],
        unique=False,
        sqlite_where=sa.text("unpriced_seconds > 0"),
        postgresql_where=sa.text("unpriced_seconds > 0"),
    )
    op.create_index(
        "uq_usage_one_open",
        "usage",
        ["node_id", "slice"],
        unique=True,
        sqlite_where=sa.text("end_at IS NULL"),
        postgresql_where=sa.text("end_at IS NULL"),
    )
    op.create_table(
        "alerts",
        sa.Column("budget_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("period", sa.BigInteger(), nullable=False),
        sa.Column("fired_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], name=op.f("fk_alerts_budget_id")),
        sa.PrimaryKeyConstraint("budget_id", "kind", name=op.f("pk_alerts")),
    )
    op.create_table(
        "usage_versions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("usage_id", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("start_hi", sa.BigInteger(), nullable=False),
        sa.Column("start_evidence", sa.Text(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("end_lo", sa.BigInteger(), nullable=True),
        sa.Column("end_evidence", sa.Text(), nullable=True),
        sa.Column("free", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["usage_id"], ["usage.id"], name=op.f("fk_usage_versions_usage_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_versions")),
    )
    op.create_index(
        op.f("ix_usage_versions_usage_id_id"), "usage_versions", ["usage_id", "id"], unique=False
    )
    op.create_table(
        "bill_lines",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
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
        sa.Column("reservation", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("credit_kinds", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("is_explained", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["bill_id"], ["bills.id"], name=op.f("fk_bill_lines_bill_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bill_lines")),
    )
    op.create_index(
        op.f("ix_bill_lines_bill_id_verdict_id"),
        "bill_lines",
        ["bill_id", "verdict", "id"],
        unique=False,
    )
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
        sa.Column("zone", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("copies", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("rows", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("period", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("account", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("currency", sa.Text(), server_default=sa.text("'USD'"), nullable=False),
        sa.Column("converted", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("credit_kinds", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("local_cost", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("local_credits", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("region", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("consumption_model", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(["bill_id"], ["bills.id"], name=op.f("fk_bill_rows_bill_id")),
        sa.PrimaryKeyConstraint("bill_id", "digest", name=op.f("pk_bill_rows")),
    )
    op.create_index(
        op.f("ix_bill_rows_bill_id_hour"), "bill_rows", ["bill_id", "hour"], unique=False
    )
    op.create_table(
        "cleanup_history",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("hourly", sa.BigInteger(), nullable=True),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_cleanup_history_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cleanup_history")),
    )
    op.create_index(
        op.f("ix_cleanup_history_node_id_id"), "cleanup_history", ["node_id", "id"], unique=False
    )
    op.create_index(
        op.f("ix_cleanup_history_project_id"), "cleanup_history", ["project", "id"], unique=False
    )
    op.create_index(
        "uq_cleanup_history_deletion",
        "cleanup_history",
        ["node_id", "incarnation"],
        unique=True,
        sqlite_where=sa.text("action = 'delete'"),
        postgresql_where=sa.text("action = 'delete'"),
    )
    op.create_table(
        "cleanup_links",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("notified_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_cleanup_links_node_id")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_cleanup_links")),
    )
    op.create_index(
        op.f("ix_cleanup_links_expires_at"), "cleanup_links", ["expires_at"], unique=False
    )
    op.create_index(
        op.f("ix_cleanup_links_node_id_notified_at"),
        "cleanup_links",
        ["node_id", "notified_at"],
        unique=False,
    )
    op.create_table(
        "heartbeat_tokens",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_heartbeat_tokens_node_id")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_heartbeat_tokens")),
    )
    op.create_index(
        op.f("ix_heartbeat_tokens_node_id"), "heartbeat_tokens", ["node_id"], unique=False
    )
    op.create_table(
        "heartbeats",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_heartbeats_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_heartbeats")),
    )
    op.create_table(
        "holds",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("rate_nanos", sa.BigInteger(), nullable=True),
        sa.Column("ttl_seconds", sa.BigInteger(), nullable=True),
        sa.Column("placed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_holds_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_holds")),
    )
    op.create_table(
        "idle_courses",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("notified_at", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.Text(), nullable=True),
        sa.Column("frozen_at", sa.BigInteger(), nullable=True),
        sa.Column("frozen_seconds", sa.BigInteger(), nullable=False),
        sa.Column("blind_told_at", sa.BigInteger(), nullable=True),
        sa.Column("promised_at", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("judged_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("signals", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_idle_courses_node_id")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_idle_courses")),
    )
    op.create_index(
        op.f("ix_idle_courses_project_node_id"),
        "idle_courses",
        ["project", "node_id"],
        unique=False,
    )
    op.create_table(
        "idle_rollups",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("values", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_idle_rollups_node_id")),
        sa.PrimaryKeyConstraint("node_id", "incarnation", "hour", name=op.f("pk_idle_rollups")),
    )
    op.create_index(op.f("ix_idle_rollups_hour"), "idle_rollups", ["hour"], unique=False)
    op.create_table(
        "job_attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("phase_since", sa.BigInteger(), nullable=False),
        sa.Column("placement", sa.Integer(), nullable=False),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=True),
        sa.Column("echoed", sa.Boolean(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("answering_since", sa.BigInteger(), nullable=True),
        sa.Column("reports", sa.Text(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("exit_codes", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_attempts_job_id")),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_job_attempts_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_attempts")),
    )
    op.create_index("ix_job_attempts_node_id", "job_attempts", ["node_id"], unique=False)
    op.create_index(
        "uq_job_attempts_claim",
        "job_attempts",
        ["node_id"],
        unique=True,
        sqlite_where=sa.text("released_at IS NULL"),
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_index(
        "uq_job_attempts_job_id_number", "job_attempts", ["job_id", "number"], unique=True
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
        sa.Column("since", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("period", sa.BigInteger(), nullable=True),
        sa.Column("list_price_nanos", sa.BigInteger(), nullable=True),
        sa.Column("list_nanos", sa.BigInteger(), nullable=True),
        sa.Column("corrects_id", sa.BigInteger(), nullable=True),
        sa.Column("vm_seconds", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reservation_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["usage_id"], ["usage.id"], name=op.f("fk_ledger_usage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
        sa.UniqueConstraint("key", name=op.f("uq_ledger_key")),
    )
    op.create_index("ix_ledger_hour", "ledger", ["hour"], unique=False)
    op.create_index(op.f("ix_ledger_node_id_hour"), "ledger", ["node_id", "hour"], unique=False)
    op.create_index(
        "ix_ledger_period",
        "ledger",
        ["period"],
        unique=False,
        sqlite_where=sa.text("period IS NOT NULL"),
        postgresql_where=sa.text("period IS NOT NULL"),
    )
    op.create_index(
        "ix_ledger_reservation_id_hour",
        "ledger",
        ["reservation_id", "hour"],
        unique=False,
        sqlite_where=sa.text("reservation_id IS NOT NULL"),
        postgresql_where=sa.text("reservation_id IS NOT NULL"),
    )
    op.create_index(op.f("ix_ledger_usage_id_hour"), "ledger", ["usage_id", "hour"], unique=False)
    op.create_table(
        "node_labels",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_node_labels_node_id")),
        sa.PrimaryKeyConstraint("node_id", "key", name=op.f("pk_node_labels")),
    )
    op.create_index(op.f("ix_node_labels_key_value"), "node_labels", ["key", "value"], unique=False)
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
    op.create_index(
        op.f("ix_observations_node_id_observed_at"),
        "observations",
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
        sa.Column("project", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("accelerator_type", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("generation", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("scope", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("cloud_uids", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_placements_node_id")),
        sa.PrimaryKeyConstraint("node_id", "attempt", name=op.f("pk_placements")),
        sa.UniqueConstraint("cloud_id", name=op.f("uq_placements_cloud_id")),
    )
    op.create_index(
        op.f("ix_placements_project_model_started_at"),
        "placements",
        ["project", "model", "started_at"],
        unique=False,
    )
    op.create_index("ix_placements_started_at", "placements", ["started_at"], unique=False)
