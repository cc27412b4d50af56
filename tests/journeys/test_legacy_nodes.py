"""The trip of a legacy TPU Node through the whole house."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep


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


def test_a_legacy_node_and_the_vm_that_drives_it_cost_the_same_seconds_at_both_prices(
    house: House,
) -> None:
    body = {
        "name": "old",
        "accelerator_type": "v2-8",
        "zone": "us-central1-b",
        "architecture": "node",
        "vm": {"machine_type": "n1-standard-8"},
    }
    node = house.post("/v1/nodes", body)
    path = f"/v1/nodes/{node['id']}"
    assert node["hourly_cost"] == "4.879998000"
    house.until_state(node, "READY")
    house.until(lambda: Fraction(house.node(node)["cost"]) > Fraction("0.005"), "some seconds")
    gone = house.delete_and_see_it_gone(node)
    (billed,) = house.bill()
    seconds = billed["seconds"]
    tpu, vm = (by_hand(price, seconds) for price in ("4.50", "0.379998"))
    cost = house.get(f"{path}/cost")
    assert [(line["what"], line["kind"], nanos(line["cost"])) for line in cost["lines"]] == [
        ("v2-8", "tpu", tpu),
        ("n1-standard-8", "vm", vm),
    ]
    assert nanos(gone["cost"]) == nanos(cost["cost"]) == tpu + vm
    assert nanos(house.get("/v1/costs?window=1d&aggregate=node")["total"]) == tpu + vm
    entries = house.get(f"{path}/ledger")["entries"]
    assert sum(entry["chip_seconds"] for entry in entries) == 4 * seconds
    assert sum(entry["vm_seconds"] for entry in entries) == seconds
    for entry in entries:
        total, price, *_ = house.get(f"{path}/ledger/{entry['number']}")["explanation"]
        assert Fraction(total.partition(" = $")[2].partition(";")[0]) == Fraction(entry["amount"])
        if entry["unit"] == "vm_hour":
            assert total.startswith(f"1 VM x {entry['vm_seconds']} s x $0.379998 an hour / 3,600 =")
            assert price.startswith("$0.379998 per hour for n1-standard-8 on_demand in us-central1")
        else:
            assert total.startswith(
                f"4 chips x {entry['chip_seconds'] // 4} s x $1.125 a chip-hour"
            )
    assert sum(nanos(entry["amount"]) for entry in entries) == tpu + vm


def by_hand(price: str, seconds: int) -> int:
    """Nano-dollars for so many seconds at that price in dollars an hour."""
    return round(Fraction(price) * 10**9 * seconds / 3600)


def nanos(dollars: str) -> int:
    return int(Fraction(dollars) * 10**9)


def story(house: House, path: str) -> list[str]:
    return [event["message"] for event in house.get(f"{path}/events")["events"]]
