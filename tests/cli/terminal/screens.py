"""The documents of a lab, and the commands that show them."""

from __future__ import annotations

from typing import Any

from service.domain.commitments.recommendation import CAUTION
from tests.cli.cleanup import test_cleanup as cleanup
from tests.cli.costs import test_reconcile as reconcile
from tests.cli.costs.test_budgets import ID as BUDGET
from tests.cli.costs.test_budgets import budget
from tests.cli.costs.test_commitments import commitment, report
from tests.cli.costs.test_commitments_recommended import ONE, THREE
from tests.cli.costs.test_reservations import reservation
from tests.cli.given import ID, OTHER, node
from tests.cli.jobs.test_jobs import ATTEMPT, job
from tests.cli.nodes.test_delete import HELPER
from tests.cli.nodes.test_dry_run import share
from tests.cli.nodes.test_keeps import policy
from tests.cli.nodes.test_queue import OF_TWO
from tests.cli.nodes.test_top import AT_WORK, IDLE
from tests.cli.nodes.test_uservm import TPU_HOUR, VM_HOUR
from tests.cli.test_orphans import orphan
from tests.cli.test_quotas import QUOTA
from tests.cli.test_reports import ACCELERATOR, CAPACITY, FORECAST, LATE, PLANNED, RUNTIME, UNEVEN

IDS = [ID[:-1] + digit for digit in "3456789"]

NODES = [
    node(),
    node(
        id=IDS[0],
        name="vision-notebook-of-ada-lovelace-in-london-00001",
        provisioning_model="on_demand",
        accelerator_type="v5litepod-256",
        zone="northamerica-northeast2-a",
        hourly_cost="307.200000000",
        cost="12345.678900000",
        deletes_at=None,
        team="vision-research",
    ),
    node(id=IDS[1], name="broken", asked="absent", last_error="unavailable", cost="33.120000000"),
    node(
        id=IDS[2],
        name="waits",
        state="QUEUED",
        state_since="2026-11-04T13:59:00Z",
        zone="",
        cost="0.000000000",
        hourly_cost=None,
        team="",
    ),
    node(id=IDS[3], name="ends", asked="absent"),
]


def page(noun: str, *items: Any, **fields: Any) -> dict[str, Any]:
    return {noun: list(items), "next_page_token": "", **fields}


def row(day: int, team: str, cost: str, chip_seconds: int) -> dict[str, Any]:
    start = f"2026-11-0{day}T00:00:00Z"
    return {"start": start, "team": team, "cost": cost, "chip_seconds": chip_seconds}


