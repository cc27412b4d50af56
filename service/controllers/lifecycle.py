"""Brings each open node from what the cloud shows to what was asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.eyes import Eyes
from service.controllers.steps import Steps
from service.domain.clock import Clock
from service.domain.errors import CloudError, Conflict, StoreUnavailable
from service.domain.estimate import hourly
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle import (
    alarm,
    asked_to_wait,
    needs_a_human,
    next_step,
    out_of_time,
    put_off,
)
from service.domain.money import usd
from service.domain.node import Asked, Node
from service.domain.step import Step
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

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
        self._eyes = Eyes(units, cloud, prices, clock)

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
        look = self._eyes.look(node)
        node = self._eyes.believe(node, look, now, lease)
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
            self._note(node_id, str(error), lease, asked_to_wait(error))
        except Exception as error:  # one poisoned node must not starve the others
            log.exception("lifecycle.failed", node_id=node_id)
            self._note(node_id, f"internal error: {type(error).__name__}", lease)

    def _note(self, node_id: str, reason: str, lease: Lease, wait: int | None = None) -> None:
        """Write down why nothing came of it, and when it is tried again."""
        try:
            with self._units(lease) as unit:
                node = unit.nodes.get(node_id)
                unit.nodes.save(put_off(node, reason, self._clock(), wait))
        except (Conflict, StoreUnavailable) as error:
            log.info("lifecycle.not_noted", node_id=node_id, reason=str(error))

    def _mind_the_clock(self, node: Node, now: int, lease: Lease) -> Node:
        """Turn a time that ran out into a wish, like any other, with its reason; and tell a human
        of what does not come to what was asked."""
        reason, alarming = out_of_time(node, now), needs_a_human(node, now)
        if not reason and not alarming:
            return node
        with self._units(lease) as unit:
            if alarming:
                told = alarm(node, now, self._hourly(unit, node, now))
                unit.events.add(Event(node.id, now, "alarm", told))
                log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=told)
                return unit.nodes.save(replace(node, alarmed_at=now))
            unit.events.add(Event(node.id, now, "asked", f"deletion asked for: {reason}"))
            return unit.nodes.save(
                replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    delete_reason=reason,
                    gave_up=node.ready_at is None,
                    alarmed_at=None,
                )
            )

    def _hourly(self, unit: Unit, node: Node, now: int) -> str:
        """What is still billed of it, in words."""
        running = unit.usage.running_of(node.id)
        if not running:
            return "nothing of it is billed"
        book = self._prices.book(unit)
        rates = [hourly(one.chips, book.at(one.sku, now)) for one in running]
        known = sum(rate for rate in rates if rate is not None)
        if None in rates:
            return "it is billed, at a price that nobody knows"
        return f"it is billed ${usd(known)} an hour"
