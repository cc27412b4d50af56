"""The states of a node over its life, from all that is recorded of it."""

from __future__ import annotations

from service.application.nodes.timeline import StateRun, list_state_runs
from service.domain.event import Event
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome, Placement
from service.store.observations import Observation
from tests import factories
from tests.hands import NOON


def placed(node, at, **changes):
    return Placement(node.id, 1, node.zone, "on_demand", "c-1", NOON + at, **changes)


def seen(node, state, at, happened=None):
    happened_at = None if happened is None else NOON + happened
    return Observation(node.id, "u", state, happened_at, NOON + at, NOON + at, "inventory")


def told(node, at, message):
    return Event(node.id, NOON + at, "state", message)


def used(node, start, end=None):
    return factories.usage(
        node_id=node.id, start=NOON + start, end=None if end is None else NOON + end
    )


def runs(node, placements=(), observations=(), intervals=(), events=(), now=10_000):
    found = list_state_runs(node, placements, observations, intervals, events, NOON + now)
    return [(run.state, run.start - NOON, run.end - NOON) for run in found]


def test_states_follow_each_other_without_a_gap_and_ready_ends_with_its_use():
    node = factories.node(state=NodeState.DELETED, state_since=NOON + 900, ended_at=NOON + 900)
    found = runs(
        node,
        [placed(node, 10, outcome=Outcome.DELETED, ready_at=NOON + 40, ended_at=NOON + 900)],
        [seen(node, NodeState.READY, 50, happened=40)],
        [used(node, 40, 600)],
        # the poll saw the deletion late; the use ended when Google accepted it
        [told(node, 50, "READY in z, was CREATING"), told(node, 640, "DELETING in z, was READY")],
    )
    assert found == [
        ("REQUESTED", 0, 10),
        ("CREATING", 10, 40),
        ("READY", 40, 600),
        ("DELETING", 600, 900),
    ]


def test_a_failed_attempt_leads_back_to_requested():
    node = factories.node(state=NodeState.READY, state_since=NOON + 300)
    found = runs(
        node,
        [
            placed(node, 10, outcome=Outcome.STOCK_OUT, ended_at=NOON + 20),
            placed(node, 80, outcome=Outcome.READY, ready_at=NOON + 300),
        ],
        intervals=[used(node, 300)],
        now=1_000,
    )
    assert found == [
        ("REQUESTED", 0, 10),
        ("CREATING", 10, 20),
        ("REQUESTED", 20, 80),
        ("CREATING", 80, 300),
        ("READY", 300, 1_000),
    ]


def test_a_preemption_lasts_from_the_end_of_use_to_the_deletion():
    node = factories.node(state=NodeState.DELETING, state_since=NOON + 421)
    found = runs(
        node,
        [placed(node, 0, outcome=Outcome.PREEMPTED, ready_at=NOON + 100, ended_at=NOON + 421)],
        [seen(node, NodeState.PREEMPTED, 421)],  # and deleted within the same second
        [used(node, 100, 400)],
        [told(node, 421, "PREEMPTED in z, was READY"), told(node, 421, "DELETING in z")],
        now=500,
    )
    assert found == [
        ("CREATING", 0, 100),
        ("READY", 100, 400),
        ("PREEMPTED", 400, 421),
        ("DELETING", 421, 500),
    ]


def test_maintenance_divides_ready_and_other_messages_change_nothing():
    node = factories.node(state=NodeState.READY, state_since=NOON + 500)
    found = runs(
        node,
        [placed(node, 0, outcome=Outcome.READY, ready_at=NOON + 100)],
        [seen(node, NodeState.REPAIRING, 410), seen(node, NodeState.READY, 500)],
        [used(node, 100, 400), used(node, 500)],
        [told(node, 200, "a deletion was refused"), told(node, 410, "REPAIRING in z, was READY")],
        now=600,
    )
    assert found == [
        ("CREATING", 0, 100),
        ("READY", 100, 400),
        ("REPAIRING", 400, 500),
        ("READY", 500, 600),
    ]


def test_slices_change_no_state_of_the_whole_node():
    node = factories.node(slices=2, state=NodeState.CREATING, state_since=NOON + 5)
    assert runs(
        node, [placed(node, 5)], [seen(node, NodeState.READY, 50)], [used(node, 50)], now=60
    ) == [("REQUESTED", 0, 5), ("CREATING", 5, 60)]


def test_a_node_that_was_just_requested_has_no_time_yet():
    assert runs(factories.node(), now=0) == []
    assert list_state_runs(factories.node(), (), (), (), (), NOON + 1) == (
        StateRun("REQUESTED", NOON, NOON + 1),
    )