COSTS = {
    "aggregate": ["team"],
    "tz": "UTC",
    "rows": [
        row(3, "vision-research", "1843.200000000", 5_529_600),
        row(3, "", "921.600000000", 2_764_800),
        row(4, "vision-research", "12.500000000", 37_500),
        row(4, "speech", "-4.250000000", -12_750),
    ],
    "total": "2773.050000000",
    "list_total": "2773.050000000",
    "uncertainty": "0.000000000",
    "unpriced_seconds": 0,
    "as_of": "2026-11-05T12:00:00Z",
    "estimated": False,
}
PRICE = {
    "generation": "v5e",
    "provisioning_model": "on_demand",
    "region": "us-west4",
    "usd": "1.200000000",
    "unit": "chip_hour",
    "effective_from": "2024-06-11T00:00:00Z",
    "source": "https://cloud.google.com/tpu/pricing, read on 2026-10-01 (hand-copied)",
    "discount": {"percent": "12.5", "usd": "1.050000000"},
}
OFFER = {"zone": "northamerica-northeast1-b", "hourly_cost": "3.476320000", "cost": "27.810560000"}
ESTIMATE = {
    "accelerator_type": "v5litepod-16",
    "chips": 16,
    "duration_seconds": 28_800,
    "estimates": [OFFER | {"provisioning_model": name} for name in ("preemptible", "spot")],
    "budgets": [
        share(),
        share(name="all-tpus-of-the-lab", on_exceeded="notify", left="-2.5", fits=False),
    ],
}
SLICES = node(
    id=OTHER,
    accelerator_types=["v5litepod-8", "v6e-8"],
    cost="120.334000000",
    ends_after_keep="2026-11-05 16:00:00 UTC, for idleness",
    keep={"until": "2026-11-05T16:00:00Z", "reason": "a demo on Friday"},
    **OF_TWO,
)
SLICES["placements"] = [
    SLICES["placements"][0]
    | {"ended_at": "2026-11-05T11:57:20Z", "outcome": "stock_out", "reason": CAPACITY["reason"]},
    SLICES["placements"][0] | {"attempt": 2},
]
STUCK = cleanup.shown(
    held_by=["keep"],
    kept_until="2026-11-05T16:00:00Z",
    limits=["STEWARD_IDLE_MODE is notify"],
    waiting=cleanup.wait("mass"),
    signals=[
        cleanup.signal("cpu"),
        cleanup.signal("device", level="UNKNOWN", reason="process 7 (python3) holds /dev/vfio/0"),
        cleanup.signal("tensorcore_idle_duration", value=3_600, worker=1),
    ],
    ended=[cleanup.ENDED | {"at": "2026-11-05T11:00:00Z", "action": "stop"}],
)
SPENT = {
    "cost": "4.879998000",
    "list_cost": "9.120000000",
    "chip_seconds": 14_400,
    "uncertainty": "0.001284222",
    "estimated": True,
    "unpriced_seconds": 95,
    "lines": [],
    "free": ["preempted in its first minute"],
    "not_included": ["disks of the node", "traffic to other regions"],
    "as_of": "2026-11-05T12:00:00Z",
}
EVENT = {"at": "2026-11-05T11:56:48Z", "kind": "asked", "actor": "ada"}
EVENTS = [
    EVENT | {"message": "v5litepod-8 (spot) in us-west4-a, or in us-east5-a if there is none"},
    EVENT | {"kind": "ready", "actor": "the lifecycle controller", "message": "READY"},
]
DETAILED_BUDGET = budget(
    alerts=[{"kind": "actual:80", "fired_at": "2026-11-05T12:00:00Z"}],
    refusals=[
        {
            "at": "2026-11-05T12:00:00Z",
            "message": "v6e-256 (on_demand) for 8h costs $5,529.60, and $32.80 are left",
        }
    ],
    notifications=[
        {
            "subject": "vision monthly: 80 % spent",
            "channel": "webhook",
            "created_at": "2026-11-05T12:00:00Z",
            "sent_at": None,
            "next_try_at": "2026-11-05T12:01:00Z",
            "last_error": "hooks.example.com answers 500",
        }
    ],
    warnings=["no recipient is notified before its nodes are deleted: add a webhook (--webhook)"],
)
FAR = "northamerica-northeast1"
RECOMMENDED = {
    "recommendations": [ONE, THREE],
    "start": "2026-08-07T00:00:00Z",
    "end": "2026-11-05T00:00:00Z",
    "days": 90,
    "caution": CAUTION,
}
HELD = cleanup.project(
    breaker_closed_at="2026-11-05T11:40:00Z",
    breaker_closed_by="ada",
    breaker_closed_reason="Monitoring is back",
    rails=[
        {
            "rail": "mass",
            "reason": "3 of 4 READY nodes are idle, more than half",
            "since": "2026-11-05T11:30:00Z",
            "until": "2026-11-05T12:30:00Z",
            "waiting": ["trainer", "vision-notebook-of-ada-lovelace-in-london-00001"],
        }
    ],
    waiting=[
        cleanup.wait("mass"),
        cleanup.wait("mass", name="vision-notebook-of-ada-lovelace-in-london-00001", place=2),
    ],
)
PLAN = cleanup.plan(
    cleanup.entry(),
    cleanup.entry(
        name="vision-notebook-of-ada-lovelace-in-london-00001",
        action="stop",
        reason="it has crashed 12 times since 2026-11-05T10:00:00Z, each time in its first minute",
        hourly_cost="307.200000000",
    ),
    held_by=["mass", "pause"],
    saves_hourly="316.800000000",
)
ENDS = [
    cleanup.ENDED | {"name": "trainer", "hourly_cost": "9.600000000"},
    cleanup.ENDED
    | {"name": "vision-notebook-of-ada-lovelace-in-london-00001", "hourly_cost": None},
]
WASTE = ["crash_loop", "no_progress"]
MAIL = [{"webhook": "https://hooks.example.com/...", "emails": ["ada@example.com"]}]
DOCUMENTS = {
    "/v1/nodes": page("nodes", *NODES),
    "/v1/fleet": {
        "hourly_cost": "414.000000000",
        "unused_reservations_hourly_cost": "90.720000000",
        "coming_nodes": 2,
        "coming_hourly_cost": "38.400000000",
        "coming_unpriced_nodes": 0,
        "as_of": "2026-11-05T12:00:00Z",
    },
    "/v1/costs": COSTS,
    "/v1/budgets": page(
        "budgets",
        budget(),
        budget(name="all-tpus-of-the-lab", on_exceeded="delete", deletes_at="2026-11-05T23:53:09Z"),
    ),
    "/v1/reservations": page("reservations", reservation(), reservation(name="winter-2026")),
    "/v1/catalog/capacity": page("capacity", CAPACITY),
    "/v1/catalog/quotas": page("quotas", QUOTA),
    "/v1/jobs": page(
        "jobs",
        job(node_id=ID),
        job(id=OTHER, state="RUNNING", node_name="vision-notebook", node_id=OTHER),
    ),
    "/v1/orphans": page(
        "orphans",
        orphan(owner_hints={"owner": "Grace 🚀 Hopper", "team": "vision"}),
        orphan(id=OTHER, cloud_id="run-1", is_queued_resource=True, hourly_cost=None),
        total_hourly_cost="9.600000000",
        unpriced=1,
    ),
    "/v1/prices": page("prices", PRICE, PRICE | {"region": "asia-northeast1", "discount": None}),
    f"/v1/nodes/{OTHER}": SLICES,
    f"/v1/nodes/{IDS[0]}": HELPER | {"id": IDS[0]},
    f"/v1/nodes/{OTHER}/idle": STUCK,
    f"/v1/nodes/{OTHER}/cost": SPENT,
    f"/v1/nodes/{OTHER}/events": page("events", *EVENTS),
    f"/v1/nodes/{OTHER}/ledger": page("entries", TPU_HOUR, VM_HOUR),
    f"/v1/jobs/{ID}": job(exit_codes={"0": 0, "1": 143, "2": None}, unpriced_seconds=95),
    f"/v1/jobs/{ID}/attempts": {"attempts": [ATTEMPT]},
    f"/v1/budgets/{BUDGET}": DETAILED_BUDGET,
    f"/v1/reservations/{ID}": reservation(),
    "/v1/commitments": page("commitments", commitment(), commitment(name="spare", region=FAR)),
    f"/v1/commitments/{ID}": commitment(),
    "/v1/commitments/usage": report(),
    "/v1/commitments/recommended": RECOMMENDED,
    "/v1/cleanup": {"mode": "stop", "projects": [HELD]},
    "/v1/cleanup/coverage": {"projects": [cleanup.COVERAGE]},
    "/v1/cleanup/history": page("history", *ENDS),
    "/v1/cleanup/policies": page(
        "policies", policy(scope="default"), policy(also=WASTE, recipients=MAIL)
    ),
    "/v1/catalog/accelerators": page("accelerators", ACCELERATOR),
    "/v1/catalog/runtimes": page("runtimes", RUNTIME),
    "/v1/reconciliations": page("reconciliations", reconcile.listed(joined=[])),
    f"/v1/reconciliations/{ID}/lines": page("lines", reconcile.LEAK),
    "/v1/forecasts": FORECAST,
}
for _node in NODES:
    DOCUMENTS[f"/v1/nodes/{_node['id']}/idle"] = IDLE if _node is NODES[1] else AT_WORK
    _due = IDLE["due_at"] if _node is NODES[1] else _node["deletes_at"]
    _ender = "idle" if _node is NODES[1] else "ttl"
    _ends = [{"ender": _ender, "at": _due, "held_by": []}] if _due else []
    DOCUMENTS.setdefault(f"/v1/nodes/{_node['id']}/policy", {"ends": _ends})

