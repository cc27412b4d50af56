"""Waiting for a node while the service does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from service.cli.nodes import wait
from service.cli.nodes.wait import Goal, NodeWatch, WaitResult, judge_state
from service.cli.terminal.client import ApiAnswer, Unreachable
from tests.cli.given import ID, node


class Silent:
    """A service that gives no answer for so many calls, and then shows a node that is READY."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def get(self, _: str) -> ApiAnswer:
        """The node, once the service answers."""
        self.calls -= 1
        if self.calls >= 0:
            raise Unreachable("http://127.0.0.1:8080 gave no answer in 30 s")
        return ApiAnswer("", node())


def waited(calls: int) -> ApiAnswer:
    client: Any = Silent(calls)
    return NodeWatch(client, ID, timeout=3_600).wait_for(Goal.READY)


def test_a_service_that_starts_anew_is_asked_again() -> None:
    assert waited(5).value["state"] == "READY"


def test_a_service_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "PATIENCE_SECONDS", 0.02)
    with pytest.raises(Unreachable):
        waited(10_000)


@pytest.mark.parametrize(
    ("goal", "state", "result"),
    [
        (Goal.READY, "CREATING", WaitResult.OPEN),
        (Goal.READY, "READY", WaitResult.REACHED),
        (Goal.READY, "FAILED", WaitResult.MISSED),
        (Goal.READY, "DELETED", WaitResult.MISSED),
        (Goal.STOPPED, "READY", WaitResult.OPEN),
        (Goal.STOPPED, "FAILED", WaitResult.MISSED),
        (Goal.DELETED, "DELETING", WaitResult.OPEN),
        (Goal.DELETED, "FAILED", WaitResult.REACHED),
        (Goal.DELETED, "DELETED", WaitResult.REACHED),
    ],
)
def test_a_node_that_has_ended_is_not_waited_for(
    goal: Goal, state: str, result: WaitResult
) -> None:
    assert judge_state(goal, state) is result
