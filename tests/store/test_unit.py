"""Units of work: one instant for readers, one holder for writers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import LeaseLost
from service.domain.nodes.node import NodeState
from service.store.unit import LastWrites
from tests.hands import NOON
from tests.store import given


def test_a_reader_sees_one_instant_whatever_is_written_meanwhile(units):
    node = given.stored(units)
    usage = given.ran(units, node)
    with units.reading() as before:
        first = before.node_list.read_one(node.id, given.GivenPrices(), NOON)
        given.posted(units, usage, [given.entry(usage)])
        with units() as unit:
            unit.nodes.add_posted(usage, 9_600_000_000, 0)
            unit.nodes.save(replace(node, state=NodeState.READY))
        assert before.node_list.read_one(node.id, given.GivenPrices(), NOON) == first
        assert before.ledger.list_by_node(node.id, 0, 10) == []
        assert before.costs.sum_by_day(0, 2 * NOON, ("team",), {}) == []
    with units.reading() as after:
        assert len(after.ledger.list_by_node(node.id, 0, 10)) == 1
        assert after.node_list.read_one(node.id, given.GivenPrices(), NOON) != first


def test_a_reader_waits_for_no_writer(units):
    node = given.stored(units)
    with units() as writer:
        writer.nodes.save(replace(node, state=NodeState.READY))
        with units.reading() as reader:
            assert reader.nodes.get(node.id).state == NodeState.REQUESTED


def test_a_writer_whose_lease_was_taken_over_changes_nothing(units):
    node = given.stored(units)
    with units() as unit:
        mine = unit.leases.take("lab", "one", ttl=-10)
    with units(mine) as unit:
        node = unit.nodes.save(replace(node, last_error="while it was mine"))
    with units() as unit:
        assert unit.leases.take("lab", "two", ttl=10)
    with pytest.raises(LeaseLost), units(mine) as unit:
        unit.nodes.save(replace(node, last_error="after it was not"))
    with units.reading() as unit:
        assert unit.nodes.get(node.id).last_error == "while it was mine"


def test_what_is_left_for_the_end_is_done_in_one_order_whoever_asked_first(units):
    done = []

    def work(rank, of):
        return rank, of, lambda: done.append((rank, of))

    with units() as unit:
        for rank, of in (
            (LastWrites.RESERVATIONS, "a"),
            (LastWrites.NODES, "c"),
            (LastWrites.NODES, "b"),
        ):
            unit.at_the_end(*work(rank, of))
        unit.at_the_end(
            LastWrites.NODES, "a", lambda: unit.at_the_end(*work(LastWrites.RESERVATIONS, "0"))
        )
        assert done == []
    assert done == [
        (LastWrites.NODES, "b"),
        (LastWrites.NODES, "c"),
        (LastWrites.RESERVATIONS, "0"),
        (LastWrites.RESERVATIONS, "a"),
    ]
