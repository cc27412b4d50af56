"""Deletes a node from the cloud, and closes its records once it is verified gone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from service.cloud.ports import Operation
from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.quota import save_learned_limit
from service.controllers.recording.operation_log import polls_since
from service.controllers.recording.recording import (
    charge_unseen_usage,
    end_placement,
    end_usage,
    lock_and_price,
    shorten_last_usage,
)
from service.domain.errors import CloudNotFound
from service.domain.event import Event
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay
from service.domain.lifecycle.loss import describe_loss, is_by_hand
from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.deletion import with_replacing
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.ownership import is_ours
from service.domain.nodes.placement import Outcome, outcome_of
from service.domain.nodes.slices import place_of, slice_numbers
from service.domain.placement.quota import scope_of
from service.store.unit import Unit


class TeardownSteps:
    """The steps that stop a node, delete it, make room for another, or close it."""

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def stop(self, node: Node, look: NodeLook, lease: Lease) -> None:
        operation = self._context.cloud_if_unchanged(node, lease).stop(node.place)
        self._record_end(node, look, lease, NodeState.STOPPING, operation)

    def delete(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Delete the node, or each of its slices that exists and is not yet being deleted."""
        if node.spec.slices == 1:
            node = self._record_request(node, lease, "the node")
            try:
                operation = self._context.cloud_under_lease(lease).delete(node.place)
            except CloudNotFound:
                return  # gone between the look and the call; the next look verifies it
            self._record_end(node, look, lease, NodeState.DELETING, operation)
            return
        node = self._record_request(node, lease, "its slices")
        for number, sight in zip(slice_numbers(node), look.members, strict=True):
            if sight is not None and sight.state != NodeState.DELETING and is_ours(node, sight):
                with suppress(CloudNotFound):
                    self._context.cloud_under_lease(lease).delete(place_of(node, number))
        self._schedule_look(node, lease)

    def delete_queued(self, node: Node, lease: Lease) -> None:
        """Delete the queued resource and its nodes.

        An accepted request may still fail and shows nothing about the nodes, so only later looks
        change the state. The request is repeated while the queued resource exists.
        """
        node = self._record_request(node, lease, "its queued resource")
        with suppress(CloudNotFound):  # gone meanwhile; the next look verifies it
            operation = self._context.cloud_under_lease(lease).dequeue(node.place, force=True)
            self._schedule_look(node, lease, operation)

    def _record_request(self, node: Node, lease: Lease, what: str) -> Node:
        """Record the deletion and its cause once, however often it is retried. The event is written
        before the call, because the answer may be lost."""
        now, since = self._context.clock(), node.sent_at or 0
        message = f"deletion of {what} in {node.zone}: {_describe_cause(node)}"

        def add_event(unit: Unit, node: Node) -> Node:
            events = unit.events.list_by_kind(node.id, "state", since)
            if all(event.message != message for event in events):
                unit.events.add(Event(node.id, now, "state", message))
            return node

        return self._context.save(node, lease, add_event)

    def _schedule_look(self, node: Node, lease: Lease, operation: Operation | None = None) -> None:
        now = self._context.clock()
        later = max(self._context.installation.period, retry_delay(node.tries) if node.tries else 0)

        def count_try(_unit: Unit, node: Node) -> Node:
            return replace(
                node,
                operation=node.operation if operation is None else operation.name,
                tries=node.tries + 1,
                next_try_at=now + later,
            )

        self._context.save(node, lease, count_try)

    def _record_end(
        self, node: Node, look: NodeLook, lease: Lease, state: NodeState, operation: Operation
    ) -> None:
        """End the usage at the time when the cloud accepted the operation: billing ends there.

        The new state also begins then; it may be over by the time of the write. If this process has
        slept since the look, the node may have been preempted before the operation.
        """
        now = self._context.clock()

        def end_usage_and_move(unit: Unit, node: Node) -> Node:
            poll = Poll(now, max(node.seen_at, look.asked_at), (operation,))
            book = lock_and_price(unit, [node.id], self._context.prices)
            node = end_usage(unit, node, lambda _: poll, book)
            is_stop = state == NodeState.STOPPING
            cause = f": {_describe_cause(node)}" if is_stop else f", was {node.state}"
            if state != node.state:
                unit.events.add(Event(node.id, now, "state", f"{state} in {node.zone}{cause}"))
            return replace(
                node.with_state(state, operation.created_at),
                operation=operation.name,
                tries=0,
                next_try_at=now + self._context.installation.period,
            )

        self._context.save(node, lease, end_usage_and_move)

    def clear_failed(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Delete a node that can never reach its requested state, but holds its name and quota.

        After a failed placement another attempt follows. A node that was lost is created again only
        if its owner asked for that.
        """
        now, lost = self._context.clock(), node.up_since is not None
        # The error that the cloud reports for the queued resource, or else for the create.
        operation, error = look.operation, None if look.queue is None else look.queue.error
        if error is None and operation is not None and operation.verb == "create":
            error = operation.error
        if error is not None:
            outcome, reason = outcome_of(error), str(error)
        elif lost and is_by_hand(look):
            outcome, reason = Outcome.VANISHED, describe_loss(look, node.zone)
        else:
            healths = (shown.health_description for shown in look.present_members)
            outcome, reason = Outcome.PREEMPTED, next(filter(None, healths), "")

        def end_attempt(unit: Unit, node: Node) -> Node:
            scope = "" if error is None else scope_of(error, node.zone)
            end_placement(unit, node, outcome, reason, now, scope)
            save_learned_limit(unit, node, error, now)
            if lost and not (node.spec.recreate_on_preemption and outcome is not Outcome.VANISHED):
                return replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    alarmed_at=None,
                    delete_reason=describe_loss(look, node.zone),
                )
            return replace(with_replacing(node, now), last_error=reason)

        if not node.replacing:
            node = self._context.save(node, lease, end_attempt)
        if look.queue is not None:
            self.delete_queued(node, lease)
        else:
            self.delete(node, look, lease)

    def close(self, node: Node, lease: Lease, *, vanished: bool) -> None:
        """Close a node that is verified gone: GET has just answered that it does not exist."""
        now = self._context.clock()
        poll = self._context.records.build_poll(node, now)
        reason = node.delete_reason
        if vanished:
            reason = "it was deleted outside this service"

        def close_records(unit: Unit, node: Node) -> Node:
            book = lock_and_price(unit, [node.id], self._context.prices)
            known = polls_since(poll, unit.nodes.shown_at(node.id))
            node = end_usage(unit, node, known, book)
            shorten_last_usage(unit, node, known, book)
            charge_unseen_usage(unit, node, known, book)
            outcome = Outcome.VANISHED if vanished else Outcome.DELETED
            if node.sent_at is not None:
                unit.placements.end_attempt(node.id, node.attempt, outcome, reason, now)
            state = NodeState.FAILED if node.gave_up else NodeState.DELETED
            message = f"{state}: verified gone; {reason or 'as asked'}"
            unit.events.add(Event(node.id, now, "ended", message))
            return replace(
                node.with_state(state, now),
                asked=Asked.ABSENT,
                delete_reason=reason,
                last_error=reason if node.gave_up else "",
                ended_at=now,
                replacing=False,
                replacing_since=None,
                next_try_at=None,
            )

        self._context.save(node, lease, close_records)


def _describe_cause(node: Node) -> str:
    """Why the node is stopped or deleted."""
    if node.replacing and node.asked is not Asked.ABSENT:
        return "to make another"
    return node.delete_reason or "as asked"
