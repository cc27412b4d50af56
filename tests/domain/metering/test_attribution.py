"""Who is charged, from when on: what is changed today leaves yesterday as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import Conflict, Rejected
from service.domain.metering.attribution import (
    ALWAYS,
    MAX_AHEAD,
    Reattribution,
    apply_reattribution,
    describe_change,
    first_attribution,
    split_by_attribution,
)
from service.domain.nodes.node import NodeState
from tests import factories
from tests.domain.drawn import ATTRIBUTIONS
from tests.hands import NOON

INSTANTS = st.integers(NOON - 7_200, NOON + 900_000)


@given(ATTRIBUTIONS, INSTANTS, INSTANTS)
def test_every_second_is_charged_to_whoever_it_belongs_to_at_that_second(whose, one, other):
    start, end = sorted((one, other))
    found = list(split_by_attribution(whose, start, end))
    assert sum(right - left for left, right, _ in found) == end - start
    for left, right, piece in found:
        assert piece.since <= left < right
        assert piece == max((w for w in whose if w.since <= left), key=lambda w: w.since)


def test_a_node_is_from_its_beginning_whose_it_was_asked_for():
    node = factories.node(owner="ada", team="vision", labels={"run": "1"})
    first = first_attribution(node)
    assert (first.since, first.owner, first.team, first.labels) == (
        ALWAYS,
        "ada",
        "vision",
        {"run": "1"},
    )


def changed(node, change, latest, now):
    found = apply_reattribution(node, change, latest, now)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Reattribution(team="nlp"), "team nlp, was vision"),
        (Reattribution(team=""), "team nobody, was vision"),
        (Reattribution(owner="grace"), "owner grace, was ada"),
        (Reattribution(labels={"run": None}), "labels none, was run=1"),
        (Reattribution(labels={"b": "2"}), "labels b=2, run=1, was run=1"),
    ],
)
def test_what_changes_is_said_and_holds_from_now_on(change, said):
    node = factories.node(owner="ada", team="vision", labels={"run": "1"})
    after, whose = changed(node, change, first_attribution(node), NOON)
    assert describe_change(node, after) == f"charged from now on to: {said}"
    assert (whose.since, whose.owner, whose.team) == (NOON, after.owner, after.team)
    assert whose.labels == after.labels


def test_two_changes_within_a_second_follow_each_other():
    node = factories.node(team="vision")
    after, first = changed(node, Reattribution(team="nlp"), first_attribution(node), NOON)
    _, second = changed(after, Reattribution(team="speech"), first, NOON)
    assert (first.since, second.since) == (NOON, NOON + 1)


def test_no_number_of_changes_at_once_reaches_far_ahead():
    """Each holds for a second, so they would charge others for the hours to come."""
    node = factories.node(team="vision")
    latest = first_attribution(node)
    for number in range(MAX_AHEAD + 1):
        node, latest = changed(node, Reattribution(team=f"t-{number}"), latest, NOON)
    assert latest.since == NOON + MAX_AHEAD
    with pytest.raises(Conflict, match="wait a minute"):
        apply_reattribution(node, Reattribution(team="vision"), latest, NOON)
    _, after = changed(node, Reattribution(team="vision"), latest, NOON + MAX_AHEAD)
    assert after.since == NOON + MAX_AHEAD + 1


def test_what_is_so_already_changes_nothing():
    node = factories.node(team="vision")
    assert (
        apply_reattribution(node, Reattribution(team="vision"), first_attribution(node), NOON)
        is None
    )


def test_who_pays_for_what_is_no_more_is_settled():
    node = factories.node(state=NodeState.DELETED, ended_at=NOON)
    with pytest.raises(Conflict):
        apply_reattribution(node, Reattribution(team="nlp"), first_attribution(node), NOON)


def test_labels_that_cannot_be_are_refused():
    node = factories.node()
    with pytest.raises(Rejected):
        apply_reattribution(
            node, Reattribution(labels={"Not A Key": "x"}), first_attribution(node), NOON
        )
