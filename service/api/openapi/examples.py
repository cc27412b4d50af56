"""Examples for the OpenAPI document: one for each request body and each kind of problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.api.http.problems import ProblemKind, members_of

_NODE = {
    "name": "trainer",
    "accelerator_type": "v5litepod-16",
    "zone": "us-west4-a",
    "framework": {"name": "jax"},
    "provisioning_model": "spot",
    "team": "vision",
    "ttl_seconds": 14_400,
}

BODIES: Mapping[str, Any] = {
    "request_node": _NODE,
    "reimage_node": {"framework": {"name": "tensorflow", "version": "2.15"}},
    "update_node": {"owner": "grace", "ttl_seconds": 14_400, "labels": {"run": "18"}},
    "send_heartbeat": {"expires_seconds": 900, "note": "epoch 7"},
    "keep_node": {"for_seconds": 14_400, "reason": "a demo on Friday"},
    "submit_job": {
        "image": "us-docker.pkg.dev/lab/train/jax:7",
        "command": ["python", "train.py"],
        "env": {"BATCH": "1024"},
        "node_spec": {"accelerator_type": "v5litepod-16", "provisioning_model": "spot"},
        "checkpoint_dir": "gs://lab-checkpoints/run-17",
        "team": "vision",
    },
    "delete_orphan": {"confirm": "projects/lab/locations/us-west4-a/nodes/unknown-node"},
    "adopt_orphan": {"name": "trainer", "owner": "ada", "team": "vision"},
    "estimate": {
        "accelerator_type": "v5litepod-16",
        "regions": ["us-west4"],
        "duration_seconds": 14_400,
    },
    "plan_hardware": {"hbm_gib": 512, "flops": "1.8e20", "deadline_seconds": 86_400},
    "add_price": {
        "generation": "v5e",
        "provisioning_model": "on_demand",
        "region": "us-west4",
        "usd": "1.10",
        "source": "our contract",
    },
    "add_discount": {
        "percent": "12.5",
        "generation": "v5e",
        "provisioning_model": "on_demand",
        "source": "our contract",
    },
    "end_discount": {},
    "record_reservation": {
        "name": "autumn",
        "zone": "us-west4-a",
        "generation": "v5e",
        "chips": 64,
        "starts_at": "2026-12-01T00:00:00Z",
        "ends_at": "2026-12-15T00:00:00Z",
        "team": "infra",
    },
    "record_commitment": {
        "name": "base-2026",
        "region": "us-west4",
        "generation": "v5e",
        "chips": 64,
        "term": "1y",
        "starts_at": "2026-11-01T00:00:00Z",
        "team": "infra",
    },
    "create_budget": {
        "name": "vision each month",
        "amount": "5000",
        "period": "month",
        "scope": {"team": "vision"},
        "thresholds": [50, 80, {"of": "forecast", "percent": 100}],
        "on_exceeded": "refuse",
    },
    "change_budget": {"amount": "8000", "thresholds": [80, 100]},
    "resolve_runtime": {
        "accelerator_type": "v5litepod-16",
        "framework": {"name": "pytorch"},
    },
    "plan_cleanup": {"project": "lab"},
    "apply_cleanup": {"plan_id": "5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"},
    "pause_cleanup": {"project": "lab", "reason": "a demo on Friday"},
    "resume_cleanup": {"project": "lab"},
    "set_cleanup_policy": {
        "idle_after_seconds": 3_600,
        "grace_seconds": 900,
        "action": "delete",
        "recipients": [{"emails": ["ada@example.com"]}],
    },
}
"""A body that the service accepts, by operation. The body of `reconcile_bill` is a file."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """When a problem is answered: the path, the detail, and the facts beside the members that every
    problem has."""

    path: str
    detail: str
    facts: Mapping[str, Any] = field(default_factory=dict)


_NODES, _TRAINER, _JOBS = "/v1/nodes", "/v1/nodes/trainer", "/v1/jobs"
_LOGS = "/v1/jobs/019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11/logs"
_IMAGE = "us-docker.pkg.dev/lab/train/jax:7"

_QUOTA = {
    "id": "6394c5a89fe963183310c9a74654a62b",
    "limit": "TPUV5s",
    "allowed": 0,
    "needed_chips": 16,
    "needed_cores": 16,
    "where": "us-west4",
    "zones": ["us-west4-a"],
    "observed_at": "2026-11-05T11:59:00Z",
    "believed_until": "2026-11-06T11:59:00Z",
    "said": "Quota limit 'TPUV5s' has been exceeded. Limit: 0 in region us-west4.",
}

OCCASIONS: Mapping[str, Occasion] = {
    "malformed-body": Occasion(
        _NODES,
        "the body is not JSON: Expecting property name enclosed in double quotes at character 1",
    ),
    "unreadable-address": Occasion(_NODES, "an address cannot hold a NUL character"),
    "unauthorized": Occasion(_NODES, "send the header Authorization: Bearer <STEWARD_ADMIN_TOKEN>"),
    "budget-exceeded": Occasion(
        _NODES,
        "the budget 'vision each month' has $20.00 left until 2026-12-01T00:00:00Z, and this node"
        " may cost $76.80 by then; a ttl_seconds of at most 3690 would fit",
        {
            "budget": "vision each month",
            "budget_id": "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11",
            "amount": "5000.000000000",
            "spent": "4980.000000000",
            "held": "0.000000000",
            "held_known": "0.000000000",
            "resets_at": "2026-12-01T00:00:00Z",
            "asked": "76.800000000",
            "left": "20.000000000",
            "longest_ttl_seconds": 3_690,
        },
    ),
    "cross-site-request": Occasion(
        _NODES, "a page of another site may change nothing here: Origin and Host have to agree"
    ),
    "token-refused": Occasion(
        f"{_TRAINER}/heartbeat", "this token is not valid for heartbeats of this node"
    ),
    "not-found": Occasion(_TRAINER, "there is no node 'trainer'"),
    "method-not-allowed": Occasion(
        "/v1/runtimes:resolve", "GET is not possible here; POST would be"
    ),
    "body-stalled": Occasion(
        _NODES, "nothing of the body came for too long, or it came too slowly; send it again"
    ),
    "conflict": Occasion(
        _NODES,
        "a node named 'trainer' is alive in project lab; take another name, or delete it first",
        {"node_id": "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"},
    ),
    "stale-version": Occasion(_TRAINER, "node trainer was changed by someone else just now"),
    "412-stale-version": Occasion(
        _TRAINER, "the node was changed since; it is at version 4", {"version": 4}
    ),
    "lease-lost": Occasion(_NODES, "another daemon acts for project lab now"),
    "body-too-large": Occasion(
        _NODES,
        "a body has at most 1048576 bytes (1 MiB); send less",
        {"limit_bytes": 1_048_576},
    ),
    "unsupported-media-type": Occasion(
        _NODES, "send a JSON object, with the header Content-Type: application/json"
    ),
    "misdirected-request": Occasion(
        _NODES,
        "without an admin token the service answers as localhost only; use that name, or set"
        " STEWARD_ADMIN_TOKEN",
    ),
    "invalid-request": Occasion(
        _NODES,
        "ttl_seconds: should be greater than 0",
        {"errors": [{"field": "ttl_seconds", "message": "should be greater than 0"}]},
    ),
    "rejected": Occasion(
        _NODES,
        "this service has no project 'theirs'; it has lab",
        {"field": "project", "projects": ["lab"]},
    ),
    "unknown-accelerator-type": Occasion(
        _NODES, "there is no accelerator type 'v5e-8'", {"closest": ["v5litepod-8", "v5p-8"]}
    ),
    "not-offered": Occasion(
        _NODES,
        "v5litepod-16 is not offered in us-central2-b",
        {"offered_in": ["us-west4-a", "us-central1-a"]},
    ),
    "runtime-mismatch": Occasion(
        _NODES,
        "v2-alpha-tpuv4 is for v4; v5litepod-16 is v5e",
        {"compatible": ["v2-alpha-tpuv5-lite"]},
    ),
    "quota-too-small": Occasion(
        _NODES,
        "v5litepod-16 (on_demand) fits no quota: us-west4-a cannot hold 16 chips: Google's limit"
        " TPUV5s is 0 in us-west4",
        {"quotas": [_QUOTA], "other_zones": ["us-central1-a"]},
    ),
    "image-not-found": Occasion(
        _JOBS,
        f"the registry us-docker.pkg.dev has no image {_IMAGE}: correct the name, the tag or the"
        " digest, or push the image",
        {"field": "image", "image": _IMAGE},
    ),
    "image-denied": Occasion(
        _JOBS,
        f"the registry us-docker.pkg.dev does not show the image {_IMAGE}",
        {"field": "image", "image": _IMAGE},
    ),
    "no-such-platform": Occasion(
        _JOBS,
        f"the image {_IMAGE} is built for linux/arm64, but the nodes need linux/amd64",
        {"field": "image", "wanted": "linux/amd64", "platforms": ["linux/arm64"]},
    ),
    "rate-limited": Occasion(
        "/v1/exports/focus", "4 exports are in progress; retry this one later"
    ),
    "head-too-large": Occasion(_NODES, "send fewer headers, or shorter ones"),
    "internal-error": Occasion(_NODES, "the log of the service says more under this X-Request-Id"),
    "cloud-error": Occasion(_LOGS, "Google answered with an error that is not known"),
    "cloud-denied": Occasion(_LOGS, "Permission 'logging.logEntries.list' denied"),
    "cloud-refused": Occasion(_LOGS, "Google does not accept the request"),
    "cloud-name-taken": Occasion(_NODES, "the name is taken in the project"),
    "cloud-not-found": Occasion(_LOGS, "Google has no such resource"),
    "capacity-unavailable": Occasion(_NODES, "There is no more capacity in the zone us-west4-a"),
    "quota-exceeded": Occasion(_NODES, "the quota of the project is used up in us-west4"),
    "cloud-unavailable": Occasion(_LOGS, "Google does not answer"),
    "store-unavailable": Occasion(
        _NODES, "the database has no tables yet; run: tpu-steward migrate"
    ),
    "too-many-connections": Occasion(_NODES, "all connections are in use; try again in a moment"),
}
"""One for each slug that the service answers with. 412 has facts that 409 lacks."""


def problem_example(kind: ProblemKind) -> dict[str, object]:
    """A problem document of this kind."""
    occasion = OCCASIONS.get(f"{kind.status}-{kind.slug}") or OCCASIONS[kind.slug]
    return members_of(kind, occasion.path, occasion.detail, occasion.facts)
