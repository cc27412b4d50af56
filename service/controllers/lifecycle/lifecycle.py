"""Brings each open node from its observed to its requested state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.lifecycle.observation import NodeObserver
from service.controllers.lifecycle.step import Steps
from service.controllers.threads import take_for, work_on
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import CloudError, Conflict, LeaseLost, StoreUnavailable
from service.domain.event import Event
from service.domain.idle.policy import Action
from service.domain.idle.policy import apply_policies as applied_policy
from service.domain.ids import new_id
from service.domain.lease import Lease
from service.domain.lifecycle.expiry import (
    Expiry,
    ExpiryStep,
    expiry_of,
    out_of_time,
    with_end_held,
    with_notice,
)
from service.domain.lifecycle.lifecycle import (
    asked_to_wait,
    describe_alarm,
    may_have_come_up,
    needs_a_human,
    next_step,
    with_retry,
)
from service.domain.lifecycle.precedence import describe_others
from service.domain.lifecycle.step import NodeStep
from service.domain.money import format_dollars
from service.domain.nodes.keep import keep_sentence, waits_for_job_end
from service.domain.nodes.node import Asked, Node
from service.domain.notifications.node_messages import notifications_of, recipients_of, ttl_message
from service.domain.pricing.burn import burn_of
from service.store.node_ends import read_causes
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

BATCH = 1_000
"""Nodes of one tick: first nodes to delete, then the longest waiting, so that none starves."""
TURN_SECONDS = 10.0
"""Seconds after which a tick begins no other node. The next tick begins with new deletions."""


class LifecycleController:
    """Reads, looks, decides, acts and saves, for each node separately. No transaction is open while
    the cloud is asked, and every write is guarded by the node's version and by the lease."""

    name = "lifecycle"

    def __init__(
        self, units: Units, cloud: TpuCloud, prices: PriceBookCache, clock: Clock, steps: Steps
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._steps = steps
        self._records = steps.records
        self._observer = NodeObserver(units, cloud, prices, clock, steps.records)

    workers = 8
    """Nodes reconciled at the same time; bounded, so that an outage causes no retry storm."""
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    """The clock that limits a tick."""

    def tick(self, lease: Lease) -> None:
        """Take one step for every due node; a node that fails delays no other node."""
        with self._units.reading() as unit:
            due = unit.nodes.list_due(lease.project, self._clock(), BATCH)
        self._records.forget_project(lease.project)
        line = take_for(due, TURN_SECONDS, self.monotonic)
        workers = min(self.workers, len(due))
        work_on(line, lambda node_id: self._reconcile_isolated(node_id, lease), workers)

    def reconcile(self, node_id: str, lease: Lease) -> NodeStep | None:
        """Take the next step for one node and return it; None if the node has ended."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
        if node.has_ended:
            return None
        if needs_a_human(node, now):
            with self._units(lease) as unit:
                billing = "it is not billed"
                if unit.usage.list_open_of(node.id):
                    rate = self._known_rate(unit, node, now)
                    billing = (
                        "it is billed, at an unknown price"
                        if rate is None
                        else f"it is billed {format_dollars(rate)} an hour"
                    )
                message = describe_alarm(node, now, billing)
                unit.events.add(Event(node.id, now, "alarm", message))
                log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=message)
                node = unit.nodes.save(replace(node, alarmed_at=now))
        elif not may_have_come_up(node):
            node = self._expire_node(node, now, lease)
        look = self._observer.look(node)
        may_be_up = may_have_come_up(node)
        node = self._observer.record_look(node, look, now, lease)
        if may_be_up:
            node = self._expire_node(node, now, lease)
        step = next_step(node, look, now)
        self._steps.take_step(step, node, look, lease)
        return step

    def _reconcile_isolated(self, node_id: str, lease: Lease) -> None:
        """Reconcile a node; a failure is recorded on the node and retried later. Raises LeaseLost:
        every other node would fail too."""
        try:
            self.reconcile(node_id, lease)
        except LeaseLost:
            raise
        except Conflict as error:
            log.debug("lifecycle.overtaken", node_id=node_id, reason=str(error))
        except StoreUnavailable as error:
            log.warning("lifecycle.no_database", node_id=node_id, reason=str(error))
        except CloudError as error:
            log.warning("lifecycle.cloud_error", node_id=node_id, reason=str(error))
            self._record_failure(node_id, str(error), lease, asked_to_wait(error))
        except Exception as error:  # one poisoned node must not starve the others
            log.exception("lifecycle.failed", node_id=node_id)
            self._record_failure(node_id, f"internal error: {type(error).__name__}", lease)

    def _record_failure(
        self, node_id: str, reason: str, lease: Lease, wait: int | None = None
    ) -> None:
        """Record on the node why the step failed, and when it is retried."""
        try:
            with self._units(lease) as unit:
                node = unit.nodes.get(node_id)
                unit.nodes.save(with_retry(node, reason, self._clock(), wait))
        except LeaseLost:
            raise
        except (Conflict, StoreUnavailable) as error:
            log.info("lifecycle.not_noted", node_id=node_id, reason=str(error))

    def _expire_node(self, node: Node, now: int, lease: Lease) -> Node:
        """Turn an expired time limit into a deletion request with its reason."""
        over = out_of_time(node, now)
        if not over and not waits_for_job_end(node):
            return node
        with self._units(lease) as unit:
            is_paused = unit.cleanups.get(node.spec.project, held=True).is_paused
            expiry = expiry_of(node, over, now, is_paused=is_paused)
            after = node if expiry is None else self._apply_expiry(unit, node, expiry, now)
            return node if after == node else unit.nodes.save(after)

    def _apply_expiry(self, unit: Unit, node: Node, expiry: Expiry, now: int) -> Node:
        """The node after the hold, notice or end that its expiry asks for."""
        match expiry.step:
            case ExpiryStep.HOLD:
                after = with_end_held(node, expiry, now)
                if after.ends_after_keep != node.ends_after_keep:
                    others = describe_others(read_causes(unit, node, now), expiry.reason)
                    message = f"deletion waits: {expiry.reason}{others}; {keep_sentence(node)}"
                    unit.events.add(Event(node.id, now, "held", message))
                return after
            case ExpiryStep.NOTICE:
                return self._give_notice(unit, node, now)
            case ExpiryStep.END:
                others = describe_others(read_causes(unit, node, now), expiry.reason)
                message = f"deletion requested: {expiry.reason}{others}"
                unit.events.add(Event(node.id, now, "asked", message))
                return replace(
                    node,
                    asked=Asked.ABSENT,
                    delete_requested_at=now,
                    delete_reason=expiry.reason,
                    gave_up=node.ready_at is None,
                    alarmed_at=None,
                )

    def _give_notice(self, unit: Unit, node: Node, now: int) -> Node:
        """Tell the owner of a node that was kept beyond its time to live when it will be
        deleted."""
        applied = applied_policy(node.spec, node.team, unit.idle_policies.find_all(), Action.DELETE)
        after = with_notice(node, now, applied.rule.grace_seconds)
        acts_at, over_at = after.kept_until, node.deletes_at
        assert acts_at is not None
        assert over_at is not None
        message = ttl_message(node, now, over_at, acts_at, self._known_rate(unit, node, now))
        for notification in notifications_of(
            message, recipients_of(applied, node.owner), now, new_id
        ):
            unit.notifications.add(notification)
        text = (
            f"its time to live expired at {to_rfc3339(over_at)}, and no keep protects it any more;"
        )
        unit.events.add(
            Event(node.id, now, "held", f"{text} it is deleted at {to_rfc3339(acts_at)}")
        )
        return after

    def _known_rate(self, unit: Unit, node: Node, now: int) -> int | None:
        """Nano-dollars an hour that are billed for the node; None if a price is unknown."""
        return burn_of(unit.usage.list_open_of(node.id), self._prices.get_book(unit), now)
