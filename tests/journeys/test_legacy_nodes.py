"""The trip of a legacy TPU Node through the whole house."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tests.journeys.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    made = House(tmp_path)
    yield made
    made.stop()


def test_a_legacy_node_comes_up_is_reached_reimaged_and_deleted_at_its_exact_price(
    house: House,
) -> None:
    body = {
        "name": "old",
        "accelerator_type": "v2-8",
        "zone": "us-central1-b",
        "architecture": "node",
        "runtime_version": "2.12.0",
    }
    node = house.post("/v1/nodes", body)
    path = f"/v1/nodes/{node['id']}"
    house.until_state(node, "READY")
    found = house.get(f"{path}/connection")
    assert found["address"].startswith("grpc://10.")
    assert found["vm_software"] == "TensorFlow 2.12.0"
    house.post(f"{path}:reimage", {"framework": {"name": "tensorflow", "version": "2.15"}})
    house.until(
        lambda: "reimaged: 2.15.0, was 2.12.0" in story(house, path), "the reimage to be over"
    )
    assert house.node(node)["state"] == "READY"
    assert house.get(f"{path}/connection")["vm_software"] == "TensorFlow 2.15.0"
    house.delete(path)
    gone = house.until_state(node, "DELETED")
    assert len(house.bill()) == 2, "before the reimage and after it"
    rate = Fraction(node["hourly_cost"]) * 10**9 / 3600
    nanos = sum(round(rate * entry["seconds"]) for entry in house.bill())
    assert gone["cost"] == f"{nanos // 10**9}.{nanos % 10**9:09d}"
    assert nanos > 0
    cost = house.get(f"{path}/cost")
    assert cost["uncertainty"] == "0.000000000"
    assert cost["not_included"] == [
        "the VM that drives the legacy TPU Node is billed by Compute Engine"
    ]


def story(house: House, path: str) -> list[str]:
    return [event["message"] for event in house.get(f"{path}/events")["events"]]
