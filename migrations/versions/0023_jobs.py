"""Jobs, their attempts, and who is charged for each node now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

_TEXT = ("project", "spec", "owner", "team", "labels", "node_request", "node_id")
_PAYERS = {"payer_owner": "", "payer_team": "", "payer_labels": "{}", "payer_job": ""}
_ENDS = ("reason", "detail", "exit_codes")


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in (*_TEXT, "state", *_ENDS)),
        sa.Column("own_node", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("state_since", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("preemptions", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("image_digest", sa.Text, nullable=False),
        sa.Column("image_checked_at", sa.BigInteger),
        sa.Column("cancel_requested_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("next_try_at", sa.BigInteger),
        sa.Column("warnings", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    due = sa.text("next_try_at IS NOT NULL")
    op.create_index("ix_jobs_next_try_at", "jobs", ["next_try_at"], sqlite_where=due)
    op.create_index("ix_jobs_project_id", "jobs", ["project", "id"])
    op.create_index("ix_jobs_node_id_created_at", "jobs", ["node_id", "created_at", "id"])
    op.create_table(
        "job_attempts",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("node_id", sa.Text, nullable=False),
        *(sa.Column(n, sa.Text, nullable=False) for n in ("project", "zone", "phase", "action")),
        *(sa.Column(n, sa.Text, nullable=False) for n in ("reports", "stop_reason", "evidence")),
        *(sa.Column(name, sa.Text, nullable=False) for name in _ENDS),
        *(sa.Column(n, sa.Integer, nullable=False) for n in ("number", "placement", "generation")),
        sa.Column("claimed_at", sa.BigInteger, nullable=False),
        sa.Column("phase_since", sa.BigInteger, nullable=False),
        *(
            sa.Column(n, sa.BigInteger)
            for n in ("ready_at", "written_at", "read_at", "answered_at")
        ),
        sa.Column("echoed", sa.Boolean, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("released_at", sa.BigInteger),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job_attempts"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_attempts_job_id"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_job_attempts_node_id"),
    )
    numbers = ["job_id", "number"]
    op.create_index("uq_job_attempts_job_id_number", "job_attempts", numbers, unique=True)
    op.create_index("ix_job_attempts_node_id", "job_attempts", ["node_id"])
    _add_payers()
    claimed = sa.text("released_at IS NULL")
    op.create_index(
        "uq_job_attempts_claim",
        "job_attempts",
        ["node_id"],
        unique=True,
        sqlite_where=claimed,
        postgresql_where=claimed,
    )


def _add_payers() -> None:
    """Until now a node was charged to its own owner, team and labels."""
    for name, default in _PAYERS.items():
        default_text = sa.text(f"'{default}'")
        op.add_column(
            "nodes", sa.Column(name, sa.Text, nullable=False, server_default=default_text)
        )
    op.execute("UPDATE nodes SET payer_owner = owner, payer_team = team, payer_labels = labels")


def downgrade() -> None:
    op.drop_table("job_attempts")
    op.drop_table("jobs")
    for name in _PAYERS:
        op.drop_column("nodes", name)
