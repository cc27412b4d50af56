"""Gets a node into the cloud: one attempt after another, each written down before it is made."""

from __future__ import annotations

from dataclasses import replace

from service.cloud.ports import Operation, Order
from service.controllers.beliefs import end_placement, end_usage
from service.controllers.records import Records
from service.controllers.tools import Tools
from service.domain.clock import rfc3339
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudUnavailable,
    InvalidRequest,
    QuotaExceeded,
)
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle import Look, is_ours, labels_for, may_yet_land, too_old_to_send
from service.domain.names import cloud_id_for
from service.domain.node import Asked, Node, NodeState
from service.domain.observation import Looking
from service.domain.placement import Outcome, Placement, delay_before, outcome_of, zone_for
from service.store.unit import Unit


class Placing:
    """The steps that ask for a node, and those that give an attempt up."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def place(self, node: Node, lease: Lease) -> None:
        """Write the intent, then send it: after a crash in between, the intent is sent again."""
        now, attempt = self._tools.clock(), node.attempt + 1
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
                unanswered_at=now,
                up_since=None,
                replacing=False,
                health="",
                endpoints=(),
                next_try_at=now,
            )

        self._create(self._tools.save(node, lease, change), lease, final=True)

    def send(self, node: Node, lease: Lease) -> None:
        """Send the intent again, whose answer never came.

        The name makes it the same node. What was sent before may yet land, under this name; so a
        refusal now is the last word only if that was too long ago to.
        """
        now = self._tools.clock()
        final = not may_yet_land(node, now)
        again = max(now, (node.sent_at or 0) + 1)
        node = self._tools.save(node, lease, lambda _, node: replace(node, unanswered_at=again))
        self._create(node, lease, final=final)

    def _create(self, node: Node, lease: Lease, *, final: bool) -> None:
        if too_old_to_send(node, self._tools.clock()):
            raise CloudUnavailable("the daemon was held up before it could ask; it asks again")
        labels = labels_for(node, self._tools.manners.install)
        try:
            operation = self._tools.cloud.create(Order(node.place, node.spec, labels))
        except AlreadyExists:
            self._adopt(node, lease)
        except (CapacityUnavailable, QuotaExceeded, InvalidRequest) as error:
            if not final:
                raise
            if isinstance(error, InvalidRequest):
                self._refused(node, lease, Outcome.REFUSED, str(error))
            else:
                self._give_way(node, lease, outcome_of(error), str(error))
        else:
            self._accepted(node, lease, operation, final=final)

    def _accepted(self, node: Node, lease: Lease, operation: Operation, *, final: bool) -> None:
        now = self._tools.clock()

        def change(_unit: Unit, node: Node) -> Node:
            return replace(
                node.moved(NodeState.CREATING, operation.created_at),
                operation=operation.name,
                unanswered_at=None if final else node.unanswered_at,
                last_error="",
                tries=0,
                next_try_at=now + self._tools.manners.period,
            )

        self._tools.save(node, lease, change)

    def _adopt(self, node: Node, lease: Lease) -> None:
        """The name is taken, by an earlier try of ours whose answer was lost, or by a stranger."""
        if not is_ours(node, self._tools.cloud.get(node.place)):
            self.conflict(node, lease)
            return
        now = self._tools.clock()
        self._tools.save(
            node, lease, lambda _, node: replace(node, last_error="", tries=0, next_try_at=now)
        )

    def next(self, node: Node, look: Look, lease: Lease) -> None:
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
        now = self._tools.clock()
        delay = delay_before(node.spec.zones, node.attempt + 1)
        looking = Looking(now, node.seen_at, Records(self._tools.cloud).of(node))

        def change(unit: Unit, node: Node) -> Node:
            node = end_usage(unit, node, looking, self._tools.prices.book(unit))
            end_placement(unit, node, outcome, reason, now)
            following = zone_for(node.spec.zones, node.attempt + 1)
            return replace(
                node.moved(NodeState.REQUESTED, now),
                sent_at=None,
                unanswered_at=None,
                operation="",
                last_error=f"{outcome} in {node.zone}: {reason}; next: {following}"
                f" at {rfc3339(now + delay)}",
                next_try_at=now + delay,
            )

        self._tools.save(node, lease, change)

    def _refused(self, node: Node, lease: Lease, outcome: Outcome, reason: str) -> None:
        """The cloud will never grant it: give up, and say why. Nothing of it is in the cloud."""
        now = self._tools.clock()

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

        self._tools.save(node, lease, change)

    def conflict(self, node: Node, lease: Lease) -> None:
        reason = f"{node.cloud_id} in {node.zone} exists and is not ours; it is left alone"
        self._refused(node, lease, Outcome.NAME_TAKEN, reason)
