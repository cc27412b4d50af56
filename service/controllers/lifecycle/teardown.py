"""Gets a node out of the cloud, and closes its books once it is verified gone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from service.cloud.ports import Operation
from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.quotas import learn
from service.controllers.recording.operation_log import polls_since
from service.controllers.recording.recording import (
    complete,
    end_placement,
    end_usage,
    lock_and_price,
    shorten,
)
from service.domain.errors import CloudError, CloudNotFound
from service.domain.event import Event
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay
from service.domain.lifecycle.loss import befell, by_hand
from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.deletion import making_room
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.ownership import is_ours
from service.domain.nodes.placement import Outcome, outcome_of, scope_of
from service.domain.nodes.slices import numbers, place_of
from service.store.unit import Unit


class TeardownSteps:
    """The steps that stop a node, delete it, make room for another, or close it."""

    def __init__(self, tools: StepContext) -> None:
        self._tools = tools

    def stop(self, node: Node, lease: Lease) -> None:
        operation = self._tools.commanded_unchanged(node, lease).stop(node.place)
        self._end(node, lease, NodeState.STOPPING, operation)

    def delete(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Delete the node, or each of its slices that is there and not yet going."""
        if node.spec.slices == 1:
            self._delete(node, lease)
            return
        node = self._tell(node, lease, "its slices")
        for number, sight in zip(numbers(node), look.members, strict=True):
            if sight is not None and sight.state != NodeState.DELETING and is_ours(node, sight):
                with suppress(CloudNotFound):
                    self._tools.commanded(lease).delete(place_of(node, number))
        self._look_again(node, lease)

    def _delete(self, node: Node, lease: Lease) -> None:
        node = self._tell(node, lease, "the node")
        try:
            operation = self._tools.commanded(lease).delete(node.place)
        except CloudNotFound:
            return  # gone between the look and the call; the next look verifies it
        self._end(node, lease, NodeState.DELETING, operation)

    def dequeue(self, node: Node, lease: Lease) -> None:
        """Ask for the end of the queued resource and of the nodes that it stands for.

        That it was accepted says nothing yet of the nodes, nor that it will succeed; so nothing is
        believed but what the looks that follow show. It is asked for again while it stays.
        """
        node = self._tell(node, lease, "its queued resource")
        with suppress(CloudNotFound):  # gone meanwhile; the next look verifies it
            operation = self._tools.commanded(lease).dequeue(node.place, force=True)
            self._look_again(node, lease, operation)

    def _tell(self, node: Node, lease: Lease, what: str) -> Node:
        """Write down once, however often it is tried, that Google is asked for its end, and why:
        before the call, whose answer may be lost."""
        now, since = self._tools.clock(), node.sent_at or 0
        message = f"deletion of {what} in {node.zone}: {_wherefore(node)}"

        def change(unit: Unit, node: Node) -> Node:
            told = unit.events.of_kind(node.id, "state", since)
            if all(one.message != message for one in told):
                unit.events.add(Event(node.id, now, "state", message))
            return node

        return self._tools.save(node, lease, change)

    def _look_again(self, node: Node, lease: Lease, operation: Operation | None = None) -> None:
        now = self._tools.clock()
        later = max(self._tools.manners.period, retry_delay(node.tries) if node.tries else 0)

        def change(_unit: Unit, node: Node) -> Node:
            return replace(
                node,
                operation=node.operation if operation is None else operation.name,
                tries=node.tries + 1,
                next_try_at=now + later,
            )

        self._tools.save(node, lease, change)

    def _end(self, node: Node, lease: Lease, state: NodeState, operation: Operation) -> None:
        """Billing ends when the cloud accepts the operation: its own time for that is the end.

        It is also all that is known of the state: by the time we write, it may be over.
        """
        now = self._tools.clock()

        def change(unit: Unit, node: Node) -> Node:
            poll = Poll(now, max(node.seen_at, operation.created_at), (operation,))
            book = lock_and_price(unit, [node.id], self._tools.prices)
            node = end_usage(unit, node, lambda _: poll, book)
            why = f": {_wherefore(node)}" if state == NodeState.STOPPING else f", was {node.state}"
            if state != node.state:
                unit.events.add(Event(node.id, now, "state", f"{state} in {node.zone}{why}"))
            return replace(
                node.moved(state, operation.created_at),
                operation=operation.name,
                tries=0,
                next_try_at=now + self._tools.manners.period,
            )

        self._tools.save(node, lease, change)

    def replace(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """What is there cannot become what was asked for, yet holds its name and its quota.

        Whether another is made is the owner's wish where it was lost, and ours where the placement
        failed.
        """
        now, lost = self._tools.clock(), node.up_since is not None
        (outcome, reason), error = _why(node, look), _error(look)

        def change(unit: Unit, node: Node) -> Node:
            scope = "" if error is None else scope_of(error, node.zone)
            end_placement(unit, node, outcome, reason, now, scope)
            learn(unit, node, error, now)
            if lost and not (node.spec.recreate_on_preemption and outcome is not Outcome.VANISHED):
                return replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    alarmed_at=None,
                    delete_reason=befell(look, node.zone),
                )
            return replace(making_room(node, now), last_error=reason)

        if not node.replacing:
            node = self._tools.save(node, lease, change)
        if look.queue is not None:
            self.dequeue(node, lease)
        else:
            self.delete(node, look, lease)

    def close(self, node: Node, lease: Lease, *, vanished: bool) -> None:
        """Verified gone: GET has just answered that there is no such node."""
        now = self._tools.clock()
        poll = self._tools.records.poll(node, now)
        reason = node.delete_reason
        if vanished:
            reason = "it was deleted outside this service"

        def change(unit: Unit, node: Node) -> Node:
            book = lock_and_price(unit, [node.id], self._tools.prices)
            known = polls_since(poll, unit.nodes.shown_at(node.id))
            node = end_usage(unit, node, known, book)
            shorten(unit, node, known, book)
            complete(unit, node, known, book)
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
                replacing=False,
                replacing_since=None,
                next_try_at=None,
            )

        self._tools.save(node, lease, change)


def _wherefore(node: Node) -> str:
    """What it has to stop or to go for."""
    if node.replacing and node.asked is not Asked.ABSENT:
        return "to make another"
    return node.delete_reason or "as asked"


def _why(node: Node, look: NodeLook) -> tuple[Outcome, str]:
    """How the placement ended whose remains are cleared away, and why."""
    if (error := _error(look)) is not None:
        return outcome_of(error), str(error)
    if node.up_since is not None and by_hand(look):
        return Outcome.VANISHED, befell(look, node.zone)
    health = next((one.health_description for one in look.present if one.health_description), "")
    return Outcome.PREEMPTED, health


def _error(look: NodeLook) -> CloudError | None:
    """What the cloud itself says went wrong with it."""
    queue, operation = look.queue, look.operation
    if queue is not None and queue.error is not None:
        return queue.error
    return operation.error if operation is not None and operation.verb == "create" else None
