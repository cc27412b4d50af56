"""Placements, observations, events, prices, idempotency keys, budgets, and the fleet in numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.errors import Rejected, StaleVersion
from service.domain.event import Event
from service.domain.idempotency import RequestKey
from service.domain.nodes.node import Asked, NodeState, Slice
from service.domain.nodes.placement import Outcome, Placement
from service.domain.placement.cooldown import WINDOW_SECONDS
from service.domain.pricing.price_book import DEVICE_HOUR, Sku
from service.domain.pricing.shipped_prices import embedded_prices
from service.store.fleet_counts import FleetCount, RunningCount
from service.store.node_list import price_key
from service.store.observations import Observation
from service.store.placements import MOST_RECENT
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON
from tests.store.given import ran, stored

# ---- placements


def attempt(node, number, **changes):
    base = Placement(node.id, number, "us-west4-a", "spot", f"{node.name}-{number}", NOON)
    return replace(base, **changes)


def test_the_attempts_of_a_node_are_told_in_their_order(units):
    node, other = stored(units), stored(units)
    with units() as unit:
        for record in (attempt(node, 2), attempt(other, 1), attempt(node, 1)):
            unit.placements.add(record)
        unit.placements.end_attempt(node.id, 1, Outcome.STOCK_OUT, "no capacity", NOON + 60)
        unit.placements.save_ready(node.id, 2, NOON + 90)
    with units.reading() as unit:
        assert unit.placements.list_by_node(node.id) == (
            attempt(node, 1, outcome=Outcome.STOCK_OUT, reason="no capacity", ended_at=NOON + 60),
            attempt(node, 2, outcome=Outcome.READY, ready_at=NOON + 90),
        )
        assert unit.placements.list_by_node("nobody") == ()


def test_how_an_attempt_ended_is_written_once(units):
    node = stored(units)
    with units() as unit:
        unit.placements.add(attempt(node, 1))
        unit.placements.end_attempt(node.id, 1, Outcome.PREEMPTED, "taken back", NOON + 60)
        unit.placements.end_attempt(node.id, 1, Outcome.DELETED, "as asked", NOON + 90)
        unit.placements.save_ready(node.id, 1, NOON + 95)
        (found,) = unit.placements.list_by_node(node.id)
    assert (found.outcome, found.reason, found.ended_at, found.ready_at) == (
        Outcome.PREEMPTED,
        "taken back",
        NOON + 60,
        None,
    )


def uids(units, node):
    with units() as unit:
        unit.placements.add(attempt(node, 1, cloud_id=node.cloud_id))
        unit.placements.end_attempt(node.id, 1, Outcome.VANISHED, "", NOON + 60)
        (found,) = unit.orphans.list_attempts("lab", [node.cloud_id])
    assert found.called_gone_at == NOON + 60
    return found.uids


ENDED = {"cloud_id": "run", "attempt": 1, "sent_at": NOON, "ended_at": NOON + 60}


def test_by_what_uids_an_attempt_was_known_is_kept_when_it_ends(units):
    assert uids(units, stored(units, cloud_uid="7001", **ENDED)) == ("7001",)


def test_each_slice_of_an_attempt_has_its_uid(units):
    slices_seen = (Slice("7001"), Slice(), Slice("7003"))
    node = stored(units, slices=3, slices_seen=slices_seen, **ENDED)
    assert uids(units, node) == ("7001", "", "7003")


@pytest.mark.parametrize(
    "changes",
    [{}, {"cloud_uid": "7001", "unanswered_at": NOON + 5}, {"cloud_uid": "7001", "attempt": 2}],
)
def test_what_was_not_seen_or_sent_twice_or_is_of_another_attempt_has_none(units, changes):
    assert uids(units, stored(units, **ENDED | changes)) == ()


def test_the_region_of_a_quota_is_kept_with_the_attempt_that_it_ended(units):
    node = stored(units)
    with units() as unit:
        unit.placements.add(attempt(node, 1))
        unit.placements.end_attempt(node.id, 1, Outcome.QUOTA, "no more", NOON, "us-west4")
        (found,) = unit.placements.list_by_node(node.id)
    assert (found.outcome, found.scope) == (Outcome.QUOTA, "us-west4")


def test_the_last_attempts_are_those_of_one_project_and_model_as_far_back_as_they_matter(units):
    node = stored(units)
    ours = attempt(node, 1, project="lab", accelerator_type="v5litepod-8", generation="v5e")
    others = (
        replace(ours, attempt=2, cloud_id="2", project="other"),
        replace(ours, attempt=3, cloud_id="3", model="on_demand"),
        replace(ours, attempt=4, cloud_id="4", started_at=NOON - WINDOW_SECONDS),
    )
    with units() as unit:
        unit.placements.lock_until_commit("lab")
        for placement in (ours, *others):
            unit.placements.add(placement)
    with units.reading() as unit:
        assert unit.placements.list_recent("lab", "spot", NOON) == [ours]


def test_of_very_many_attempts_only_the_newest_are_looked_back_upon(units):
    node = stored(units)
    with units() as unit:
        for number in range(MOST_RECENT + 5):
            unit.placements.add(
                attempt(node, number, project="lab", started_at=NOON - number, cloud_id=f"{number}")
            )
    with units.reading() as unit:
        found = unit.placements.list_recent("lab", "spot", NOON)
    assert [record.attempt for record in found] == list(range(MOST_RECENT))


def test_no_two_attempts_may_bear_the_same_name_in_the_cloud(units):
    node, other = stored(units), stored(units)
    with units() as unit:
        unit.placements.add(attempt(node, 1))
    with pytest.raises(StaleVersion), units() as unit:
        unit.placements.add(attempt(other, 1, cloud_id=f"{node.name}-1"))


# ---- observations and events


def test_facts_are_read_in_the_order_in_which_they_were_seen(units):
    node, other = stored(units), stored(units)
    facts = [
        Observation(node.id, "7001", "CREATING", None, NOON, NOON, "inventory"),
        Observation(node.id, "7001", "STATE_99", NOON + 3, NOON + 9, NOON + 9, "lifecycle"),
    ]
    with units() as unit:
        unit.observations.add(facts[0])
        unit.observations.add(replace(facts[0], node_id=other.id))
        unit.observations.add(facts[1])
    with units.reading() as unit:
        assert unit.observations.list_by_node(node.id) == facts


def test_a_story_is_read_in_pages_oldest_first(units):
    told = [Event("n", NOON + at, "state", f"it is {at}", "ada", {"at": at}) for at in range(5)]
    with units() as unit:
        unit.events.add(*told[:3])
        unit.events.add(Event("another", NOON, "state", "not this one"))
        unit.events.add(*told[3:])
        unit.events.add()
    with units.reading() as unit:
        first = unit.events.list_by_node("n", 0, 2)
        rest = unit.events.list_by_node("n", first[-1][0], 10)
    assert [event for _, event in (*first, *rest)] == told


def test_the_latest_events_of_all_nodes_are_read_by_kind_with_their_names(units):
    node = stored(units, name="train")
    told = [
        Event(node.id, NOON, "state", "it is there"),
        Event(node.id, NOON + 1, "runtime", "v2 was chosen"),
        Event("no node", NOON + 2, "orphan", "deletion requested"),
        Event(node.id, NOON + 3, "alarm", "it does not go"),
    ]
    with units() as unit:
        unit.events.add(*told)
    with units.reading() as unit:
        found = unit.events.list_latest(["state", "orphan", "alarm"], 9)
        assert unit.events.list_latest(["state", "orphan", "alarm"], 2) == found[:2]
    assert list(found) == [("train", told[3]), ("", told[2]), ("train", told[0])]


# ---- prices


def test_a_price_that_was_entered_comes_back_and_is_in_the_book_at_once(units):
    cache = PriceBookCache()
    sku = Sku("v5e", "on_demand", "us-west4")
    price = factories.price(987_654_321, NOON, id="by-hand", recorded_at=NOON, confidence="ours")
    with units() as unit:
        before = cache.get_book(unit)
        assert cache.get_book(unit) is before
        unit.prices.add(price)
        assert cache.get_book(unit).find_price(sku, NOON) == price
    with units.reading() as unit:
        assert (unit.prices.list_all(), unit.prices.count_rows()) == ([price], 1)
        assert cache.get_book(unit).find_price(sku, NOON - 1) == before.find_price(sku, NOON - 1)
    assert before.find_price(sku, NOON) in embedded_prices()


@pytest.mark.parametrize("nanos", [0, -1])
def test_the_database_refuses_a_price_of_nothing(units, nanos):
    with pytest.raises(StaleVersion), units() as unit:
        unit.prices.add(factories.price(nanos, unit=DEVICE_HOUR))


def test_a_price_cannot_be_entered_twice(units):
    with units() as unit:
        unit.prices.add(factories.price())
    with pytest.raises(StaleVersion), units() as unit:
        unit.prices.add(factories.price(nanos=1))


# ---- idempotency keys


def test_a_key_leads_to_the_node_that_it_made(units):
    node = stored(units)
    with units() as unit:
        assert unit.idempotency_keys.find_result("ada", RequestKey("k", "body")) is None
        unit.idempotency_keys.add("ada", RequestKey("k", "body"), node.id, NOON)
    with units.reading() as unit:
        assert unit.idempotency_keys.find_result("ada", RequestKey("k", "body")) == node.id
        assert unit.idempotency_keys.find_result("grace", RequestKey("k", "body")) is None
        assert unit.idempotency_keys.find_result("ada", RequestKey("another", "body")) is None


def test_a_key_with_another_body_is_refused_with_the_node_it_made(units):
    node = stored(units)
    with units() as unit:
        unit.idempotency_keys.add("ada", RequestKey("k", "body"), node.id, NOON)
        with pytest.raises(Rejected) as refused:
            unit.idempotency_keys.find_result("ada", RequestKey("k", "another"))
    assert refused.value.facts["led_to"] == node.id


def test_the_same_key_told_twice_at_once_is_told_apart_by_the_database(units):
    node = stored(units)
    with units() as unit:
        unit.idempotency_keys.add("ada", RequestKey("k", "body"), node.id, NOON)
    with pytest.raises(StaleVersion), units() as unit:
        unit.idempotency_keys.add("ada", RequestKey("k", "body"), node.id, NOON)


# ---- budgets


def test_a_budget_is_not_written_over_unseen(units):
    budget = factories.budget(id="b-1")
    with units() as unit:
        unit.budgets.add(budget)
        unit.budgets.save(replace(budget, amount=2))
    with pytest.raises(StaleVersion), units() as unit:
        unit.budgets.save(replace(budget, amount=3))
    with units.reading() as unit:
        assert unit.budgets.get("b-1") == replace(budget, amount=2, version=1)


# ---- the fleet


def test_the_fleet_is_counted_without_those_that_have_ended(units):
    for _ in range(2):
        stored(units, state=NodeState.READY)
    stored(units, team="nlp", chips=16)
    over = stored(units)
    with units() as unit:
        unit.nodes.save(replace(over, state=NodeState.DELETED, ended_at=NOON))
    with units.reading() as unit:
        assert unit.fleet.count_by_state() == [
            FleetCount("READY", "v5e", "on_demand", "us-west4-a", "vision", 2, 16),
            FleetCount("REQUESTED", "v5e", "on_demand", "us-west4-a", "nlp", 1, 16),
        ]


def test_what_comes_is_wanted_and_not_billed_yet(units):
    coming = stored(units)
    stored(units, state=NodeState.QUEUED)
    spot = stored(
        units, state=NodeState.CREATING, provisioning_model=ProvisioningModel.SPOT, slices=2
    )
    for state in (NodeState.READY, NodeState.STOPPED, NodeState.UNKNOWN):
        stored(units, state=state)
    stored(units, asked=Asked.ABSENT)
    stored(units, state=NodeState.STARTING, asked=Asked.STOPPED)
    ran(units, stored(units, state=NodeState.CREATING, slices=2))  # one slice is billed already
    ran(units, stored(units, state=NodeState.STARTING), end=NOON + DAY, end_lo=NOON + DAY)
    over = stored(units)
    with units() as unit:
        unit.nodes.save(replace(over, state=NodeState.FAILED, ended_at=NOON))
    with units.reading() as unit:
        assert unit.fleet.count_coming() == {price_key(coming): 3, price_key(spot): 1}


def test_what_is_billed_now_is_counted_by_what_is_priced(units):
    sku = factories.usage().sku
    ran(units, stored(units))
    ran(units, stored(units))
    ran(units, stored(units), end=NOON + DAY, end_lo=NOON + DAY)
    spot = replace(sku, model="spot")
    ran(units, stored(units), sku=spot)
    with units.reading() as unit:
        assert set(unit.fleet.count_running()) == {
            RunningCount(sku, None, 2, 16, 0),
            RunningCount(spot, None, 1, 8, 0),
        }


def test_a_node_of_several_slices_is_counted_once(units):
    group = stored(units, slices=2, chips=16)
    for number in range(2):
        ran(units, group, slice=number)
    with units.reading() as unit:
        (found,) = unit.fleet.count_running()
    assert (found.nodes, found.chips) == (1, 32)


def test_deletions_that_do_not_end_come_oldest_first_with_how_many_there_are(units):
    late: dict[str, Any] = {"asked": Asked.ABSENT, "alarmed_at": NOON, "state": NodeState.READY}
    newer = stored(units, delete_requested_at=NOON - 10)
    older = stored(units, delete_requested_at=NOON - 20)
    over = stored(units, delete_requested_at=NOON - 30)
    stored(units, delete_requested_at=NOON - 40)  # nobody was told of it yet
    with units() as unit:
        for record in (newer, older):
            unit.nodes.save(replace(record, **late))
        unit.nodes.save(replace(over, **late | {"state": NodeState.DELETED, "ended_at": NOON}))
    with units.reading() as unit:
        number, (first,) = unit.fleet.list_overdue(1)
        assert [record.node_id for record in unit.fleet.list_overdue(5)[1]] == [older.id, newer.id]
        assert unit.fleet.count_overdue() == number == 2
    assert (first.node_id, first.asked_at) == (older.id, NOON - 20)


def test_a_deletion_that_makes_room_is_overdue_as_any_other(units):
    making = {"replacing": True, "replacing_since": NOON - 20}
    asked = stored(units, delete_requested_at=NOON - 10, alarmed_at=NOON, **making)
    making_room = stored(units, alarmed_at=NOON, **making)
    stored(units, alarmed_at=NOON, replacing_since=NOON - 30)  # that is over
    stored(units, **making)  # nobody was told of it yet
    with units.reading() as unit:
        number, found = unit.fleet.list_overdue(5)
        assert unit.fleet.count_overdue() == number == 2
    assert [(record.node_id, record.asked_at, record.replacing) for record in found] == [
        (making_room.id, NOON - 20, True),
        (asked.id, NOON - 10, False),
    ]


def test_no_deletion_is_overdue_where_none_is(units):
    stored(units)
    with units.reading() as unit:
        assert unit.fleet.list_overdue(5) == (0, [])
        assert unit.fleet.count_overdue() == 0
