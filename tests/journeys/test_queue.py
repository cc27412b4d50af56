"""Through Google's queue and out of it again, whatever becomes of the request on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

V5E = {"accelerator_type": "v5litepod-8", "queued": True}


def ask(home: House, name: str, **fields: object) -> Any:
    return home.post("/v1/nodes", {"name": name, **V5E, **fields})


def until_queue_state(home: House, node: Any, state: str) -> None:
    home.until(lambda: home.node(node)["queue_state"] == state, f"{node['name']} to be {state}")


def full(home: House, zone: str) -> None:
    """No hardware is left in the zone."""
    home.configure(capacity={f"{zone}/v5e": 0})


@pytest.mark.parametrize("state", ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE"])
def test_no_queued_resource_is_left_behind_whenever_its_node_is_deleted(
    home: House, state: str
) -> None:
    waits, comes_up = state == "WAITING_FOR_RESOURCES", state == "PROVISIONING"
    full(home, "us-south1-a" if waits else "us-south1-b")
    home.configure(durations={"create": 100 if comes_up else 20})
    name = f"left-{state[:6].lower()}"
    node = ask(home, name, zone="us-south1-a")
    until_queue_state(home, node, state)
    home.configure(durations={"create": 20})
    home.delete_and_see_it_gone(node)
    assert home.in_cloud(name) == home.in_queue(name) == []


def test_a_queued_resource_that_was_suspended_is_cleared_away_with_its_node(home: House) -> None:
    node = ask(home, "suspended", zone="us-east1-b", provisioning_model="spot")
    home.until_state(node, "READY")
    (seen,) = home.in_cloud("suspended")
    home.happens("preempt", seen)
    home.until_state(node, "DELETED")
    assert home.in_cloud("suspended") == home.in_queue("suspended") == []
    told = " ".join(home.story(node))
    assert "SUSPEND" in told
    assert "DELETED: verified gone" in told


def test_a_queued_resource_that_fails_is_cleared_away_and_the_next_zone_is_tried(
    home: House,
) -> None:
    home.fault(
        rpc="CreateQueuedResource", match={"zone": "asia-east1-c"}, action="fail_provisioning"
    )
    node = ask(home, "failed", zones=["asia-east1-c", "europe-west4-b"])
    ready = home.until_state(node, "READY")
    assert [placement["outcome"] for placement in ready["placements"]] == ["failed", "ready"]
    (left,) = home.in_queue("failed")
    assert "/europe-west4-b/" in left["name"]
    home.delete_and_see_it_gone(node)
    assert home.in_queue("failed") == []


def test_a_wait_in_the_queue_ends_when_its_owner_said_and_leaves_nothing(home: House) -> None:
    full(home, "us-east1-c")
    node = ask(home, "impatient", zone="us-east1-c", max_wait_seconds=12)
    until_queue_state(home, node, "WAITING_FOR_RESOURCES")
    failed = home.until_state(node, "FAILED")
    assert "it was not READY within 12 seconds" in failed["last_error"]
    assert home.in_cloud("impatient") == home.in_queue("impatient") == []
    assert home.bill("impatient") == []


def test_each_state_of_the_queue_is_shown_in_googles_words(home: House) -> None:
    full(home, "europe-west1-b")
    node = ask(home, "watched", zone="europe-west1-b", provisioning_model="spot")
    until_queue_state(home, node, "WAITING_FOR_RESOURCES")
    assert home.node(node)["state"] == "QUEUED"
    home.configure(capacity={}, durations={"create": 60})
    until_queue_state(home, node, "PROVISIONING")
    until_queue_state(home, node, "ACTIVE")
    home.configure(durations={"create": 20, "suspend": 60})
    home.happens("preempt", home.in_cloud("watched")[0])
    home.until_state(node, "DELETED")
    home.configure(durations={"suspend": 5})
    told = " ".join(home.story(node))
    for state in ("WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE", "SUSPENDING", "SUSPENDED"):
        assert state in told, told
