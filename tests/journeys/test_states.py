"""Whatever state Google says a node is in, that is what is shown, and nobody pays for rest."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.journeys.house import House
from tests.journeys.test_tiers import cost_of

pytestmark = pytest.mark.deep

BODY = {"accelerator_type": "v5litepod-8", "zone": "southamerica-west1-c"}


def test_a_node_that_is_repaired_restarted_stopped_and_started_is_shown_as_that(
    home: House,
) -> None:
    home.configure(durations={"repair": 60, "restart": 60, "stop": 60, "start": 60})
    node = home.post("/v1/nodes", {"name": "walk", **BODY})
    for state in ("CREATING", "READY"):
        home.until_state(node, state)
    (seen,) = home.in_cloud("walk")
    home.happens("maintenance", seen)
    for state in ("REPAIRING", "READY"):
        home.until_state(node, state)
    home.happens("host-error", seen)
    for state in ("RESTARTING", "READY"):
        home.until_state(node, state)
    home.post(f"/v1/nodes/{node['id']}:stop")
    for state in ("STOPPING", "STOPPED"):
        home.until_state(node, state)
    home.post(f"/v1/nodes/{node['id']}:start")
    for state in ("STARTING", "READY"):
        home.until_state(node, state)
    home.delete_and_see_it_gone(node)
    entries = home.bill("walk")
    assert len(entries) == 4, "READY four times, and nobody pays for what is in between"
    cost = home.get(f"/v1/nodes/{node['id']}/cost")
    truth = Fraction(cost_of(entries, node["hourly_cost"]))
    over = Fraction(cost["cost"]) - truth
    assert 0 <= over <= Fraction(cost["uncertainty"]), "of some ends Google keeps no record"


def test_a_node_of_which_google_itself_knows_nothing_any_more_is_shown_so_and_can_be_deleted(
    home: House,
) -> None:
    home.configure(durations={"restart": 20})
    node = home.post("/v1/nodes", {"name": "unknown", **BODY})
    home.until_state(node, "READY")
    (seen,) = home.in_cloud("unknown")
    home.happens("host-error", seen, recovers=False)
    home.until_state(node, "UNKNOWN")
    home.delete_and_see_it_gone(node)
    assert home.in_cloud("unknown") == []
