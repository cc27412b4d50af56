"""Nodes of which a message was sent, and the tokens of its links."""

from __future__ import annotations

from typing import Any

from service.domain.clock import HOUR
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.links import LinkPromise, Verb, make_links
from service.domain.idle.policy import Action
from service.domain.nodes.node import Node, NodeState
from service.store.unit import Units
from tests import factories
from tests.hands import NOON

TOLD = NOON - 600
"""When the message was written."""


def told_of(units: Units, **changes: Any) -> Node:
    """A node that runs since an hour, and of whose idleness somebody was told."""
    fields: dict[str, Any] = {
        "name": "train",
        "state": NodeState.READY,
        "attempt": 2,
        "ready_at": NOON - HOUR,
        "sent_at": NOON - HOUR,
    }
    node = factories.node(**(fields | changes))
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id, start=NOON - HOUR, zone=node.zone))
    notified(units, node, TOLD)
    return node


def notified(units: Units, node: Node, at: int | None) -> None:
    """The course of the node as of its newest message; None where it went to work since."""
    state = State.ACTIVE if at is None else State.NOTIFIED
    with units() as unit:
        before = unit.idle_courses.find_by_node(node.id)
        version = 0 if before is None else before.course.version
        told = None if at is None else Action.DELETE
        course = IdleCourse(node.id, node.attempt, state, NOON - HOUR, at, told, version=version)
        unit.idle_courses.save([WatchedNode(course, node.spec.project)])


def tokens_of(units: Units, node: Node, *, at: int = TOLD, now: int = TOLD) -> dict[Verb, str]:
    """New links about the node in a message of `at`; answers their tokens."""
    made: list[str] = []

    def make_token() -> str:
        made.append(f"token-{len(made)}-of-{node.id}-at-{at}-{now}")
        return made[-1]

    promise = LinkPromise(node.id, node.attempt, at, "https://steward.example.com")
    _, links = make_links(promise, now, make_token)
    with units() as unit:
        for link in links:
            unit.links.add(link, now)
    return dict(zip([link.verb for link in links], made, strict=True))
