"""Nodes of many hosts and of many slices: one request, one node, one bill."""

from __future__ import annotations

import pytest

from tests.journeys.house import House
from tests.journeys.test_tiers import cost_of

pytestmark = pytest.mark.deep


def test_a_slice_of_four_hosts_shows_each_of_them_and_is_billed_by_its_chips(home: House) -> None:
    body = {"name": "pod", "accelerator_type": "v5litepod-16", "zone": "us-west1-c"}
    node = home.post("/v1/nodes", body)
    home.until(lambda: len(home.node(node)["endpoints"]) == 4, "the addresses of four workers")
    ready = home.until_state(node, "READY")
    assert (ready["hosts"], ready["chips"], ready["topology"]) == (4, 16, "4x4")
    assert len({endpoint["ip"] for endpoint in ready["endpoints"]}) == 4
    found = home.get(f"/v1/nodes/{node['id']}/connection")
    assert "--worker=all" in found["everywhere"]
    gone = home.delete_and_see_it_gone(node)
    (entry,) = home.bill("pod")
    assert entry["chips"] == 16
    assert gone["cost"] == cost_of([entry], node["hourly_cost"])


def test_several_slices_are_one_node_each_part_of_which_comes_up_is_billed_and_goes(
    home: House,
) -> None:
    body = {"name": "many", "accelerator_type": "v6e-16", "zone": "us-east1-d", "slices": 3}
    node = home.post("/v1/nodes", body)
    ready = home.until_state(node, "READY")
    assert [state["state"] for state in ready["slice_states"]] == ["READY"] * 3
    assert len(home.in_cloud("many")) == 3
    assert len(home.in_queue("many")) == 1
    assert (ready["chips"], ready["hosts"]) == (48, 12)
    home.delete_and_see_it_gone(node)
    assert home.in_cloud("many") == home.in_queue("many") == []
    entries = home.bill("many")
    assert [entry["chips"] for entry in entries] == [16] * 3
    cost = home.get(f"/v1/nodes/{node['id']}/cost")
    assert cost["chip_seconds"] == sum(entry["seconds"] * 16 for entry in entries)
    assert cost["uncertainty"] == "0.000000000"
