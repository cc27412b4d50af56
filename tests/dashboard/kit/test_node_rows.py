"""Nodes as rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.dashboard.kit.node_rows import build_node_row, tone_of
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.view import view_of
from tests import factories
from tests.hands import NOON


def _document(node: Node, hourly: str | None = "9.600000000", cost: str = "0.000000000") -> Any:
    shown = view_of(node, ()) | {"hourly_cost": hourly, "cost": cost}
    return json.loads(json.dumps(shown))


@pytest.mark.parametrize("state", list(NodeState))
def test_every_state_but_the_unknown_has_a_sign(state: NodeState) -> None:
    assert (tone_of(state) == "unknown") == (state is NodeState.UNKNOWN)


def test_a_state_that_google_adds_tomorrow_is_shown_as_it_came() -> None:
    row = build_node_row(_document(factories.node(state="DREAMING")), NOON)
    assert (row.state, row.tone) == ("DREAMING", "unknown")


def test_a_node_that_ran_at_an_unknown_price_did_not_cost_nothing() -> None:
    ran = factories.node(state=NodeState.READY, ready_at=NOON)
    row = build_node_row(_document(ran, hourly=None), NOON)
    assert (row.hourly, row.cost) == ("", "not known")
    assert build_node_row(_document(factories.node(), hourly=None), NOON).cost == "$0.00"


def test_only_what_is_ready_is_billed() -> None:
    assert build_node_row(_document(factories.node(state=NodeState.READY)), NOON).billed
    assert not build_node_row(_document(factories.node(state=NodeState.CREATING)), NOON).billed


def test_what_is_asked_is_said_until_it_is_so() -> None:
    leaving = factories.node(state=NodeState.READY, asked=Asked.ABSENT)
    assert build_node_row(_document(leaving), NOON).wish == "deletion requested"
    gone = factories.node(state=NodeState.DELETED, asked=Asked.ABSENT, ended_at=NOON)
    assert build_node_row(_document(gone), NOON).wish == ""


def test_the_age_of_what_has_ended_grows_no_more() -> None:
    gone = factories.node(state=NodeState.DELETED, ended_at=NOON + 7_200)
    assert build_node_row(_document(gone), NOON + 999_999).age == "2 h"
