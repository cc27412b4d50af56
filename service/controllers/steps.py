"""The steps that the lifecycle can take: one cloud call each, then one unit of work."""

from __future__ import annotations

from dataclasses import replace

from service.controllers.ending import Ending
from service.controllers.placing import Placing
from service.controllers.reimaging import Reimaging, settle
from service.controllers.tools import Tools
from service.domain.lease import Lease
from service.domain.lifecycle import deadline, retry_delay, wait_delay
from service.domain.node import Asked, Node, NodeState
from service.domain.step import Look, Step
from service.store.unit import Unit

QUEUE_SECONDS = 1_800
"""How often what waits in Google's queue is asked for by name, should the inventory not tell."""


class Steps:
    """Acts on what `service.domain.lifecycle` decided."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._placing = Placing(tools)
        self._ending = Ending(tools)
        self._reimaging = Reimaging(tools)

    def take(  # noqa: C901, PLR0912 - a table of the steps
        self, step: Step, node: Node, look: Look, lease: Lease
    ) -> None:
        """Take the step. Errors of the cloud that have no step of their own pass through."""
        match step:
            case Step.PLACE:
                self._placing.place(node, lease)
            case Step.SEND:
                self._placing.send(node, lease)
            case Step.WAIT:
                self._wait(node, lease)
            case Step.SETTLE:
                self._settle(node, lease)
            case Step.START:
                self._start(node, look, lease)
            case Step.STOP:
                self._ending.stop(node, lease)
            case Step.REIMAGE:
                self._reimaging.reimage(node, look, lease)
            case Step.QUEUE:
                self._queue(node, lease)
            case Step.DELETE:
                self._ending.delete(node, look, lease)
            case Step.DEQUEUE:
                self._ending.dequeue(node, lease)
            case Step.REPLACE:
                self._ending.replace(node, look, lease)
            case Step.NEXT:
                self._placing.next(node, look, lease)
            case Step.CLOSE | Step.VANISH:
                self._ending.close(node, lease, vanished=step is Step.VANISH)
            case Step.CONFLICT:
                self._placing.conflict(node, lease)

    def _wait(self, node: Node, lease: Lease) -> None:
        now = self._tools.clock()
        waited = now - max(node.state_since, node.delete_requested_at or 0)
        later = now + wait_delay(waited, self._tools.manners.period)
        self._tools.save(node, lease, lambda _, node: replace(node, next_try_at=later))

    def _queue(self, node: Node, lease: Lease) -> None:
        """Nothing to do until its turn comes: the inventory sees that, for all of them at once."""
        later, end = self._tools.clock() + QUEUE_SECONDS, deadline(node)
        until = later if end is None else min(later, end)
        self._tools.save(
            node, lease, lambda _, node: replace(node, tries=0, last_error="", next_try_at=until)
        )

    def _settle(self, node: Node, lease: Lease) -> None:
        def change(unit: Unit, node: Node) -> Node:
            if node.asked is Asked.PRESENT:
                node = settle(unit, node, self._tools.clock())
            return replace(
                node,
                operation="",
                last_error="",
                tries=0,
                alarmed_at=None,
                next_try_at=node.deletes_at,
            )

        self._tools.save(node, lease, change)

    def _start(self, node: Node, look: Look, lease: Lease) -> None:
        """Capacity is not held while stopped: a start may fail, and is tried again, ever later."""
        operation = self._tools.cloud.start(node.place)
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
