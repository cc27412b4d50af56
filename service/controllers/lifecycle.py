"""Brings each open node from what the cloud shows to what was asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.beliefs import believe, needs_evidence
from service.controllers.records import Records
from service.controllers.steps import Steps
from service.domain.clock import Clock
from service.domain.errors import CloudError, CloudNotFound, Conflict, StoreUnavailable
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle import Look, Step, is_ours, next_step, out_of_time, retry_delay
from service.domain.node import Asked, CloudNode, Node
from service.domain.observation import Looking
from service.store.pricebook import PriceShelf
from service.store.unit import Units

log = structlog.get_logger()

BATCH = 1_000
"""Nodes taken up in one tick; the longest waiting first, so none starves."""


class LifecycleController:
    """One node at a time: read, look, decide, act, write. No transaction is open while the cloud is
    asked, and every write is guarded by the node's version and by the lease."""

    name = "lifecycle"

    def __init__(
        self, units: Units, cloud: TpuCloud, prices: PriceShelf, clock: Clock, steps: Steps
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._steps = steps

    workers = 8
    """Nodes worked on at once; bounded, so that an outage does not become a storm."""

    def tick(self, lease: Lease) -> None:
        """Take one step for every node that is due; one that fails keeps no other from its turn."""
        with self._units.reading() as unit:
            due = unit.nodes.due(lease.project, self._clock(), BATCH)
        if self.workers == 1:
            for node_id in due:
                self._isolated(node_id, lease)
        elif due:
            with ThreadPoolExecutor(self.workers) as pool:
                list(pool.map(lambda node_id: self._isolated(node_id, lease), due))

    def reconcile(self, node_id: str, lease: Lease) -> Step | None:
        """Take the next step for one node; answers it, or None when there is nothing more to do."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
        if node.ended:
            return None
        node = self._mind_the_clock(node, now, lease)
        look = self._look(node)
        if look.sight is not None and is_ours(node, look.sight):
            node = self._believe(node, look.sight, look, now, lease)
        step = next_step(node, look, now)
        self._steps.take(step, node, look, lease)
        return step

    def _isolated(self, node_id: str, lease: Lease) -> None:
        """A failure is written on the node and tried again later; the others go on."""
        try:
            self.reconcile(node_id, lease)
        except Conflict as error:
            log.debug("lifecycle.overtaken", node_id=node_id, reason=str(error))
        except StoreUnavailable as error:
            log.warning("lifecycle.no_database", node_id=node_id, reason=str(error))
        except CloudError as error:
            log.warning("lifecycle.cloud_error", node_id=node_id, reason=str(error))
            wait = error.facts.get("retry_after")
            self._note(node_id, str(error), lease, wait if isinstance(wait, int) else None)
        except Exception as error:  # one poisoned node must not starve the others
            log.exception("lifecycle.failed", node_id=node_id)
            self._note(node_id, f"internal error: {type(error).__name__}", lease)

    def _note(self, node_id: str, reason: str, lease: Lease, wait: int | None = None) -> None:
        """Write down why nothing came of it; it is tried again after `wait` seconds where the cloud
        said so, else ever later."""
        try:
            with self._units(lease) as unit:
                node = unit.nodes.get(node_id)
                later = self._clock() + (retry_delay(node.tries) if wait is None else wait)
                unit.nodes.save(
                    replace(node, last_error=reason, tries=node.tries + 1, next_try_at=later)
                )
        except (Conflict, StoreUnavailable) as error:
            log.info("lifecycle.not_noted", node_id=node_id, reason=str(error))

    def _mind_the_clock(self, node: Node, now: int, lease: Lease) -> Node:
        """Turn a time to live that ran out into a wish, like any other, with its reason."""
        reason = out_of_time(node, now)
        if not reason:
            return node
        with self._units(lease) as unit:
            unit.events.add(Event(node.id, now, "asked", f"deletion asked for: {reason}"))
            return unit.nodes.save(
                replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    delete_reason=reason,
                    gave_up=node.ready_at is None,
                )
            )

    def _look(self, node: Node) -> Look:
        if node.sent_at is None:
            return Look(None)
        try:
            sight: CloudNode | None = self._cloud.get(node.place)
        except CloudNotFound:
            sight = None
        return Look(sight, Records(self._cloud).last(node))

    def _believe(self, node: Node, sight: CloudNode, look: Look, asked: int, lease: Lease) -> Node:
        if sight.state == node.state and sight.uid == node.cloud_uid:
            return node
        operations = Records(self._cloud).of(node) if needs_evidence(node, sight) else ()
        if not operations and look.operation is not None:
            operations = (look.operation,)
        with self._units(lease) as unit:
            before = max(node.seen_at, unit.leases.looked_at(node.spec.project))
            book = self._prices.book(unit)
            looking = Looking(self._clock(), before, operations, asked)
            after = believe(unit, node, sight, looking, book, self.name)
            return unit.nodes.save(after)
