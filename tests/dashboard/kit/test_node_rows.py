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
    assert build_node_row(_document(leaving), NOON).summary == "deletion requested"
    gone = factories.node(state=NodeState.DELETED, asked=Asked.ABSENT, ended_at=NOON)
    assert build_node_row(_document(gone), NOON).summary == ""


def test_the_age_of_what_has_ended_grows_no_more() -> None:
    gone = factories.node(state=NodeState.DELETED, ended_at=NOON + 7_200)
    assert build_node_row(_document(gone), NOON + 999_999).age == "2 h"


def failing(**changes: Any) -> Node:
    """A READY node whose deletion was requested two minutes ago and failed."""
    fields: dict[str, Any] = {
        "state": NodeState.READY,
        "asked": Asked.ABSENT,
        "delete_requested_at": NOON - 120,
        "tries": 3,
        "last_error": "503 no answer",
        "next_try_at": NOON + 40,
    }
    return factories.node(**(fields | changes))


def test_a_failing_deletion_is_the_state_with_its_call_its_tries_and_the_next_one() -> None:
    row = build_node_row(_document(failing()), NOON)
    assert (row.state, row.tone) == ("DELETING (failing)", "trouble")
    assert row.since.clock == "11:58:00 UTC"
    assert row.error == "503 no answer"
    assert row.summary == (
        "READY in the cloud; nodes.delete failed 3 times in 2 min; next try in 40 s"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tries": 1, "next_try_at": NOON}, "failed once in 2 min"),
        ({"tries": 1, "next_try_at": NOON}, "; next try at the next check"),
        ({"queue_state": "ACTIVE"}, "queuedResources.delete failed 3 times"),
        ({"tries": 0, "alarmed_at": NOON}, "not gone after 2 min; next try"),
        (
            {"delete_requested_at": None, "replacing": True, "replacing_since": NOON - 60},
            "failed 3 times in 1 min, to make room for the next attempt",
        ),
    ],
)
def test_a_failing_deletion_in_words(changes: dict[str, Any], said: str) -> None:
    assert said in build_node_row(_document(failing(**changes)), NOON).summary


def test_an_error_of_the_cloud_turns_no_text_around() -> None:
    row = build_node_row(_document(factories.node(last_error="no \u202ekcots")), NOON)
    assert row.error == "no \\u202ekcots"


def test_a_deletion_that_did_not_fail_shows_what_the_cloud_shows() -> None:
    row = build_node_row(_document(failing(tries=0)), NOON)
    assert (row.state, row.tone, row.summary) == ("READY", "up", "deletion requested")
