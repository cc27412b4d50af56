"""Nodes: one row each, guarded by a version, a live name and a view."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.lifecycle.absence import FleetCensus
from service.domain.nodes.deletion import find_deletion_failure
from service.domain.nodes.node import Asked, Endpoint, IdlePolicy, NodeState
from tests import factories
from tests.databases import wait_for_a_waiter
from tests.hands import NOON
from tests.store import given


def ended(node, at=NOON + 100):
    return replace(node, state=NodeState.DELETED, ended_at=at, next_try_at=None)


def test_a_node_comes_back_as_it_was_written(units):
    node = given.stored(
        units,
        labels={"team": "vision", "empty": ""},
        zones=("us-west4-a", "us-east1-c"),
        provisioning_model=ProvisioningModel.SPOT,
        metadata={"key": "väl\n"},
        data_disks=("disk-1",),
        idle=IdlePolicy(60, 30, "delete"),
        ttl_seconds=3_600,
        endpoints=(Endpoint("10.0.0.2", 8_470, "34.1.2.3"), Endpoint("10.0.0.3", 8_470)),
        asked=Asked.STOPPED,
        state="STATE_99",
        ready_at=NOON + 5,
        sent_at=NOON,
        replacing=True,
        replacing_since=NOON + 9,
    )
    with units.reading() as unit:
        assert unit.nodes.get(node.id) == node
        assert unit.nodes.find_many([node.id, "nobody"]) == {node.id: node}


def test_a_node_that_was_saved_has_the_next_version(units):
    node = given.stored(units)
    with units() as unit:
        after = unit.nodes.save(replace(node, state=NodeState.READY))
    with units.reading() as unit:
        assert unit.nodes.get(node.id) == after
    assert after.version == node.version + 1


def test_what_someone_else_changed_first_is_not_overwritten(units):
    node = given.stored(units)
    with units() as unit:
        unit.nodes.save(replace(node, last_error="first"))
    with pytest.raises(StaleVersion), units() as unit:
        unit.nodes.save(replace(node, last_error="second"))
    with units.reading() as unit:
        assert unit.nodes.get(node.id).last_error == "first"


def test_of_several_that_save_at_once_exactly_one_succeeds(units):
    node = given.stored(units)
    start, outcomes = threading.Barrier(5), []

    def work(name):
        start.wait()
        try:
            with units() as unit:
                unit.nodes.save(replace(node, last_error=name))
            outcomes.append("saved")
        except StaleVersion:
            outcomes.append("stale")

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["saved", "stale", "stale", "stale", "stale"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_several_nodes_are_woken_in_the_order_of_their_ids(units, engine):
    """Who waits for one holds none of those that come after it."""
    low, high = sorted((given.stored(units), given.stored(units)), key=lambda node: node.id)
    with units() as unit:
        unit.nodes.save(replace(low, last_error="its row is behind the other's now"))

    def wake():
        with units() as unit:
            for scan in ("indexscan", "bitmapscan"):  # as it is with many nodes
                unit.nodes._connection.execute(text(f"set local enable_{scan} = off"))
            unit.nodes.wake([high.id, low.id], NOON)

    waking = threading.Thread(target=wake, daemon=True)
    with units() as unit:
        unit.nodes.lock(low.id)
        waking.start()
        wait_for_a_waiter(engine)
        with units() as other:
            other.nodes.lock(high.id)  # raises StoreUnavailable after some seconds if it is held
    waking.join(10)
    with units.reading() as unit:
        assert {node.next_try_at for node in unit.nodes.find_many([low.id, high.id]).values()} == {
            NOON
        }


def test_a_live_name_is_taken_in_its_project_alone(units):
    first = given.stored(units, name="train")
    given.stored(units, name="train", project="other")
    with pytest.raises(Conflict, match="train") as refused, units() as unit:
        unit.nodes.add(factories.node(name="train"))
    assert refused.value.facts["node_id"] == first.id


def test_the_name_of_a_node_that_ended_may_be_used_again_and_again(units):
    for _ in range(3):
        node = given.stored(units, name="train")
        with units() as unit:
            unit.nodes.save(ended(node))
    last = given.stored(units, name="train")
    with units.reading() as unit:
        assert unit.nodes.find_by_name("train") == [last]
        assert unit.nodes.find_by_name("train", "lab") == [last]
        assert unit.nodes.find_by_name("train", "other") == []


def test_two_that_ask_for_the_same_name_at_once_cannot_both_have_it(units):
    start, outcomes = threading.Barrier(4), []

    def work():
        node = factories.node(name="train")
        start.wait()
        try:
            with units() as unit:
                unit.nodes.add(node)
            outcomes.append("added")
        except Conflict:
            outcomes.append("refused")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["added", "refused", "refused", "refused"]


def test_what_is_not_there_is_not_found(units):
    with units.reading() as unit, pytest.raises(NotFound, match="no node 'nobody'"):
        unit.nodes.get("nobody")


@pytest.mark.deep
def test_many_nodes_are_read_at_once(units):
    nodes = [factories.node(name=f"n-{number}") for number in range(510)]
    with units() as unit:
        for node in nodes:
            unit.nodes.add(node)
    with units.reading() as unit:
        assert unit.nodes.find_many(node.id for node in nodes) == {node.id: node for node in nodes}
        assert unit.nodes.find_many([]) == {}


def test_the_inventory_knows_what_was_sent_and_has_not_ended(units):
    given.stored(units)
    sent = given.stored(units, sent_at=NOON, cloud_id="n-1", next_try_at=None)
    given.stored(units, sent_at=NOON, project="other")
    over = given.stored(units, sent_at=NOON)
    with units() as unit:
        unit.nodes.save(ended(over))
        unit.nodes.save_digests({sent.id: b"seen"})
    with units.reading() as unit:
        (known,) = unit.nodes.list_open("lab")
    assert (known.id, known.zone, known.cloud_id) == (sent.id, "us-west4-a", "n-1")
    assert (known.digest, known.next_try_at) == (b"seen", None)


def test_the_fingerprint_moves_with_whatever_the_inventory_compares(units):
    def fingerprint():
        with units.reading() as unit:
            return unit.nodes.read_fingerprint("lab")

    seen = [fingerprint()]
    node = given.stored(units, sent_at=NOON)
    seen.append(fingerprint())
    with units() as unit:
        node = unit.nodes.save(replace(node, next_try_at=None))
    seen.append(fingerprint())
    other = given.stored(units, sent_at=NOON + 1)
    seen.append(fingerprint())
    with units() as unit:
        unit.nodes.save(ended(other))
    seen.append(fingerprint())
    assert seen[4] == seen[2]
    assert len(set(seen)) == 4


def test_who_has_read_that_a_node_is_missed_writes_nothing_once_it_was_found(units):
    node = given.stored(units)
    with units() as unit:
        unit.nodes.add_miss([node.id], NOON)
    with units.reading() as unit:
        missed = unit.nodes.get(node.id)
    assert (missed.misses, missed.missed_at) == (1, NOON)
    with units() as unit:
        unit.nodes.clear_missed([node.id])
    with pytest.raises(StaleVersion), units() as unit:
        unit.nodes.save(ended(missed))
    with units.reading() as unit:
        assert (unit.nodes.get(node.id).misses, unit.nodes.get(node.id).missed_at) == (0, None)


def test_what_is_due_comes_longest_waiting_first(units):
    late = given.stored(units, next_try_at=NOON - 50)
    now = given.stored(units, next_try_at=NOON)
    given.stored(units, next_try_at=NOON + 1)
    given.stored(units, next_try_at=None)
    given.stored(units, next_try_at=NOON - 99, project="other")
    with units.reading() as unit:
        assert unit.nodes.list_due("lab", NOON, 10) == [late.id, now.id]
        assert unit.nodes.list_due("lab", NOON, 1) == [late.id]


def test_a_node_that_was_left_alone_is_due_once_it_is_woken(units):
    nodes = [given.stored(units, next_try_at=None) for _ in range(3)]
    with units() as unit:
        unit.nodes.wake([nodes[0].id, nodes[2].id], NOON)
        unit.nodes.wake([], NOON)
    with units.reading() as unit:
        assert set(unit.nodes.list_due("lab", NOON, 10)) == {nodes[0].id, nodes[2].id}


def test_the_census_counts_what_should_be_there_and_of_that_what_is_missed(units):
    sent = {"sent_at": NOON, "missed_at": NOON, "misses": 1}
    for changes in (
        {},
        {"state": NodeState.READY},
        {"asked": Asked.STOPPED},
        {"missed_at": None, "misses": 0},
        {"asked": Asked.ABSENT},
        {"ended_at": NOON + 9},
        {"sent_at": None},
        {"project": "other"},
    ):
        given.stored(units, **{**sent, **changes})
    with units.reading() as unit:
        assert unit.nodes.read_census(factories.PROJECT) == FleetCensus(4, 3)


def test_failing_deletions_are_found_in_the_database_by_the_same_rule(units):
    """The rule in SQL and the rule of one node, over every combination that matters."""
    cases: list[dict[str, Any]] = [
        {"delete_requested_at": asked, "replacing_since": NOON, "replacing": replacing}
        | {"tries": tries, "queue_state": queue, "alarmed_at": alarm, "ended_at": end}
        for asked in (None, NOON)
        for replacing in (False, True)
        for tries in (0, 1, 2)
        for queue in ("", "ACTIVE")
        for alarm in (None, NOON)
        for end in (None, NOON + 1)
    ]
    nodes = [given.stored(units, **case) for case in cases]
    expected = {node.id for node in nodes if find_deletion_failure(node) is not None}
    with units.reading() as unit:
        found = unit.fleet.list_failing_deletions()
    assert {node.node_id for node in found} == expected
    assert 0 < len(expected) < len(nodes)


@pytest.mark.parametrize(
    ("changes", "call"),
    [
        ({"tries": 1}, "nodes.delete"),
        ({"tries": 1, "queue_state": "ACTIVE"}, None),
        ({"tries": 2, "queue_state": "ACTIVE"}, "queuedResources.delete"),
        ({"tries": 0}, None),
        ({"tries": 0, "alarmed_at": NOON}, "nodes.delete"),
        ({"tries": 1, "ended_at": NOON}, None),
        ({"tries": 1, "delete_requested_at": None}, None),
    ],
)
def test_a_deletion_fails_from_the_first_failed_try_to_the_end(changes, call):
    node = factories.node(**({"delete_requested_at": NOON} | changes))
    found = find_deletion_failure(node)
    assert (None if found is None else found.call) == call
