"""The steps of the lifecycle: one cloud call each, then one unit of work."""

from __future__ import annotations

from dataclasses import replace

import structlog

from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.launch import LaunchSteps
from service.controllers.lifecycle.reimaging import ReimageSteps, settle_reimage
from service.controllers.lifecycle.teardown import TeardownSteps
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle.absence import Absence, describe_mass_absence
from service.domain.lifecycle.expiry import next_deadline
from service.domain.lifecycle.lifecycle import retry_delay, wait_delay
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import Asked, Node, NodeState
from service.store.unit import Unit

log = structlog.get_logger()

QUEUE_SECONDS = 1_800
"""Seconds between two looks at a queued node; the inventory usually shows a change earlier."""


class Steps:
    """Carries out the decisions of `service.domain.lifecycle.lifecycle`."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._launch = LaunchSteps(context)
        self._teardown = TeardownSteps(context)
        self._reimaging = ReimageSteps(context)
        self.records = context.records

    def take_step(  # noqa: C901, PLR0912, PLR0915 - a table of the steps
        self, step: NodeStep, node: Node, look: NodeLook, lease: Lease
    ) -> None:
        """Take the step. Cloud errors that the step does not handle pass through."""
        match step:
            case NodeStep.PLACE:
                self._launch.place(node, lease)
            case NodeStep.SEND:
                self._launch.send(node, lease)
            case NodeStep.WAIT:
                self._schedule_look(node, lease)
            case NodeStep.SETTLE:
                self._settle_node(node, lease)
            case NodeStep.START:
                self._start_node(node, look, lease)
            case NodeStep.STOP:
                self._teardown.stop(node, look, lease)
            case NodeStep.REIMAGE:
                self._reimaging.request_reimage(node, look, lease)
            case NodeStep.QUEUE:
                self._wait_in_queue(node, lease)
            case NodeStep.DELETE:
                self._teardown.delete(node, look, lease)
            case NodeStep.DEQUEUE:
                self._teardown.delete_queued(node, lease)
            case NodeStep.REPLACE:
                self._teardown.clear_failed(node, look, lease)
            case NodeStep.NEXT:
                self._launch.begin_next(node, look, lease)
            case NodeStep.CLOSE | NodeStep.VANISH:
                self._teardown.close(node, lease, vanished=step is NodeStep.VANISH)
            case NodeStep.MISS:
                self._record_absence(node, look, lease)
            case NodeStep.CONFLICT:
                self._launch.fail_on_conflict(node, lease)

    def _schedule_look(self, node: Node, lease: Lease) -> None:
        now = self._context.clock()
        waited = now - max(node.state_since, node.delete_requested_at or 0)
        later = now + wait_delay(waited, self._context.installation.period)
        self._context.save(node, lease, lambda _, node: replace(node, next_try_at=later))

    def _record_absence(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Wait for a node that is absent without proof; raise an alarm if very many are absent."""
        now = self._context.clock()
        is_alarming = look.absence is Absence.TOO_MANY and node.alarmed_at is None
        message = (
            describe_mass_absence(look.census, node.spec.project) if look.census is not None else ""
        )

        def add_alarm(unit: Unit, node: Node) -> Node:
            if is_alarming:
                unit.events.add(Event(node.id, now, "alarm", message))
                node = replace(node, alarmed_at=now)
            return replace(node, next_try_at=now + self._context.installation.period)

        if is_alarming:
            log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=message)
        self._context.save(node, lease, add_alarm)

    def _wait_in_queue(self, node: Node, lease: Lease) -> None:
        """Wait for Google to grant the node: the inventory shows that, for all queued nodes at
        once."""
        now = self._context.clock()
        later, end = now + QUEUE_SECONDS, next_deadline(node, now)
        until = later if end is None else min(later, end)
        self._context.save(
            node, lease, lambda _, node: replace(node, tries=0, last_error="", next_try_at=until)
        )

    def _settle_node(self, node: Node, lease: Lease) -> None:
        now = self._context.clock()

        def clear_errors(unit: Unit, node: Node) -> Node:
            if node.asked is Asked.PRESENT:
                node = settle_reimage(unit, node, now)
            return replace(
                node,
                operation="",
                last_error="",
                tries=0,
                alarmed_at=None,
                next_try_at=next_deadline(node, now),
            )

        self._context.save(node, lease, clear_errors)

    def _start_node(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """Start a stopped node. Its capacity was not reserved, so a start may fail and is retried
        with a growing delay."""
        operation = self._context.cloud_under_lease(lease).start(node.place)
        now = self._context.clock()
        failed = look.operation.error if look.operation is not None else None

        def record_start(_unit: Unit, node: Node) -> Node:
            return replace(
                node.with_state(NodeState.STARTING, operation.created_at),
                operation=operation.name,
                last_error="" if failed is None else str(failed),
                tries=node.tries + 1,
                next_try_at=now + retry_delay(node.tries),
            )

        self._context.save(node, lease, record_start)
