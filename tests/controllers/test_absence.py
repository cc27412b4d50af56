"""What the cloud does not show is gone only when that is certain: answers may be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import CapacityUnavailable, CloudNotFound
from service.domain.lifecycle.absence import CONFIRM_SECONDS, FleetCensus
from service.domain.nodes.node import Asked, Node, NodeState
from tests.controllers.conftest import Lab
from tests.controllers.test_queue import up as up_in_queue

PERIOD = 15


def looks(lab: Lab, times: int = 1) -> None:
    for _ in range(times):
        lab.tick(PERIOD)


def fleet(lab: Lab, size: int) -> list[Node]:
    return [lab.up(name=f"n-{number}") for number in range(size)]


def states(lab: Lab, nodes: list[Node]) -> set[str]:
    return {lab.node(node).state for node in nodes}


def test_what_somebody_deleted_is_gone_as_soon_as_the_clouds_record_says_so(lab: Lab) -> None:
    node = lab.up()
    lab.tick(600)
    lab.cloud.delete_elsewhere()
    looks(lab)
    assert lab.node(node).state == NodeState.DELETED
    assert lab.nodes.get_cost(node.id).uncertainty == 0


def test_without_a_record_it_is_gone_after_a_minute_in_which_no_list_showed_it(lab: Lab) -> None:
    node = lab.up()
    lab.tick(600)
    last = lab.clock()
    lab.cloud.lose()
    looks(lab, CONFIRM_SECONDS // PERIOD)
    assert lab.node(node).state == NodeState.READY
    looks(lab)
    gone = lab.node(node)
    assert gone.state == NodeState.DELETED
    with lab.units.reading() as unit:
        (used,) = unit.usage.list_by_node(node.id)
    assert (used.end_lo, used.end) == (last, last + PERIOD), "not until it was believed"
    assert lab.cost(node) == lab.posted(node)


def test_a_get_that_finds_nothing_is_not_believed_while_the_lists_show_the_node(lab: Lab) -> None:
    node = lab.up()
    for _ in range(20):
        lab.cloud.fail("get", CloudNotFound("a stale answer"))
        with lab.units() as unit:
            unit.nodes.wake([node.id], lab.clock())
        looks(lab)
        assert lab.node(node).state == NodeState.READY
    lab.cloud._faults.clear()
    looks(lab, 2)
    assert lab.node(node).next_try_at is None


def test_a_list_that_shows_the_node_again_starts_the_count_anew(lab: Lab) -> None:
    node = lab.up()
    path, kept = lab.cloud.only, lab.cloud.nodes[lab.cloud.only]
    for _ in range(3):
        del lab.cloud.nodes[path]
        looks(lab, 3)
        assert lab.node(node).misses
        lab.cloud.nodes[path] = kept
        looks(lab)
        assert (lab.node(node).misses, lab.node(node).missed_at) == (0, None)
    assert lab.node(node).state == NodeState.READY
    assert lab.node(node).attempt == 1


def test_lists_of_a_zone_that_cannot_be_reached_count_for_nothing(lab: Lab) -> None:
    node = lab.up()
    lab.cloud.lose()
    looks(lab)
    lab.cloud.unreachable = frozenset({"us-west4-a"})
    looks(lab, 20)
    assert lab.node(node).state == NodeState.READY
    lab.cloud.unreachable = frozenset()
    looks(lab, 2)
    assert lab.node(node).state == NodeState.DELETED


@pytest.mark.deep
def test_when_very_many_are_missing_at_once_the_answers_are_wrong_and_a_human_is_told(
    lab: Lab,
) -> None:
    nodes = fleet(lab, 4)
    kept = lab.cloud.nodes.copy()
    lab.cloud.nodes.clear()
    looks(lab, 30)
    assert states(lab, nodes) == {NodeState.READY}
    story = lab.story(nodes[0])
    assert "the cloud shows 4 of the 4 nodes of project lab no longer, all at once" in story
    assert story.count("all at once") == 1
    lab.cloud.nodes.update(kept)
    looks(lab, 3)
    assert states(lab, nodes) == {NodeState.READY}
    assert {lab.node(node).missed_at for node in nodes} == {None}
    assert {lab.node(node).alarmed_at for node in nodes} == {None}


def test_of_many_that_are_missing_those_are_gone_that_somebody_deleted(lab: Lab) -> None:
    nodes = fleet(lab, 4)
    for path in list(lab.cloud.nodes)[:3]:
        lab.cloud.delete_elsewhere(path)
    looks(lab, 2)
    assert [lab.node(node).state for node in nodes] == ["DELETED", "DELETED", "DELETED", "READY"]
    with lab.units.reading() as unit:
        assert unit.nodes.read_census(nodes[0].spec.project) == FleetCensus(1, 0)


def test_of_many_that_are_missing_those_end_whose_deletion_is_asked_for(lab: Lab) -> None:
    nodes = fleet(lab, 5)
    lab.cloud.nodes.clear()
    looks(lab, 10)
    lab.nodes.delete(nodes[0].id)
    looks(lab)
    assert [lab.node(node).state for node in nodes] == ["DELETED", *["READY"] * 4]
    for node in nodes[1:3]:
        lab.nodes.delete(node.id)
    looks(lab, 2)
    assert states(lab, nodes) == {NodeState.DELETED}, "two may well be gone by themselves"


def test_two_may_be_gone_by_themselves(lab: Lab) -> None:
    nodes = fleet(lab, 4)
    for path in list(lab.cloud.nodes)[:2]:
        lab.cloud.lose(path)
    looks(lab, 6)
    assert [lab.node(node).state for node in nodes] == ["DELETED", "DELETED", "READY", "READY"]


def test_a_deleted_node_that_a_get_does_not_find_for_a_moment_is_not_called_deleted(
    lab: Lab,
) -> None:
    """Its deletion was asked for, and the cloud has not even begun with it."""
    node = lab.up()
    lab.cloud.fail("get", CloudNotFound("a stale answer"))
    lab.nodes.delete(node.id)
    looks(lab)
    assert not lab.node(node).has_ended
    looks(lab)
    lab.cloud.settle()
    looks(lab)
    assert lab.node(node).state == NodeState.DELETED
    assert not lab.cloud.nodes


def test_a_slice_that_is_not_found_for_a_moment_costs_the_others_nothing(lab: Lab) -> None:
    node = up_in_queue(lab, slices=3)
    with lab.units() as unit:
        unit.nodes.wake([node.id], lab.clock())
    lab.cloud.fail("get", CloudNotFound("a stale answer"))
    looks(lab, 3)
    assert lab.node(node).state == NodeState.READY
    assert not lab.node(node).replacing
    assert lab.cloud.count("dequeue") == 0
    lab.cloud.lose(next(iter(lab.cloud.nodes)))
    looks(lab, 6)
    assert lab.cloud.count("dequeue") == 1, "a group is as good as its worst slice"


def test_a_ticket_that_is_not_shown_for_a_moment_is_not_asked_for_again_elsewhere(lab: Lab) -> None:
    node = lab.ask(queued=True)
    lab.tick()
    lab.cloud.wait()
    looks(lab)
    path, ticket = lab.cloud.ticket, lab.cloud.queues.pop(lab.cloud.ticket)
    looks(lab, 3)
    assert lab.node(node).attempt == 1
    lab.cloud.queues[path] = ticket
    looks(lab, 2)
    assert (lab.node(node).attempt, lab.node(node).misses) == (1, 0)


def test_a_name_that_somebody_else_has_taken_proves_that_ours_is_gone(lab: Lab) -> None:
    node = lab.up()
    lab.tick(600)
    path = lab.cloud.only
    theirs = lab.cloud.nodes[path]
    lab.cloud.delete_elsewhere()
    deleted = lab.clock()
    lab.cloud.nodes[path] = replace(theirs, uid="theirs", labels={})
    looks(lab, 2)
    gone = lab.node(node)
    assert (gone.state, gone.asked) == (NodeState.DELETED, Asked.ABSENT)
    assert lab.nodes.get_cost(node.id).chip_seconds == 8 * (deleted - (gone.ready_at or 0))
    assert path in lab.cloud.nodes, "theirs is left alone"


@pytest.mark.parametrize("asked", [False, True])
def test_what_never_came_needs_no_minute_to_be_gone(lab: Lab, asked: bool) -> None:
    node = lab.ask()
    lab.tick()
    if asked:
        lab.nodes.delete(node.id)
    lab.cloud.stock_out(CapacityUnavailable("no capacity"))
    looks(lab)
    assert (lab.node(node).state == NodeState.DELETED) is asked
    assert asked or lab.node(node).sent_at is None
