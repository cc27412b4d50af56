"""The history of one node: its states, its events, and its billed segments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.application.nodes.cost import NodeCost
from service.domain.event import Event
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.placement import Placement
from service.store.ledger import PostedLine
from service.store.observations import Observation
from service.store.unit import Unit

_STATE = re.compile(r"[A-Z_]{3,}\b")
"""The state at the beginning of the message of a state change."""


@dataclass(frozen=True, slots=True)
class StateRun:
    """A state of a node in [start, end), whole UTC seconds."""

    state: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NumberedEvents:
    """Some numbered events of a node, newest first, and the number of older ones.

    The page covers the seconds [since, until): None where it has no bound on that side. So the
    pages of a node cover all its time, without gap or overlap.
    """

    events: Sequence[tuple[int, Event]]
    older: int
    since: int | None
    until: int | None

    @property
    def next_before(self) -> int | None:
        """The number below which the events of the next page are; None on the last page."""
        return self.events[-1][0] if self.older else None

    def covers(self, at: int) -> bool:
        """Whether a second belongs to the page."""
        is_late = self.since is None or self.since <= at
        return is_late and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class NodeTimeline:
    """What is recorded of a node as of `cost.as_of`. `lines` are its ledger in posting order,
    `placing` the events of its placements, oldest first."""

    node: Node
    cost: NodeCost
    lines: Sequence[PostedLine]
    states: Sequence[StateRun]
    placing: Sequence[Event]
    alarm: Event | None
    events: NumberedEvents


def read_event_page(unit: Unit, node_id: str, before: int | None, limit: int) -> NumberedEvents:
    """The newest `limit` events with numbers below `before`."""
    found = unit.events.list_newest(node_id, before, limit)
    older = unit.events.count_before(node_id, found[-1][0]) if len(found) == limit else 0
    until = None
    if before is not None:  # the page before this one begins with that event
        newest = unit.events.list_newest(node_id, before + 1, 1)
        until = next((event.at for _, event in newest), None)
    return NumberedEvents(found, older, found[-1][1].at if older else None, until)


def list_state_runs(
    node: Node,
    placements: Sequence[Placement],
    observations: Sequence[Observation],
    intervals: Sequence[Usage],
    events: Sequence[Event],
    now: int,
) -> tuple[StateRun, ...]:
    """The states of a node from its request until its end or `now`, without a gap. Pure.

    A READY node is billed, so a READY run ends with its interval of use. Of a node with several
    slices only the states of the node as a whole are known.
    """
    # The states that the node enters with its request and its placements.
    marks: list[tuple[int, str]] = [(node.created_at, NodeState.REQUESTED)]
    for placement in placements:
        first = NodeState.QUEUED if node.spec.queued else NodeState.CREATING
        marks.append((placement.started_at, first))
        if placement.ready_at is not None:
            marks.append((placement.ready_at, NodeState.READY))
        elif placement.ended_at is not None and placement.ended_at != node.ended_at:
            marks.append((placement.ended_at, NodeState.REQUESTED))
    if node.spec.slices == 1:  # the states that polls and operations have shown
        marks += [(usage.start, NodeState.READY) for usage in intervals]
        marks += [
            (seen.observed_at if seen.happened_at is None else seen.happened_at, seen.state)
            for seen in observations
        ]
        found = ((event.at, _STATE.match(event.message)) for event in events)
        marks += [(at, state[0]) for at, state in found if state is not None]
    marks.append((node.state_since, node.state))
    end = max(now if node.ended_at is None else node.ended_at, node.created_at)
    joined: list[tuple[int, str]] = []
    for at, state in sorted(marks, key=lambda mark: mark[0]):
        start, before = max(at, node.created_at), joined[-1][1] if joined else ""
        if before == NodeState.READY:
            ends = [usage.end for usage in intervals if usage.end is not None]
            since = joined[-1][0]
            start = max((ended for ended in ends if since < ended <= start), default=start)
        if before != state:
            joined.append((start, state))
    return tuple(_iter_runs(joined, end))


def _iter_runs(marks: Sequence[tuple[int, str]], end: int) -> Iterator[StateRun]:
    """The runs between marks until `end`. A state without a second in it is left out."""
    lasting = [
        mark for mark, (until, _) in pairwise([*marks, (end, "")]) if mark[0] < min(until, end)
    ]
    changes = [
        mark
        for number, mark in enumerate(lasting)
        if not number or lasting[number - 1][1] != mark[1]
    ]
    for (start, state), (until, _) in pairwise([*changes, (end, "")]):
        yield StateRun(state, start, until)
