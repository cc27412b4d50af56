"""What is wasted, and what is next, as the API answers it."""

from __future__ import annotations

from dataclasses import replace

from service.domain.nodes.node import Asked, NodeState
from tests import factories
from tests.hands import NOON


def failing_node(units):
    """A billed node whose deletion fails."""
    node = factories.node(
        state=NodeState.READY,
        asked=Asked.ABSENT,
        delete_requested_at=NOON,
        tries=2,
        last_error="the cloud is unavailable",
    )
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id))
    return node


def test_without_nodes_nothing_is_wasted_and_nothing_is_next(client):
    waste = client.get("/v1/fleet/waste").json()
    nothing = {"number": 0, "hourly_cost": "0.000000000", "unpriced": 0}
    assert waste["total"] == waste["unknown"] == nothing
    assert waste["sources"] == []
    assert len(waste["by_kind"]) == 6
    agenda = client.get("/v1/fleet/agenda").json()
    assert agenda == {
        "needs_person": [],
        "next": [],
        "left_out": 0,
        "as_of": "2026-11-05T12:00:00Z",
    }


def test_a_failing_deletion_is_told_with_its_cost(client, units):
    node = failing_node(units)
    (source,) = client.get("/v1/fleet/waste").json()["sources"]
    assert source == {
        "kind": "failing_deletion",
        "name": node.name,
        "node_id": node.id,
        "hourly_cost": "9.600000000",
        "since": "2026-11-05T12:00:00Z",
        "kept_until": None,
    }
    (entry,) = client.get("/v1/fleet/agenda").json()["needs_person"]
    assert (entry["kind"], entry["subject_id"]) == ("failing_deletion", node.id)
    assert entry["hourly_cost"] == "9.600000000"
    assert entry["at"] is None
    assert entry["since"] == "2026-11-05T12:00:00Z"


def test_a_node_without_a_price_has_no_cost_and_is_counted(client, units):
    node = failing_node(units)
    with units() as unit:
        usage = unit.usage.find_open(node.id)
        assert usage is not None
        unit.usage.save(replace(usage, sku=replace(usage.sku, region="nowhere1")))
    waste = client.get("/v1/fleet/waste").json()
    assert waste["sources"][0]["hourly_cost"] is None
    assert waste["total"] == {"number": 1, "hourly_cost": "0.000000000", "unpriced": 1}
    agenda = client.get("/v1/fleet/agenda").json()
    assert {entry["kind"] for entry in agenda["needs_person"]} == {"failing_deletion", "unpriced"}
