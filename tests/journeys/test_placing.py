"""Where a node is tried, and what is learned there, with everything running."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep


def outcomes(node: Any) -> list[tuple[str, str]]:
    return [(placement["zone"], placement["outcome"]) for placement in node["placements"]]


def capacity(home: House, zone: str, accelerator_type: str) -> Any:
    asked = f"zone={zone}&accelerator_type={accelerator_type}"
    (found,) = home.get(f"/v1/catalog/capacity?{asked}")["capacity"]
    return found


def test_any_of_several_types_is_had_where_the_cheapest_ran_out(home: House) -> None:
    home.fault(rpc="CreateNode", match={"accelerator_type": "v5litepod-4"}, action="stockout")
    types = ["v6e-4", "v5litepod-4"]
    body = {"name": "either", "accelerator_types": types, "zone": "europe-west4-a"}
    node = home.post("/v1/nodes", body)
    assert node["accelerator_types"] == ["v5litepod-4", "v6e-4"]
    ready = home.until_state(node, "READY")
    assert ready["accelerator_type"] == "v6e-4"
    assert ready["generation"] == "v6e"
    assert ready["runtime_version"] == "v2-alpha-tpuv6e"
    home.delete_and_see_it_gone(node)


def test_a_quota_and_a_stock_out_are_told_apart(home: House) -> None:
    asia, japan, europe = "asia-southeast1-b", "asia-northeast1-b", "europe-west4-b"
    home.fault(rpc="CreateNode", match={"zone": asia}, action="quota")
    home.fault(rpc="CreateNode", match={"zone": japan}, action="stockout")
    body = {"name": "told", "accelerator_type": "v5litepod-8", "zones": [asia, japan, europe]}
    node = home.post("/v1/nodes", body)
    ready = home.until_state(node, "READY")
    assert outcomes(ready) == [(asia, "quota"), (japan, "stock_out"), (europe, "ready")]
    assert "Quota" in ready["placements"][0]["reason"]
    assert "no more capacity" in ready["placements"][1]["reason"]
    home.delete_and_see_it_gone(node)


def test_what_ran_out_is_left_alone_by_the_nodes_that_follow(home: House) -> None:
    empty, full = "us-east5-c", "us-east5-a"
    home.fault(rpc="CreateNode", match={"zone": empty}, action="stockout")
    body = {"accelerator_type": "v5p-16", "zones": [empty, full]}
    first = home.post("/v1/nodes", {"name": "learns", **body})
    ready = home.until_state(first, "READY")
    assert outcomes(ready) == [(empty, "stock_out"), (full, "ready")]
    second = home.post("/v1/nodes", {"name": "knows", **body})
    assert outcomes(home.until_state(second, "READY")) == [(full, "ready")]
    known = capacity(home, empty, "v5p-16")
    assert known["back_off_until"] is not None
    assert "was out of capacity" in known["reason"]
    for node in (first, second):
        home.delete_and_see_it_gone(node)