ANSWERS = {
    ("POST", "/v1/estimates"): ESTIMATE,
    ("POST", "/v1/estimates:plan"): {
        "plans": [
            PLANNED | {"accumulation_steps": 4, "divides_evenly": True},
            PLANNED | LATE | UNEVEN | {"zone": "northamerica-northeast1-b"},
        ],
        "as_of": "2026-11-05T12:00:00Z",
    },
    ("POST", "/v1/cleanup:plan"): PLAN,
    ("POST", "/v1/reconciliations"): reconcile.FOUND,
    ("DELETE", f"/v1/nodes/{OTHER}"): SLICES | {"asked": "absent"},
    ("DELETE", f"/v1/nodes/{IDS[0]}"): HELPER | {"asked": "absent"},
}
"""The answers to requests that are no reads."""

TYPE = ("--accelerator-type", "v5litepod-16")
SCREENS = {
    "nodes-list": ("nodes", "list"),
    "nodes-top": ("nodes", "top", "--once", "-n", "3"),
    "costs": ("costs", "--by", "team"),
    "estimate": ("estimate", "--accelerator-type", "v5litepod-16", "--for", "8h"),
    "budgets-list": ("budgets", "list"),
    "reservations-list": ("reservations", "list"),
    "catalog-capacity": ("catalog", "capacity"),
    "catalog-quotas": ("catalog", "quotas"),
    "jobs-list": ("jobs", "list"),
    "orphans-list": ("orphans", "list"),
    "prices-list": ("prices", "list"),
    "nodes-top-all": ("nodes", "top", "--once"),
    "nodes-show": ("nodes", "show", OTHER),
    "nodes-idle": ("nodes", "idle", OTHER),
    "nodes-cost": ("nodes", "cost", OTHER),
    "nodes-events": ("nodes", "events", OTHER),
    "nodes-ledger": ("nodes", "ledger", OTHER),
    "nodes-create-dry-run": ("nodes", "create", *TYPE, "--ttl", "4h", "--slices", "2", "--dry-run"),
    "nodes-delete": ("nodes", "delete", OTHER, IDS[0]),
    "jobs-show": ("jobs", "show", ID),
    "jobs-attempts": ("jobs", "attempts", ID),
    "budgets-show": ("budgets", "show", BUDGET),
    "costs-forecast": ("costs", "forecast"),
    "costs-reconcile": ("costs", "reconcile", "bill.jsonl"),
    "costs-reconciliations": ("costs", "reconciliations"),
    "commitments-list": ("commitments", "list"),
    "commitments-show": ("commitments", "show", ID),
    "commitments-usage": ("commitments", "usage"),
    "commitments-recommended": ("commitments", "recommended"),
    "reservations-show": ("reservations", "show", ID),
    "plan": ("plan", "--chips", "8"),
    "catalog-accelerators": ("catalog", "accelerators"),
    "runtimes-list": ("runtimes", "list"),
    "cleanup-status": ("cleanup", "status"),
    "cleanup-plan": ("cleanup", "plan"),
    "cleanup-history": ("cleanup", "history"),
    "cleanup-coverage": ("cleanup", "coverage"),
    "cleanup-policies": ("cleanup", "policies"),
    "nodes-list-names": ("nodes", "list", "-o", "name"),
    "nodes-ledger-csv": ("nodes", "ledger", OTHER, "-o", "csv"),
    "nodes-list-rows": ("nodes", "list", "--no-headers"),
    "help": ("--help",),
    "nodes-help": ("nodes", "--help"),
    "nodes-create-help": ("nodes", "create", "--help"),
    "jobs-help": ("jobs", "--help"),
    "jobs-submit-help": ("jobs", "submit", "--help"),
    "costs-help": ("costs", "--help"),
    "cleanup-help": ("cleanup", "--help"),
    "budgets-help": ("budgets", "--help"),
}
