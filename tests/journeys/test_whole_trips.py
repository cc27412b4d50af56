"""Trips through the whole house, as its users make them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.databases import fresh_database
from tests.journeys.house import House

PRICE = Fraction("1.2")
"""Dollars per chip-hour of v5e on demand in us-west4."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    made = House(tmp_path)
    yield made
    made.stop()


def ask(house: House, **fields: object) -> Any:
    """Ask for eight v5e chips."""
    body = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", **fields}
    return house.post("/v1/nodes", body)


def truth(house: House, node: Any) -> tuple[int, Fraction]:
    """Seconds and dollars by the emulator's bill."""
    seconds = sum(
        entry["seconds"]
        for entry in house.bill()
        if entry["name"].rpartition("/")[2].startswith(node["name"])
    )
    return seconds, node["chips"] * seconds * PRICE / 3600


def nanos(amount: Fraction) -> str:
    """Dollars as the API spells them: to the nano-dollar, ties to even."""
    return f"{round(amount * 10**9) // 10**9}.{round(amount * 10**9) % 10**9:09d}"


@pytest.mark.deep
def test_a_node_is_asked_for_runs_and_costs_exactly_what_the_bill_says(house: House) -> None:
    node = ask(house, name="train", team="vision")
    assert node["state"] == "REQUESTED"
    house.until_state(node, "READY")
    house.until(lambda: house.node(node)["cost"] != "0.000000000")
    house.delete(f"/v1/nodes/{node['id']}")
    gone = house.until_state(node, "DELETED")
    seconds, dollars = truth(house, node)
    assert seconds > 0
    assert gone["cost"] == nanos(dollars)
    cost = house.get(f"/v1/nodes/{node['id']}/cost")
    assert (cost["cost"], cost["uncertainty"]) == (nanos(dollars), "0.000000000")
    assert house.get("/v1/costs?aggregate=team")["total"] == nanos(dollars)


@pytest.mark.deep
def test_the_same_trip_on_postgresql_with_two_daemons_of_which_one_dies(tmp_path: Path) -> None:
    with fresh_database("postgresql", tmp_path) as database:
        house = House(tmp_path, database=database)
        try:
            node = ask(house, name="train")
            house.start("daemon", name="second")
            house.until_state(node, "READY")
            house.kill("daemon")
            house.delete(f"/v1/nodes/{node['id']}")
            gone = house.until_state(node, "DELETED")
            assert gone["cost"] == nanos(truth(house, node)[1])
        finally:
            house.stop()


@pytest.mark.deep
def test_the_daemon_is_killed_while_it_runs_and_every_second_is_still_right(house: House) -> None:
    node = ask(house, name="train")
    house.until_state(node, "CREATING")
    house.kill("daemon")
    house.until(lambda: bool(house.bill()), "the emulator to bill")
    house.start("daemon")
    house.until_state(node, "READY")
    house.kill("daemon")
    house.delete(f"/v1/nodes/{node['id']}")
    house.start("daemon")
    gone = house.until_state(node, "DELETED")
    assert gone["cost"] == nanos(truth(house, node)[1])
    assert house.get(f"/v1/nodes/{node['id']}/cost")["uncertainty"] == "0.000000000"


@pytest.mark.deep
def test_a_preemption_behind_our_back_is_seen_closed_and_cleaned_up(house: House) -> None:
    node = ask(house, name="train", provisioning_model="spot")
    ready = house.until_state(node, "READY")
    path = f"projects/lab/locations/{ready['zone']}/nodes/{ready['cloud_id']}"
    house.post("/_emulator/nodes/preempt", {"name": path}, house.emulator)
    house.until_state(node, "DELETED")
    assert house.get("/_emulator/state", house.emulator)["nodes"] == []
    events = [event["message"] for event in house.get(f"/v1/nodes/{node['id']}/events")["events"]]
    assert any("PREEMPTED" in message for message in events)
    assert any(message.startswith("DELETED: verified gone") for message in events)


@pytest.mark.deep
def test_killed_between_the_clouds_create_and_our_commit_there_is_one_node(house: House) -> None:
    """The answer to the create is held back; the daemon dies while it waits for it."""
    house.fault(rpc="CreateNode", action="delay", delay_seconds=30)
    node = ask(house, name="train")
    house.until(lambda: len(_nodes(house)) == 1, "the create to take effect")
    house.kill("daemon")
    house.start("daemon")
    adopted = house.until_state(node, "READY")
    (seen,) = _nodes(house)
    assert seen["name"].endswith(adopted["cloud_id"])
    messages = [e["message"] for e in house.get(f"/v1/nodes/{node['id']}/events")["events"]]
    assert any("an earlier request had taken effect" in message for message in messages)
    house.delete(f"/v1/nodes/{node['id']}")
    gone = house.until_state(node, "DELETED")
    assert gone["cost"] == nanos(truth(house, node)[1])


@pytest.mark.deep
def test_a_stock_out_in_one_zone_leads_to_the_next(house: House) -> None:
    house.fault(rpc="CreateNode", match={"zone": "us-west4-a"}, action="stockout", times=-1)
    node = ask(house, zone=None, zones=["us-west4-a", "us-central1-a"])
    ready = house.until_state(node, "READY")
    assert ready["zone"] == "us-central1-a"
    assert [p["outcome"] for p in ready["placements"]] == ["stock_out", "ready"]


def _nodes(house: House) -> Any:
    return house.get("/_emulator/state", house.emulator)["nodes"]


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")
def test_gcloud_sees_the_node_that_was_made_through_our_api(house: House, tmp_path: Path) -> None:
    node = ask(house, name="train")
    ready = house.until_state(node, "READY")
    listed = subprocess.run(
        ["gcloud", "compute", "tpus", "tpu-vm", "list", "--zone", ready["zone"]],
        env={
            **os.environ,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{house.emulator}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": "lab",
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    (row,) = [line for line in listed.splitlines() if ready["cloud_id"] in line]
    assert "READY" in row
