"""Gets a node out of the cloud, and closes its books once it is verified gone."""

from __future__ import annotations

from dataclasses import replace

from service.cloud.ports import Operation
from service.controllers.beliefs import end_placement, end_usage
from service.controllers.records import Records
from service.controllers.tools import Tools
from service.domain.errors import (
    CloudNotFound,
)
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle import Look
from service.domain.node import LOST, Asked, Node, NodeState
from service.domain.observation import Looking
from service.domain.placement import Outcome, outcome_of
from service.store.unit import Unit


class Ending:
    """The steps that stop a node, delete it, make room for another, or close it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def stop(self, node: Node, lease: Lease) -> None:
        self._end(node, lease, NodeState.STOPPING, self._tools.cloud.stop(node.place))

    def delete(self, node: Node, lease: Lease) -> None:
        try:
            operation = self._tools.cloud.delete(node.place)
        except CloudNotFound:
            return  # gone between the look and the call; the next look verifies it
        self._end(node, lease, NodeState.DELETING, operation)

    def _end(self, node: Node, lease: Lease, state: NodeState, operation: Operation) -> None:
        """Billing ends when the cloud accepts the operation: its own time for that is the end.

        It is also all that is known of the state: by the time we write, it may be over.
        """
        now = self._tools.clock()

        def change(unit: Unit, node: Node) -> Node:
            looking = Looking(now, max(node.seen_at, operation.created_at), (operation,))
            node = end_usage(unit, node, looking, self._tools.prices.book(unit))
            message = f"{state} in {node.zone}: {node.delete_reason or 'as asked'}"
            if state != node.state:
                unit.events.add(Event(node.id, now, "state", message))
            return replace(
                node.moved(state, operation.created_at),
                operation=operation.name,
                tries=0,
                next_try_at=now + self._tools.manners.period,
            )

        self._tools.save(node, lease, change)

    def replace(self, node: Node, look: Look, lease: Lease) -> None:
        """What is there cannot become what was asked for, yet holds its name and its quota.

        Whether another is made is the owner's wish where it was lost, and ours where it failed.
        """
        assert look.sight is not None
        now, state = self._tools.clock(), look.sight.state
        lost = state in LOST

        def change(unit: Unit, node: Node) -> Node:
            outcome, reason = Outcome.PREEMPTED, look.sight.health_description if look.sight else ""
            if not lost and look.operation is not None and look.operation.error is not None:
                outcome, reason = outcome_of(look.operation.error), str(look.operation.error)
            end_placement(unit, node, outcome, reason, now)
            if lost and not node.spec.recreate_on_preemption:
                return replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    delete_reason=f"it was {state.lower()} in {node.zone}",
                )
            return replace(node, replacing=True, last_error=reason)

        if not node.replacing:
            node = self._tools.save(node, lease, change)
        self.delete(node, lease)

    def close(self, node: Node, lease: Lease, *, vanished: bool) -> None:
        """Verified gone: GET has just answered that there is no such node."""
        now = self._tools.clock()
        looking = Looking(now, node.seen_at, Records(self._tools.cloud).of(node))
        reason = node.delete_reason
        if vanished:
            reason = "it was deleted outside this service"

        def change(unit: Unit, node: Node) -> Node:
            node = end_usage(unit, node, looking, self._tools.prices.book(unit))
            outcome = Outcome.VANISHED if vanished else Outcome.DELETED
            if node.sent_at is not None:
                unit.placements.end(node.id, node.attempt, outcome, reason, now)
            state = NodeState.FAILED if node.gave_up else NodeState.DELETED
            message = f"{state}: verified gone; {reason or 'as asked'}"
            unit.events.add(Event(node.id, now, "ended", message))
            return replace(
                node.moved(state, now),
                asked=Asked.ABSENT,
                delete_reason=reason,
                last_error=reason if node.gave_up else "",
                ended_at=now,
                next_try_at=None,
            )

        self._tools.save(node, lease, change)
