"""What Prometheus is told of money."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.domain.nodes.node import Asked, NodeState
from service.domain.nodes.placement import Outcome, Placement
from tests import factories
from tests.hands import NOON


@pytest.fixture
def gauges(client):
    """Every sample by its name and labels."""

    def read():
        text = client.get("/metrics").text
        families = text_string_to_metric_families(text)
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    return read


def run_node(units, **changes):
    """A node that has run since noon at 9.60 dollars an hour."""
    node = factories.node(state=NodeState.READY, **changes)
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id))
    return node


def test_cost_forecast_and_budgets_are_those_of_the_api(client, units, clock, gauges):
    run_node(units)
    with units() as unit:
        unit.budgets.add(factories.budget(id="b-1"))
    clock.pass_(1_800)
    shown = gauges()
    report = client.get("/v1/costs", params={"window": "mtd", "aggregate": "team"}).json()
    assert shown["steward_cost_month_to_date_dollars", "vision"] == 4.8
    assert [row["cost"] for row in report["rows"]] == ["4.800000000"]
    forecast = client.get("/v1/forecasts").json()
    for bound in ("low", "mid", "high"):
        said = float(forecast["total"][bound])
        assert shown["steward_forecast_month_dollars", bound] == pytest.approx(said, abs=1e-9)
    assert shown["steward_budget_amount_dollars", "vision monthly"] == 100
    assert shown["steward_budget_spent_dollars", "vision monthly"] == 4.8
    (budget,) = client.get("/v1/budgets").json()["budgets"]
    assert shown["steward_budget_held_dollars", "vision monthly"] == float(budget["held"]) > 0


def test_waste_is_that_of_the_api(client, units, gauges):
    node = run_node(units)
    with units() as unit:
        before = unit.nodes.get(node.id)
        failing = replace(before, asked=Asked.ABSENT, delete_requested_at=NOON, tries=1)
        unit.nodes.save(failing)
    shown = gauges()
    assert shown["steward_deletions_failing",] == 1
    kinds = {kind["kind"]: kind for kind in client.get("/v1/fleet/waste").json()["by_kind"]}
    for kind, said in kinds.items():
        hourly = float(said["hourly_cost"])
        assert shown["steward_waste_dollars_per_hour", kind] == hourly, kind
        assert shown["steward_waste_sources", kind] == said["number"], kind
    assert shown["steward_waste_dollars_per_hour", "failing_deletion"] == 9.6
    assert shown["steward_waste_dollars_per_hour", "unknown"] == 0


def test_preemptions_are_counted_by_generation_and_model(units, gauges):
    node = run_node(units)
    with units() as unit:
        for number, outcome in enumerate([Outcome.PREEMPTED, Outcome.PREEMPTED, Outcome.READY]):
            made = Placement(node.id, number, node.zone, "spot", f"n-{number}", NOON, outcome)
            unit.placements.add(replace(made, generation="v5e"))
    assert gauges()["steward_preemptions_total", "spot", "v5e"] == 2


def test_the_version_is_told(gauges):
    (name,) = [name for name, *_ in gauges() if name.startswith("steward_build")]
    assert name == "steward_build_info"


def test_money_has_one_unit(client):
    """Dollars, or dollars an hour: never two words for one thing."""
    names = [
        line.split()[2] for line in client.get("/metrics").text.splitlines() if "# TYPE" in line
    ]
    assert not [name for name in names if "usd" in name or "hourly" in name or "nanos" in name]
    money = [name for name in names if "dollars" in name]
    assert money
    assert all(name.endswith(("_dollars", "_dollars_per_hour")) for name in money)
