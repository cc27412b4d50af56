"""Lists as terminals of 60, 80 and 120 columns show them, compared with recorded output.

After a change, `RECORD_SCREENS=1` writes the files again. Read them before they are committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.cli import orphans
from service.cli.costs import costs
from service.cli.jobs import jobs
from service.cli.terminal import render
from tests.cli.costs.test_budgets import budget
from tests.cli.costs.test_reservations import reservation
from tests.cli.given import ID, OTHER, Api, node, served, steward
from tests.cli.jobs.test_jobs import job
from tests.cli.test_orphans import orphan
from tests.cli.test_quotas import QUOTA
from tests.cli.test_reports import CAPACITY
from tests.hands import NOON

RECORDED = Path(__file__).parent / "recorded"
WIDTHS = (60, 80, 120)
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
AT_WORK = {"state": "ACTIVE", "verdict": None, "due_at": None}
IDLE = {
    "state": "NOTIFIED",
    "verdict": {"since": "2026-11-05T08:48:00Z", "waste": ""},
    "due_at": "2026-11-05T12:04:10Z",
}


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
}
DOCUMENTS = {
    "/v1/nodes": page("nodes", *NODES),
    "/v1/fleet": {
        "hourly_cost": "414.000000000",
        "unused_reservations_hourly_cost": "90.720000000",
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
    "/v1/jobs": page("jobs", job(), job(id=OTHER, state="RUNNING", node_name="vision-notebook")),
    "/v1/orphans": page(
        "orphans",
        orphan(owner_hints={"owner": "Grace 🚀 Hopper", "team": "vision"}),
        orphan(id=OTHER, cloud_id="run-1", is_queued_resource=True, hourly_cost=None),
        total_hourly_cost="9.600000000",
        unpriced=1,
    ),
    "/v1/prices": page("prices", PRICE, PRICE | {"region": "asia-northeast1", "discount": None}),
}
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
}


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """Address of an API that answers with all documents."""
    api = Api()
    for path, document in DOCUMENTS.items():
        api.when("GET", path, document)
    for found in NODES:
        api.when("GET", f"/v1/nodes/{found['id']}/idle", IDLE if found is NODES[1] else AT_WORK)
    api.when("POST", "/v1/estimates", ESTIMATE)
    with served(api) as running:
        yield running.url


@pytest.mark.parametrize("name", SCREENS)
def test_a_list_is_shown_as_it_was_recorded(lab, monkeypatch, name):
    for module in (jobs, orphans):
        monkeypatch.setattr(module, "wall_clock", lambda: NOON)
    for module in (render, costs):
        monkeypatch.setattr(module, "is_terminal", lambda _: True)
    shown = {}
    for width in WIDTHS:
        result = steward(*SCREENS[name], STEWARD_URL=lab, COLUMNS=str(width), TERM="xterm")
        assert (result.exit_code, result.stderr) == (0, "")
        shown[width] = result.stdout
    text = "\n".join(f"{f' {width} columns ':=^{width}}\n{shown[width]}" for width in WIDTHS)
    file = RECORDED / f"{name}.txt"
    if os.environ.get("RECORD_SCREENS"):
        file.write_text(text)
    assert text == file.read_text()


def test_every_recorded_screen_is_compared():
    assert {file.stem for file in RECORDED.iterdir()} == SCREENS.keys()
