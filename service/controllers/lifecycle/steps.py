"""The steps that the lifecycle can take: one cloud call each, then one unit of work."""

from __future__ import annotations

from dataclasses import replace

import structlog

from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.launch import LaunchSteps
from service.controllers.lifecycle.reimaging import ReimageSteps, settle
from service.controllers.lifecycle.teardown import TeardownSteps
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle.absence import Absence, told
from service.domain.lifecycle.lifecycle import deadline, retry_delay, wait_delay
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import Asked, Node, NodeState
from service.store.unit import Unit

log = structlog.get_logger()

QUEUE_SECONDS = 1_800
"""How often what waits in Google's queue is asked for by name, should the inventory not tell."""


class Steps:
    """Acts on what `service.domain.lifecycle.lifecycle` decided."""

    def __init__(self, tools: StepContext) -> None:
        self._tools = tools
        self._placing = LaunchSteps(tools)
        self._ending = TeardownSteps(tools)
        self._reimaging = ReimageSteps(tools)
        self.records = tools.records

    def take(  # noqa: C901, PLR0912, PLR0915 - a table of the steps
        self, step: NodeStep, node: Node, look: NodeLook, lease: Lease
    ) -> None:
        """Take the step. Errors of the cloud that have no step of their own pass through."""
        match step:
            case NodeStep.PLACE:
                self._placing.place(node, lease)
            case NodeStep.SEND:
                self._placing.send(node, lease)
            case NodeStep.WAIT:
                self._wait(node, lease)
            case NodeStep.SETTLE:
                self._settle(node, lease)
            case NodeStep.START:
                self._start(node, look, lease)
            case NodeStep.STOP:
                self._ending.stop(node, lease)
            case NodeStep.REIMAGE:
                self._reimaging.reimage(node, look, lease)
            case NodeStep.QUEUE:
                self._queue(node, lease)
            case NodeStep.DELETE:
                self._ending.delete(node, look, lease)
            case NodeStep.DEQUEUE:
                self._ending.dequeue(node, lease)
            case NodeStep.REPLACE:
                self._ending.replace(node, look, lease)
            case NodeStep.NEXT:
                self._placing.next(node, look, lease)
            case NodeStep.CLOSE | NodeStep.VANISH:
                self._ending.close(node, lease, vanished=step is NodeStep.VANISH)
            case NodeStep.MISS:
                self._miss(node, look, lease)
            case NodeStep.CONFLICT:
                self._placing.conflict(node, lease)

    def _wait(self, node: Node, lease: Lease) -> None:
        now = self._tools.clock()
        waited = now - max(node.state_since, node.delete_requested_at or 0)
        later = now + wait_delay(waited, self._tools.manners.period)
        self._tools.save(node, lease, lambda _, node: replace(node, next_try_at=later))

    def _miss(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """It is not there, and nothing is done for that yet; of very many a human is told."""
        now = self._tools.clock()
        alarming = look.absence is Absence.TOO_MANY and node.alarmed_at is None
        said = told(look.census, node.spec.project) if look.census is not None else ""

        def change(unit: Unit, node: Node) -> Node:
            if alarming:
                unit.events.add(Event(node.id, now, "alarm", said))
                node = replace(node, alarmed_at=now)
            return replace(node, next_try_at=now + self._tools.manners.period)

        if alarming:
            log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=said)
        self._tools.save(node, lease, change)

    def _queue(self, node: Node, lease: Lease) -> None:
        """Nothing to do until its turn comes: the inventory sees that, for all of them at once."""
        now = self._tools.clock()
        later, end = now + QUEUE_SECONDS, deadline(node, now)
        until = later if end is None else min(later, end)
        self._tools.save(
            node, lease, lambda _, node: replace(node, tries=0, last_error="", next_try_at=until)
        )

    def _settle(self, node: Node, lease: Lease) -> None:
        now = self._tools.clock()

        def change(unit: Unit, node: Node) -> Node:
            if node.asked is Asked.PRESENT:
                node = settle(unit, node, now)
            return replace(
                node,
                operation="",
                last_error="",
                tries=0,
                alarmed_at=None,
                next_try_at=deadline(node, now),
            )

        self._tools.save(node, lease, change)

    def _start(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Capacity is not held while stopped: a start may fail, and is tried again, ever later."""
        operation = self._tools.commanded(lease).start(node.place)
        now = self._tools.clock()
        failed = look.operation.error if look.operation is not None else None

        def change(_unit: Unit, node: Node) -> Node:
            return replace(
                node.moved(NodeState.STARTING, operation.created_at),
                operation=operation.name,
                last_error="" if failed is None else str(failed),
                tries=node.tries + 1,
                next_try_at=now + retry_delay(node.tries),
            )

        self._tools.save(node, lease, change)
