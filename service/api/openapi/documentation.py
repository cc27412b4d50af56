"""Texts of the OpenAPI document for the whole API, its tags, its operations and its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DESCRIPTION = """\
TPU Steward creates, watches and deletes the Cloud TPUs of your projects, and reports what each
one costs.

**Formats.** Bodies are JSON. Money is a decimal string in US dollars with nine places. Times are
RFC 3339 in UTC.

**Lists.** A list returns at most `page_size` items. Pass `next_page_token` as `page_token` to get
the next page. The token is empty on the last page.

**Repeats.** Send `Idempotency-Key` with a `POST` that has this header among its parameters. A
second request with the same key and body returns the first answer.

**Concurrent changes.** Send the `ETag` of a resource as `If-Match`. If the resource has changed
since, the answer is 412.

**Tokens.** Without `STEWARD_ADMIN_TOKEN` the service answers this machine only, and needs no
token. With it, send `Authorization: Bearer` and the token.

**Errors.** An error is a problem document (RFC 9457). Its `help` is the address that says what to
do next.
"""

SERVERS = [{"url": "/", "description": "The service that sent this document."}]

TAGS: Mapping[str, str] = {
    "nodes": "Create TPU nodes, follow them, change them and delete them.",
    "jobs": "Run a container on all workers of a node, and read its output.",
    "cleanup": "Find idle nodes, keep nodes, and stop or delete idle nodes by policy.",
    "orphans": "Cloud resources that no record of the service accounts for.",
    "costs": "Costs, prices, budgets, reservations, commitments, forecasts and bills.",
    "catalog": "Generations, accelerator types, zones, runtime versions, capacity and quotas.",
    "health": "Probes and metrics. The probes need no token.",
}
"""Each tag and what its operations are for, in the order in which readers meet them."""

SECURITY_SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The value of `STEWARD_ADMIN_TOKEN`. It allows everything.",
    },
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "For browsers: any user name, and the token as the password. Below `/v1` it"
        " allows reading only.",
    },
    "heartbeat": {
        "type": "http",
        "scheme": "bearer",
        "description": "A heartbeat token of one node, from"
        " `POST /v1/nodes/{node_id}/heartbeat-token`. It allows heartbeats of this node only.",
    },
}

HEARTBEAT = "send_heartbeat"
"""The one operation that also takes a heartbeat token."""

SUMMARIES: Mapping[str, str] = {
    "request_node": "Create a node",
    "list_nodes": "List nodes",
    "stop_node": "Stop a node",
    "start_node": "Start a stopped node",
    "reimage_node": "Reimage a legacy TPU Node",
    "get_node": "Get a node",
    "update_node": "Update a node",
    "delete_node": "Delete a node",
    "list_node_events": "List the events of a node",
    "get_node_cost": "Get the cost of a node",
    "list_node_ledger": "List the ledger of a node",
    "explain_ledger_entry": "Explain a ledger entry of a node",
    "get_node_connection": "Get the addresses and code to connect to a node",
    "get_fleet": "Get what runs now and its cost per hour",
    "get_waste": "Get what costs money and does no work",
    "get_agenda": "Get what needs a person and what happens next",
    "send_heartbeat": "Send a heartbeat of a node",
    "create_heartbeat_token": "Create a heartbeat token for a node",
    "keep_node": "Keep a node",
    "unkeep_node": "End the keep of a node",
    "submit_job": "Submit a job",
    "list_jobs": "List jobs",
    "get_job": "Get a job",
    "cancel_job": "Cancel a job",
    "list_job_attempts": "List the attempts of a job",
    "get_job_logs": "Read or follow the output of a job",
    "list_orphans": "List orphans",
    "delete_orphan": "Delete an orphan",
    "adopt_orphan": "Adopt an orphan as a node",
    "estimate": "Estimate the cost of hardware by zone",
    "plan_hardware": "Find hardware that fits a need",
    "list_prices": "List prices",
    "add_price": "Add a price",
    "list_discounts": "List discounts",
    "add_discount": "Add a discount",
    "end_discount": "End a discount early",
    "record_reservation": "Record a reservation",
    "list_reservations": "List reservations",
    "get_reservation": "Get a reservation",
    "withdraw_reservation": "Withdraw a wrong reservation",
    "list_reservation_ledger": "List the ledger of a reservation",
    "explain_reservation_entry": "Explain a ledger entry of a reservation",
    "record_commitment": "Record a commitment",
    "list_commitments": "List commitments",
    "report_commitment_usage": "Report the usage of commitments",
    "get_commitment": "Get a commitment",
    "withdraw_commitment": "Withdraw a wrong commitment",
    "recommend_commitments": "Recommend commitments from past usage",
    "get_costs": "Query costs by time and group",
    "list_budgets": "List budgets",
    "create_budget": "Create a budget",
    "get_budget": "Get a budget",
    "change_budget": "Update a budget",
    "delete_budget": "Delete a budget",
    "list_statements": "List monthly statements",
    "get_statement": "Get the statement of a month",
    "get_forecast": "Forecast the cost of the current period",
    "export_focus": "Export costs as FOCUS CSV",
    "reconcile_bill": "Reconcile a Google bill with the ledger",
    "list_reconciliations": "List reconciliations",
    "get_reconciliation": "Get a reconciliation",
    "delete_reconciliation": "Delete a reconciliation",
    "list_reconciliation_lines": "List the lines of a reconciliation",
    "list_generations": "List TPU generations",
    "list_accelerators": "List accelerator types",
    "list_zones": "List zones",
    "list_runtimes": "List runtime versions",
    "list_capacity": "List recent capacity by zone",
    "list_quotas": "List known quotas and their usage",
    "forget_quota": "Forget a quota limit",
    "resolve_runtime": "Find the runtime version for a framework",
    "get_health": "Check that the process answers",
    "get_readiness": "Check that the service is ready",
    "get_metrics": "Get metrics for Prometheus",
    "get_cleanup": "Get the state of the cleanup",
    "plan_cleanup": "Plan a cleanup",
    "apply_cleanup": "Apply a cleanup plan",
    "pause_cleanup": "Pause the cleanup",
    "resume_cleanup": "Resume the cleanup",
    "get_cleanup_coverage": "Get the coverage of idle signals",
    "list_cleanup_history": "List nodes that the cleanup ended",
    "get_node_idle": "Get the idle state of a node",
    "list_cleanup_policies": "List idle policies",
    "get_cleanup_policy": "Get the idle policy of a scope",
    "set_cleanup_policy": "Set the idle policy of a scope",
    "delete_cleanup_policy": "Delete the idle policy of a scope",
    "get_node_policy": "Get the idle policy of a node",
}
"""The title of each operation, by its id."""
