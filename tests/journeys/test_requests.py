"""What a request asks for reaches Google once, whole, and goes again when it comes to nothing."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

ZONE = "us-east4-b"
V5E = {"accelerator_type": "v5litepod-8", "zone": ZONE}


def posted_twice(home: House, body: dict[str, Any]) -> list[Any]:
    """What a caller is answered who says the same twice, under one key."""
    request = urllib.request.Request(
        f"{home.api}/v1/nodes",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "Idempotency-Key": body["name"]},
    )
    answers = []
    for _ in range(2):
        with urllib.request.urlopen(request, timeout=20) as answer:
            answers.append(json.loads(answer.read()))
    return answers


@pytest.mark.parametrize(("rpc", "queued"), [("CreateNode", False), ("CreateQueuedResource", True)])
def test_what_is_asked_for_twice_and_answered_never_is_made_once(
    home: House, rpc: str, queued: bool
) -> None:
    home.fault(rpc=rpc, match={"zone": ZONE}, action="lose_response")
    name = f"once-{'queued' if queued else 'direct'}"
    node, again = posted_twice(home, {"name": name, "queued": queued, **V5E})
    assert node["id"] == again["id"]
    ready = home.until_state(node, "READY")
    (seen,) = home.in_cloud(name)
    assert seen["name"].endswith(ready["cloud_id"])
    assert len(home.in_queue(name)) == int(queued)
    assert len(ready["placements"]) == 1
    home.delete_and_see_it_gone(node)


def test_who_gives_up_waiting_leaves_nothing_that_was_made_meanwhile(home: House) -> None:
    home.configure(durations={"create": 600})
    node = home.post("/v1/nodes", {"name": "slow", "max_wait_seconds": 12, **V5E})
    home.until(lambda: len(home.in_cloud("slow")) == 1, "it to be under way")
    home.configure(durations={"create": 20})
    failed = home.until_state(node, "FAILED")
    assert "it was not READY within 12 seconds" in failed["last_error"]
    assert home.in_cloud("slow") == home.bill("slow") == []


@pytest.mark.parametrize(
    ("accelerator_type", "mode"), [("v5litepod-8", "READ_WRITE"), ("v5litepod-16", "READ_ONLY")]
)
def test_disks_are_attached_as_many_hosts_may_share_them(
    home: House, accelerator_type: str, mode: str
) -> None:
    disk = f"projects/lab/zones/{ZONE}/disks/data"
    body = {"name": f"disk-{mode[5:9].lower()}", "accelerator_type": accelerator_type}
    node = home.post("/v1/nodes", {**body, "zone": ZONE, "data_disks": [disk]})
    home.until_state(node, "READY")
    (seen,) = home.in_cloud(body["name"])
    assert seen["dataDisks"] == [{"sourceDisk": disk, "mode": mode}]
    home.delete_and_see_it_gone(node)


@pytest.mark.parametrize("outside", [False, True])
def test_a_node_is_reached_through_the_proxy_unless_it_has_an_address_outside(
    home: House, outside: bool
) -> None:
    name = "outside" if outside else "inside"
    node = home.post("/v1/nodes", {"name": name, "external_ip": outside, **V5E})
    (endpoint,) = home.until_state(node, "READY")["endpoints"]
    assert bool(endpoint["external_ip"]) is outside
    found = home.get(f"/v1/nodes/{node['id']}/connection")
    assert ("--tunnel-through-iap" in found["ssh"]) is not outside
    (seen,) = home.in_cloud(name)
    assert seen["networkConfig"].get("enableExternalIps", False) is outside
    home.delete_and_see_it_gone(node)
