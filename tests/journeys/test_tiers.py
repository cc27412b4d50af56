"""Every way to buy a TPU, from the request to the last cent."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

MINE = "projects/lab/locations/us-central2-b/reservations/ours"

TIERS = [
    ("on_demand", {"accelerator_type": "v5p-8", "zone": "us-central1-a"}),
    ("spot", {"accelerator_type": "v6e-8", "zone": "us-central1-b"}),
    ("preemptible", {"accelerator_type": "v2-8", "zone": "us-central1-c"}),
    ("reserved", {"accelerator_type": "v4-8", "zone": "us-central2-b", "reservation": "ours"}),
    ("flex_start", {"accelerator_type": "v6e-8", "zone": "us-east5-a", "ttl_seconds": 3_600}),
]


@pytest.mark.parametrize(("model", "fields"), TIERS, ids=lambda value: str(value)[:12])
def test_each_tier_is_had_and_billed_as_what_it_is(
    home: House, model: str, fields: dict[str, Any]
) -> None:
    name = f"tier-{model.replace('_', '-')}"
    node = home.post("/v1/nodes", {"name": name, "provisioning_model": model, **fields})
    assert home.until_state(node, "READY")["provisioning_model"] == model
    gone = home.delete_and_see_it_gone(node)
    entries = home.bill(name)
    assert {entry["provisioning_model"] for entry in entries} == {model}
    assert home.in_cloud(name) == home.in_queue(name) == []
    if node["hourly_cost"] is None:
        assert gone["unpriced_seconds"] == sum(entry["seconds"] for entry in entries)
    else:
        assert gone["cost"] == cost_of(entries, node["hourly_cost"])


def cost_of(entries: list[Any], hourly: str) -> str:
    """What these seconds cost at that price, to the nano-dollar."""
    rate = Fraction(hourly) * 10**9 / 3_600
    nanos = sum(round(rate * entry["seconds"]) for entry in entries)
    assert nanos > 0, "it ran for a second at least"
    return f"{nanos // 10**9}.{nanos % 10**9:09d}"


def test_flex_start_says_to_google_how_long_it_may_run(home: House) -> None:
    body = {
        "name": "flex",
        "accelerator_type": "v5litepod-8",
        "zone": "us-west4-a",
        "provisioning_model": "flex_start",
    }
    node = home.post("/v1/nodes", body)
    assert any("at most 7 days" in warning for warning in node["warnings"])
    home.until_state(node, "READY")
    (queued,) = home.in_queue("flex")
    queued = home.get(f"/v2alpha1/{queued['name']}", home.emulator)
    assert queued["provisioningModel"] == "FLEX_START"
    assert queued["runDuration"] == {"maxRunDuration": "604800s"}
    home.delete_and_see_it_gone(node)


def test_who_finds_the_reservation_in_use_waits_until_it_is_free(home: House) -> None:
    home.configure(capacity={"us-central2-b/v4/reserved": 4})
    body = {"accelerator_type": "v4-8", "zone": "us-central2-b", "provisioning_model": "reserved"}
    first = home.post("/v1/nodes", {"name": "in-use", "reservation": "ours", **body})
    home.until_state(first, "READY")
    assert home.in_queue("in-use")[0]["reservationName"] == MINE
    second = home.post("/v1/nodes", {"name": "in-line", "reservation": MINE, **body})
    home.until(lambda: home.node(second)["queue_state"] == "WAITING_FOR_RESOURCES", "it to wait")
    home.delete_and_see_it_gone(first)
    home.until_state(second, "READY")
    home.delete_and_see_it_gone(second)
