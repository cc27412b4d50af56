"""Writes down what a look at the cloud changed: node, usage, ledger and story at once."""

from __future__ import annotations

from dataclasses import replace

from service.controllers.posting import post
from service.domain.event import Event
from service.domain.metering import Usage, is_billable
from service.domain.node import CloudNode, Node
from service.domain.observation import Belief, Looking, gone, observed
from service.domain.placement import Outcome
from service.domain.pricing import PriceBook
from service.store.observations import Observation
from service.store.unit import Unit


def needs_evidence(node: Node, sight: CloudNode) -> bool:
    """Whether billable seconds may begin or end here: then the cloud's record is worth a call."""
    return sight.state != node.state and (
        is_billable(sight.state) or is_billable(node.state) or node.up_since is None
    )


def believe(
    unit: Unit, node: Node, sight: CloudNode, looking: Looking, book: PriceBook, source: str
) -> Node:
    """Write down what was seen of a node; answers it as it is now."""
    running = unit.usage.running(node.id)
    belief = observed(node, sight, running, looking)
    if belief.node.state != node.state:
        unit.observations.add(_observation(belief, looking, source))
    if belief.usage is not None and belief.usage != running:
        _write_usage(unit, belief.usage, book, looking.now)
    if node.up_since is None and belief.node.up_since is not None:
        unit.placements.came_up(node.id, node.attempt)
    unit.events.add(*belief.events)
    return belief.node


def end_usage(unit: Unit, node: Node, looking: Looking, book: PriceBook) -> Node:
    """Close the usage of a node that was just ended or is gone; answers it as it is now."""
    running = unit.usage.running(node.id)
    usage = gone(node, running, looking)
    if usage is None:
        return node
    _write_usage(unit, usage, book, looking.now)
    if node.up_since is None:
        first = usage.start if node.ready_at is None else node.ready_at
        node = replace(node, up_since=usage.start, ready_at=first)
        unit.placements.came_up(node.id, node.attempt)
    return node


def end_placement(unit: Unit, node: Node, outcome: Outcome, reason: str, now: int) -> None:
    """Write down how the present attempt ended, and say so, once."""
    if not unit.placements.end(node.id, node.attempt, outcome, reason, now):
        return
    message = f"attempt {node.attempt} in {node.zone} ended: {outcome}"
    if reason:
        message += f" ({reason})"
    unit.events.add(Event(node.id, now, "placement", message, facts={"outcome": outcome}))


def _write_usage(unit: Unit, usage: Usage, book: PriceBook, now: int) -> None:
    unit.usage.save(usage)
    post(unit, usage, book, now)


def _observation(belief: Belief, looking: Looking, source: str) -> Observation:
    return Observation(
        node_id=belief.node.id,
        cloud_uid=belief.node.cloud_uid,
        state=belief.node.state,
        happened_at=belief.happened_at,
        observed_at=looking.now,
        recorded_at=looking.now,
        source=source,
    )
