"""What the ledger does not say yet is explained like what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.application.nodes.cost import cost_of
from service.application.nodes.nodes import NodeChange
from service.controllers.recording.posting import post_usage
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Reattribution
from service.domain.metering.ledger import desired_entries
from service.domain.metering.meter import Evidence, Meter
from service.domain.money import parse_usd
from service.domain.nodes.node import NodeState
from service.domain.pricing.price_book import Sku
from tests import factories
from tests.domain.drawn import ATTRIBUTIONS, BOOKS, moderate, ran
from tests.hands import NOON
from tests.purchases import metered
from tests.store.given import ran as ran_in
from tests.store.given import stored


@pytest.fixture
def running(units):
    """A node that runs since noon, eight chips of v5e; answers its id."""

    def node_of(**changes):
        node = stored(units, state=NodeState.READY, ready_at=NOON, team="vision", owner="ada")
        usage = ran_in(units, node, **changes)
        with units() as unit:
            unit.usage_versions.add(usage, NOON)
        return node.id

    return node_of


def unposted(client, node_id):
    cost = client.get(f"/v1/nodes/{node_id}/cost").json()
    posted = client.get(f"/v1/nodes/{node_id}/ledger").json()["entries"]
    amounts = [
        accrual["amount"]
        for accrual in (*posted, *cost["unposted"])
        if accrual["amount"] is not None
    ]
    assert sum(map(parse_usd, amounts)) == parse_usd(cost["cost"])
    return cost["unposted"]


def test_the_first_hour_is_explained_before_anything_is_posted(client, clock, running):
    node_id = running(start_hi=NOON + 15, start_evidence=Evidence.OBSERVED)
    clock.pass_(600)
    (found,) = unposted(client, node_id)
    assert found == {
        "what": "v5litepod-8",
        "kind": "tpu",
        "start": "2026-11-05T12:00:00Z",
        "end": "2026-11-05T12:10:00Z",
        "chip_seconds": 4_800,
        "vm_seconds": 0,
        "price_id": found["price_id"],
        "usd_per_chip_hour": "1.200000000",
        "amount": "1.600000000",
        "explanation": [
            "8 chips x 600 s x $1.20 a chip-hour / 3,600 = $1.60",
            found["explanation"][1],
            (
                "it began between 2026-11-05T12:00:00Z and 2026-11-05T12:00:15Z, two polls 15 s"
                " apart; all of it is charged, and marked as uncertain"
            ),
            "it has not ended",
            "it is charged to team vision, owner ada",
        ],
    }
    assert found["explanation"][1].startswith("$1.20 per chip-hour for v5e on_demand in us-west4,")


def test_the_tail_begins_where_the_ledger_ends_and_is_cut_where_another_is_charged(
    client, clock, units, running, services
):
    node_id = running()
    clock.pass_(HOUR)
    metered(units, clock)
    assert unposted(client, node_id) == []
    clock.pass_(60)
    services.nodes.update(node_id, NodeChange(Reattribution(team="nlp")))
    clock.pass_(30)
    found = unposted(client, node_id)
    assert [(line["start"][11:19], line["end"][11:19]) for line in found] == [
        ("13:00:00", "13:01:00"),
        ("13:01:00", "13:01:30"),
    ]
    assert [line["explanation"][-1] for line in found] == [
        "it is charged to team vision, owner ada",
        "it is charged to team nlp, owner ada",
    ]


def test_what_has_no_price_is_said_to_be_in_no_figure(client, clock, running):
    node_id = running(sku=Sku("v5e", ProvisioningModel.ON_DEMAND, "mars-west1"))
    clock.pass_(60)
    (found,) = unposted(client, node_id)
    assert (found["amount"], found["price_id"], found["usd_per_chip_hour"]) == (None, None, None)
    assert found["explanation"][:2] == [
        "8 chips x 60 s, which is in no figure and not free",
        "its price is unknown: the price book has none for it",
    ]


def test_a_vm_is_a_stretch_of_its_own(client, clock, running):
    entered = {
        "generation": "n1-standard-8",
        "provisioning_model": "on_demand",
        "region": "us-west4",
        "unit": "vm_hour",
        "usd": "0.6",
        "source": "our contract",
    }
    assert client.post("/v1/prices", json=entered).status_code == 201
    node_id = running(vm="n1-standard-8", vm_model="on_demand")
    clock.pass_(60)
    tpu, vm = unposted(client, node_id)
    assert (tpu["kind"], tpu["what"], tpu["chip_seconds"]) == ("tpu", "v5litepod-8", 480)
    assert (vm["kind"], vm["what"], vm["vm_seconds"]) == ("vm", "n1-standard-8", 60)
    assert vm["explanation"][0].startswith("1 VM x 60 s x $0.60 an hour / 3,600 = $0.01")
    assert "this VM drives v5litepod-8" in vm["explanation"][2]


def test_what_is_over_and_posted_leaves_nothing(client, clock, units, running):
    node_id = running(end=NOON + 90, end_lo=NOON + 90, end_evidence=Evidence.OPERATION)
    clock.pass_(HOUR)
    (found,) = unposted(client, node_id)
    assert found["end"] == "2026-11-05T12:01:30Z"
    with units() as unit:
        (usage,) = unit.usage.list_by_node(node_id)
        post_usage(unit, usage, factories.book(), clock())
    assert unposted(client, node_id) == []


@moderate
@given(ran(), ATTRIBUTIONS, BOOKS, st.integers(0, 5 * DAY))
def test_posted_and_not_posted_come_to_the_cost(usage, whose, book, hours):
    """Wherever the ledger has come to: at a full hour, or at the end."""
    until = min(usage.end, usage.start - usage.start % HOUR + hours - hours % HOUR)
    until = max(usage.start, until)
    usage = replace(usage, posted_until=until)
    node = factories.node(id=usage.node_id)
    cost = cost_of(node, [usage], book, usage.end, whose)
    meter = Meter(usage, book, usage.end, whose)
    posted = desired_entries(meter, usage.start, until).values()
    amounts = [accrual.amount or 0 for accrual in cost.unposted]
    assert sum(amounts) + sum(entry.amount for entry in posted) == cost.cost
    quantities = [accrual.quantity for accrual in cost.unposted if accrual.price is not None]
    assert sum(quantities) + sum(entry.chip_seconds for entry in posted) == cost.chip_seconds
