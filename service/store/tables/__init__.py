"""The tables. Instants are whole UTC seconds, money whole nano-dollars, documents JSON text."""

from __future__ import annotations

from service.store.tables.bills import bill_lines, bill_rows, bills
from service.store.tables.books import (
    attributions,
    daily_costs,
    discounts,
    forecasts,
    ledger,
    node_days,
    prices,
    usage,
    usage_versions,
)
from service.store.tables.cleanup import (
    cleanup_history,
    cleanup_links,
    cleanup_plans,
    cleanups,
    heartbeat_tokens,
    heartbeats,
    idle_courses,
    idle_policies,
    idle_rollups,
)
from service.store.tables.fleet import (
    events,
    idempotency_keys,
    leases,
    log_releases,
    node_labels,
    nodes,
    observations,
    orphans,
    placements,
    quotas,
)
from service.store.tables.jobs import job_attempts, jobs
from service.store.tables.limits import alerts, budgets, holds, notifications, refusals
from service.store.tables.purchases import commitments, reservations
from service.store.tables.revisions import revisions
from service.store.tables.schema import metadata

__all__ = [
    "alerts",
    "attributions",
    "bill_lines",
    "bill_rows",
    "bills",
    "budgets",
    "cleanup_history",
    "cleanup_links",
    "cleanup_plans",
    "cleanups",
    "commitments",
    "daily_costs",
    "discounts",
    "events",
    "forecasts",
    "heartbeat_tokens",
    "heartbeats",
    "holds",
    "idempotency_keys",
    "idle_courses",
    "idle_policies",
    "idle_rollups",
    "job_attempts",
    "jobs",
    "leases",
    "ledger",
    "log_releases",
    "metadata",
    "node_days",
    "node_labels",
    "nodes",
    "notifications",
    "observations",
    "orphans",
    "placements",
    "prices",
    "quotas",
    "refusals",
    "reservations",
    "revisions",
    "usage",
    "usage_versions",
]
