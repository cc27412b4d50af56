"""A node of several slices: each seen by itself, the whole as good as its worst part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.nodes.node import Endpoint, NodeState, Slice
from service.domain.nodes.slices import WHOLE, merge_slices, place_of, slice_as_node, slice_numbers
from tests import factories
from tests.hands import NOON


def group(*states, **changes):
    slices = tuple(
        Slice(f"70{n}", state, NOON, "HEALTHY", (Endpoint(f"10.0.0.{n}", 8470),), up)
        for n, (state, up) in enumerate(states)
    )
    count = len(states)
    return factories.sent(
        queued=True,
        slices=count,
        slices_seen=slices,
        chips=8 * count,
        hosts=count,
        cloud_id="pair",
        **changes,
    )


PAIR = group((NodeState.READY, NOON + 10), (NodeState.CREATING, None))


def test_a_plain_node_is_its_own_only_part():
    node = factories.sent()
    assert list(slice_numbers(node)) == [WHOLE]
    assert slice_as_node(node, WHOLE) is node
    assert place_of(node, WHOLE) == node.place
    assert merge_slices(node, [node], NOON) is node


def test_a_slice_has_its_share_of_the_chips_and_a_name_of_its_own():
    one = slice_as_node(PAIR, 1)
    assert (one.spec.chips, one.spec.hosts) == (8, 1)
    assert one.cloud_id == place_of(PAIR, 1).cloud_id == "pair-1"
    assert (one.cloud_uid, one.state, one.up_since) == ("701", NodeState.CREATING, None)


def test_a_slice_that_was_never_seen_is_merely_asked_for():
    one = slice_as_node(replace(PAIR, slices_seen=()), 0)
    assert (one.state, one.cloud_uid) == (NodeState.REQUESTED, "")


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ((NodeState.READY, NodeState.READY), NodeState.READY),
        ((NodeState.READY, NodeState.CREATING), NodeState.CREATING),
        ((NodeState.REQUESTED, NodeState.CREATING), NodeState.CREATING),
        ((NodeState.READY, NodeState.REPAIRING), NodeState.REPAIRING),
        ((NodeState.PREEMPTED, NodeState.DELETING), NodeState.PREEMPTED),
        ((NodeState.READY, "STATE_99"), "STATE_99"),
    ],
)
def test_the_whole_is_in_the_state_of_its_worst_slice(states, whole):
    parts = [replace(slice_as_node(PAIR, n), state=state) for n, state in enumerate(states)]
    assert merge_slices(PAIR, parts, NOON + 60).state == whole


def test_the_whole_is_up_since_its_last_slice_came_up():
    one, other = (
        slice_as_node(PAIR, 0),
        replace(slice_as_node(PAIR, 1), state=NodeState.READY, up_since=NOON + 30),
    )
    after = merge_slices(PAIR, [one, other], NOON + 31)
    assert (after.up_since, after.ready_at) == (NOON + 30, NOON + 30)
    assert [point.ip for point in after.endpoints] == ["10.0.0.0", "10.0.0.1"]


def test_while_a_slice_is_missing_the_whole_is_not_up():
    after = merge_slices(PAIR, [slice_as_node(PAIR, 0), slice_as_node(PAIR, 1)], NOON + 31)
    assert after.up_since is None
    assert after.slices_seen == PAIR.slices_seen


def test_a_sight_of_one_slice_takes_nothing_from_what_the_lists_showed_of_all():
    listed = replace(PAIR, seen_at=NOON + 500)
    seen = replace(slice_as_node(listed, 0), state=NodeState.DELETING, seen_at=NOON + 530)
    after = merge_slices(listed, [seen, slice_as_node(listed, 1)], NOON + 530)
    assert after.seen_at == NOON + 500
