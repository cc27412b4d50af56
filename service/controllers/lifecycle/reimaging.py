"""Reimages a legacy TPU Node, and gives up when the cloud keeps refusing."""

from __future__ import annotations

from dataclasses import replace

from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.zone_offers import ZoneOffers
from service.controllers.recording.recording import end_usage, lock_and_price
from service.domain.errors import InvalidRequest
from service.domain.event import Event
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.reimaging import (
    find_failure,
    is_over,
    with_reimage_done,
    with_reimage_given_up,
)
from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.node import Node, NodeState
from service.store.unit import Unit


class ReimageSteps:
    """The step that reimages a node. Errors that do not refuse the request pass through."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._offers = ZoneOffers(context.cloud, context.clock)

    def request_reimage(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Request the reimage, unless it has failed too often. A refusal may be temporary."""
        failed = find_failure(look.operation)
        if failed is not None and is_over(node.tries):
            self._give_up(node, str(failed), lease)
            return
        try:
            self._offers.require_offered(node)
            cloud = self._context.cloud_if_unchanged(node, lease)
            operation = cloud.reimage(node.place, node.spec.runtime_version)
        except InvalidRequest as error:
            if not is_over(node.tries + 1):
                raise
            self._give_up(node, str(error), lease)
            return
        now = self._context.clock()

        def end_usage_and_move(unit: Unit, node: Node) -> Node:
            # Nobody can use the node, so nobody pays, once the cloud has accepted the operation.
            poll = Poll(now, max(node.seen_at, look.asked_at), (operation,))
            book = lock_and_price(unit, [node.id], self._context.prices)
            node = end_usage(unit, node, lambda _: poll, book)
            spec = node.spec
            message = f"REIMAGING in {node.zone}: {spec.runtime_version}, was {spec.reimage_from}"
            unit.events.add(Event(node.id, now, "state", message))
            return replace(
                node.with_state(NodeState.REIMAGING, operation.created_at),
                operation=operation.name,
                tries=node.tries + 1,
                next_try_at=now + self._context.installation.period,
            )

        self._context.save(node, lease, end_usage_and_move)

    def _give_up(self, node: Node, reason: str, lease: Lease) -> None:
        now = self._context.clock()

        def undo_request(unit: Unit, node: Node) -> Node:
            message = f"reimage given up, it stays {node.spec.reimage_from}: {reason}"
            unit.events.add(Event(node.id, now, "failed", message))
            return with_reimage_given_up(node, message)

        self._context.save(node, lease, undo_request)


def settle_reimage(unit: Unit, node: Node, now: int) -> Node:
    """Record that a requested reimage is done; called when a node is in its requested state."""
    if not node.spec.reimage_from:
        return node
    message = f"reimaged: {node.spec.runtime_version}, was {node.spec.reimage_from}"
    unit.events.add(Event(node.id, now, "reimaged", message))
    return with_reimage_done(node)
