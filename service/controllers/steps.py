"""The steps that the lifecycle can take, one method each: one cloud call, then one unit of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.cloud.ports import Operation, Order, TpuCloud
from service.controllers.beliefs import end_placement, end_usage
from service.controllers.records import Records
from service.domain.clock import Clock, rfc3339
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudNotFound,
    InvalidRequest,
    QuotaExceeded,
)
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle import Look, Step, is_ours, labels_for, retry_delay, wait_delay
from service.domain.names import cloud_id_for
from service.domain.node import LOST, Asked, Node, NodeState
from service.domain.observation import Looking
from service.domain.placement import Outcome, Placement, delay_before, outcome_of, zone_for
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

Change = Callable[[Unit, Node], Node]
"""What a unit of work makes of a node; the result is saved in the same transaction."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How this installation signs its nodes, and how often (in seconds) it looks at them."""

    install: str
    period: int


class Steps:
    """Acts on what `service.domain.lifecycle` decided."""

    def __init__(
        self, units: Units, cloud: TpuCloud, prices: PriceShelf, clock: Clock, manners: Manners
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._manners = manners

    def take(  # noqa: C901, PLR0912 - a table of the steps
        self, step: Step, node: Node, look: Look, lease: Lease
    ) -> None:
        """Take the step. Errors of the cloud that have no step of their own pass through."""
        match step:
            case Step.PLACE:
                self._place(node, lease)
            case Step.SEND:
                self._send(node, lease)
            case Step.WAIT:
                self._wait(node, lease)
            case Step.SETTLE:
                self._settle(node, lease)
            case Step.START:
                self._start(node, look, lease)
            case Step.STOP:
                self._stop(node, lease)
            case Step.DELETE:
                self._delete(node, lease)
            case Step.REPLACE:
                self._replace(node, look, lease)
            case Step.NEXT:
                self._next(node, look, lease)
            case Step.CLOSE | Step.VANISH:
                self._close(node, lease, vanished=step is Step.VANISH)
            case Step.CONFLICT:
                self._conflict(node, lease)

    def _save(self, node: Node, lease: Lease, change: Change) -> Node:
        with self._units(lease) as unit:
            after = change(unit, node)
            return after if after == node else unit.nodes.save(after)

    def _place(self, node: Node, lease: Lease) -> None:
        """Write the intent, then send it: after a crash in between, the intent is sent again."""
        now, attempt = self._clock(), node.attempt + 1
        zone = zone_for(node.spec.zones, attempt)
        cloud_id = cloud_id_for(node.name, node.id, attempt)

        def change(unit: Unit, node: Node) -> Node:
            model = node.spec.provisioning_model
            unit.placements.add(Placement(node.id, attempt, zone, model, cloud_id, now))
            message = f"attempt {attempt}: asking for it in {zone} as {cloud_id}"
            unit.events.add(Event(node.id, now, "placement", message, facts={"zone": zone}))
            return replace(
                node.moved(NodeState.REQUESTED, now),
                attempt=attempt,
                zone=zone,
                cloud_id=cloud_id,
                cloud_uid="",
                operation="",
                sent_at=now,
                up_since=None,
                replacing=False,
                health="",
                endpoints=(),
                next_try_at=now,
            )

        self._send(self._save(node, lease, change), lease)

    def _send(self, node: Node, lease: Lease) -> None:
        labels = labels_for(node, self._manners.install)
        try:
            operation = self._cloud.create(Order(node.place, node.spec, labels))
        except AlreadyExists:
            self._adopt(node, lease)
        except (CapacityUnavailable, QuotaExceeded) as error:
            self._give_way(node, lease, outcome_of(error), str(error))
        except InvalidRequest as error:
            self._refused(node, lease, Outcome.REFUSED, str(error))
        else:
            self._accepted(node, lease, NodeState.CREATING, operation)

    def _accepted(self, node: Node, lease: Lease, state: NodeState, operation: Operation) -> None:
        now = self._clock()

        def change(_unit: Unit, node: Node) -> Node:
            return replace(
                node.moved(state, now),
                operation=operation.name,
                last_error="",
                tries=0,
                next_try_at=now + self._manners.period,
            )

        self._save(node, lease, change)

    def _adopt(self, node: Node, lease: Lease) -> None:
        """The name is taken, by an earlier try of ours whose answer was lost, or by a stranger."""
        if not is_ours(node, self._cloud.get(node.place)):
            self._conflict(node, lease)
            return
        now = self._clock()
        self._save(
            node, lease, lambda _, node: replace(node, last_error="", tries=0, next_try_at=now)
        )

    def _wait(self, node: Node, lease: Lease) -> None:
        now = self._clock()
        waited = now - max(node.state_since, node.delete_requested_at or 0)
        later = now + wait_delay(waited, self._manners.period)
        self._save(node, lease, lambda _, node: replace(node, next_try_at=later))

    def _settle(self, node: Node, lease: Lease) -> None:
        def change(_unit: Unit, node: Node) -> Node:
            return replace(node, operation="", last_error="", tries=0, next_try_at=node.deletes_at)

        self._save(node, lease, change)

    def _start(self, node: Node, look: Look, lease: Lease) -> None:
        """Capacity is not held while stopped: a start may fail, and is tried again, ever later."""
        operation = self._cloud.start(node.place)
        now = self._clock()
        failed = look.operation.error if look.operation is not None else None

        def change(_unit: Unit, node: Node) -> Node:
            return replace(
                node.moved(NodeState.STARTING, now),
                operation=operation.name,
                last_error="" if failed is None else str(failed),
                tries=node.tries + 1,
                next_try_at=now + retry_delay(node.tries),
            )

        self._save(node, lease, change)

    def _stop(self, node: Node, lease: Lease) -> None:
        self._end(node, lease, NodeState.STOPPING, self._cloud.stop(node.place))

    def _delete(self, node: Node, lease: Lease) -> None:
        try:
            operation = self._cloud.delete(node.place)
        except CloudNotFound:
            return  # gone between the look and the call; the next look verifies it
        self._end(node, lease, NodeState.DELETING, operation)

    def _end(self, node: Node, lease: Lease, state: NodeState, operation: Operation) -> None:
        """Billing ends when the cloud accepts the operation: its own time for that is the end."""
        now = self._clock()

        def change(unit: Unit, node: Node) -> Node:
            looking = Looking(now, max(node.seen_at, operation.created_at), (operation,))
            node = end_usage(unit, node, looking, self._prices.book(unit))
            message = f"{state} in {node.zone}: {node.delete_reason or 'as asked'}"
            if state != node.state:
                unit.events.add(Event(node.id, now, "state", message))
            return replace(
                node.moved(state, now),
                operation=operation.name,
                tries=0,
                next_try_at=now + self._manners.period,
            )

        self._save(node, lease, change)

    def _replace(self, node: Node, look: Look, lease: Lease) -> None:
        """What is there cannot become what was asked for, yet holds its name and its quota.

        Whether another is made is the owner's wish where it was lost, and ours where it failed.
        """
        assert look.sight is not None
        now, state = self._clock(), look.sight.state
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
            node = self._save(node, lease, change)
        self._delete(node, lease)

    def _next(self, node: Node, look: Look, lease: Lease) -> None:
        """The cloud shows nothing of this attempt any more: the next one may be made."""
        error = look.operation.error if look.operation is not None else None
        if error is None:
            reason = node.last_error or "it never appeared"
            self._give_way(node, lease, Outcome.FAILED, reason)
        elif isinstance(error, InvalidRequest):
            self._refused(node, lease, Outcome.REFUSED, str(error))
        else:
            self._give_way(node, lease, outcome_of(error), str(error))

    def _give_way(self, node: Node, lease: Lease, outcome: Outcome, reason: str) -> None:
        """End this attempt and make ready for the next one.

        That is at once in the next zone, and after a while when all of them were tried.
        """
        now = self._clock()
        delay = delay_before(node.spec.zones, node.attempt + 1)
        looking = Looking(now, node.seen_at, Records(self._cloud).of(node))

        def change(unit: Unit, node: Node) -> Node:
            node = end_usage(unit, node, looking, self._prices.book(unit))
            end_placement(unit, node, outcome, reason, now)
            following = zone_for(node.spec.zones, node.attempt + 1)
            return replace(
                node.moved(NodeState.REQUESTED, now),
                sent_at=None,
                operation="",
                last_error=f"{outcome} in {node.zone}: {reason}; next: {following}"
                f" at {rfc3339(now + delay)}",
                next_try_at=now + delay,
            )

        self._save(node, lease, change)

    def _refused(self, node: Node, lease: Lease, outcome: Outcome, reason: str) -> None:
        """The cloud will never grant it: give up, and say why. Nothing of it is in the cloud."""
        now = self._clock()

        def change(unit: Unit, node: Node) -> Node:
            end_placement(unit, node, outcome, reason, now)
            message = f"given up: {reason}"
            unit.events.add(Event(node.id, now, "failed", message))
            return replace(
                node.moved(NodeState.FAILED, now),
                asked=Asked.ABSENT,
                gave_up=True,
                ended_at=now,
                last_error=reason,
                next_try_at=None,
            )

        self._save(node, lease, change)

    def _conflict(self, node: Node, lease: Lease) -> None:
        reason = f"{node.cloud_id} in {node.zone} exists and is not ours; it is left alone"
        self._refused(node, lease, Outcome.NAME_TAKEN, reason)

    def _close(self, node: Node, lease: Lease, *, vanished: bool) -> None:
        """Verified gone: GET has just answered that there is no such node."""
        now = self._clock()
        looking = Looking(now, node.seen_at, Records(self._cloud).of(node))
        reason = node.delete_reason
        if vanished:
            reason = "it was deleted outside this service"

        def change(unit: Unit, node: Node) -> Node:
            node = end_usage(unit, node, looking, self._prices.book(unit))
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

        self._save(node, lease, change)
