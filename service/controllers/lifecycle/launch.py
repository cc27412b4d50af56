"""Creates a node in the cloud: one attempt after another, each recorded before it is sent."""

from __future__ import annotations

from dataclasses import replace

import structlog

from service.cloud.ports import Operation, Order
from service.controllers.lifecycle.context import StepContext
from service.controllers.lifecycle.quota import read_barred, save_learned_limit
from service.controllers.lifecycle.zone_offers import ZoneOffers
from service.controllers.recording.operation_log import polls_since
from service.controllers.recording.recording import end_placement, end_usage, lock_and_price
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudError,
    CloudNotFound,
    CloudUnavailable,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
    RateLimited,
)
from service.domain.event import Event
from service.domain.ids import cloud_id_for
from service.domain.jobs.task import task_of
from service.domain.jobs.transition import travels_in_create
from service.domain.lease import Lease
from service.domain.lifecycle.expiry import next_deadline
from service.domain.lifecycle.in_flight import is_unsent, may_yet_land, too_old_to_send
from service.domain.lifecycle.lifecycle import asked_to_wait, with_retry
from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.deletion import with_room
from service.domain.nodes.node import Asked, Node, NodeState, Slice
from service.domain.nodes.ownership import is_our_ticket, is_ours, labels_for
from service.domain.nodes.placement import HardwareKey, Outcome, Placement, outcome_of
from service.domain.placement.choice import (
    RECHECK_SECONDS,
    PlacementChoice,
    choose_candidate,
    describe_candidate,
    describe_denial,
    describe_next_try,
    describe_passed,
    describe_refusals,
    explain_choice,
    list_candidates,
    next_look_at,
    relevant_attempts,
    with_hardware,
)
from service.domain.placement.quota import scope_of
from service.store.unit import Unit

log = structlog.get_logger()

REFUSALS = (CapacityUnavailable, QuotaExceeded, NotAllowed, InvalidRequest, CloudNotFound)
"""Errors of a create after which certainly no node exists, and none will in this zone."""


class LaunchSteps:
    """The steps that request a node or end an attempt."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._offers = ZoneOffers(context.cloud, context.clock)

    def place(self, node: Node, lease: Lease) -> None:
        """Record the intent, then send it. After a crash in between, the intent is sent again."""
        now, attempt, slices = self._context.clock(), node.attempt + 1, node.spec.slices
        cloud_id = cloud_id_for(node.name, node.id, attempt)

        def record_intent(unit: Unit, node: Node) -> Node:
            choice = choose_next(unit, node, now)
            if choice.at > now:
                reasons = "; ".join(describe_passed(choice.passed, node.spec, now))
                following = describe_next_try(choice, node.spec)
                if not node.attempt and not node.last_error:  # only the first wait is an event
                    message = f"not requested yet: {reasons}; {following}"
                    unit.events.add(Event(node.id, now, "placement", message))
                again = next_look_at(node, min(choice.at, now + RECHECK_SECONDS))
                return replace(node, last_error=f"{reasons}; {following}", next_try_at=again)
            zone, spec = choice.key.zone, with_hardware(node.spec, choice.key)
            unit.placements.add(build_placement(node, choice.key, attempt, cloud_id, now))
            reason = explain_choice(choice, node.spec, now)
            message = f"attempt {attempt}: requesting {spec.accelerator_type} in {zone}"
            facts = {"attempt": attempt, "zone": zone, "why": reason.removeprefix(": ")}
            facts |= {"accelerator_type": spec.accelerator_type}
            message = f"{message} as {cloud_id}{reason}"
            unit.events.add(Event(node.id, now, "placement", message, facts=facts))
            return replace(
                with_room(node.with_state(NodeState.REQUESTED, now)),
                spec=spec,
                attempt=attempt,
                zone=zone,
                cloud_id=cloud_id,
                cloud_uid="",
                operation="",
                sent_at=now,
                unanswered_at=now,
                up_since=None,
                health="",
                endpoints=(),
                queue_state="",
                queue_since=None,
                missed_at=None,
                misses=0,
                # As for a node of its own, no slice existed before this request.
                slices_seen=(Slice(seen_at=now),) * slices if slices > 1 else (),
                next_try_at=now,
            )

        node = self._context.save(node, lease, record_intent)
        if node.sent_at is not None:
            self._create_node(node, lease, earlier_sent_at=None, final=True)

    def send(self, node: Node, lease: Lease) -> None:
        """Send the intent again after a lost answer or a rate limit.

        The name makes it the same node. An earlier create may still take effect under this name, so
        a refusal now is final only if that create was sent too long ago. If no earlier create can
        take effect, this is the first one.
        """
        now = self._context.clock()
        earlier_sent_at, final = node.unanswered_at, not may_yet_land(node, now)
        again = max(now, (node.sent_at or 0) + 1)
        first = again if is_unsent(node) else node.sent_at
        poll = self._context.records.build_poll(node, now)

        def end_unseen_usage(unit: Unit, node: Node) -> Node:
            # The node of an earlier create may have been READY and gone again between two looks.
            known = polls_since(poll, unit.nodes.shown_at(node.id))
            book = lock_and_price(unit, [node.id], self._context.prices)
            ended = end_usage(unit, node, known, book)
            ended = replace(ended, up_since=None, ready_at=node.ready_at)
            return replace(ended, sent_at=first, unanswered_at=again)

        node = self._context.save(node, lease, end_unseen_usage)
        self._create_node(node, lease, earlier_sent_at=earlier_sent_at, final=final)

    def _create_node(
        self, node: Node, lease: Lease, *, earlier_sent_at: int | None, final: bool
    ) -> None:
        """Send the create. `earlier_sent_at` is the time of an earlier create of this attempt that
        may still take effect; None if there is none."""
        try:
            operation = self._send_create(node, lease)
        except AlreadyExists:
            self._adopt_node(node, lease)
        except RateLimited as error:
            self._put_off(node, lease, error, earlier_sent_at)
        except REFUSALS as error:
            if final:
                self._give_way(node, lease, error)
            else:
                self._put_off(node, lease, error, earlier_sent_at)
        else:
            if operation is None:
                late = CloudUnavailable("the daemon was delayed before its request; it retries")
                self._put_off(node, lease, late, earlier_sent_at)
            else:
                self._record_accepted(node, lease, operation, final=final)

    def _send_create(self, node: Node, lease: Lease) -> Operation | None:
        """Ask the cloud, unless the zone's own lists refuse. Reading the lists may be slow, so the
        age of the intent is checked last: returns None if it is too old to be sent."""
        self._offers.require_offered(node)
        cloud = self._context.cloud_under_lease(lease)
        if too_old_to_send(node, self._context.clock()):
            return None
        labels = labels_for(node, self._context.installation.install)
        # Google ends the request by itself at this time, even if no daemon runs then.
        until = next_deadline(node, self._context.clock())
        until = until if node.ready_at is None else None
        task = ""  # of the job that the node is created for, if any
        with self._context.units.reading() as unit:
            attempt = unit.jobs.find_claim(node.id)
            job = None if attempt is None else unit.jobs.get(attempt.job_id)
        if job is not None and attempt is not None and travels_in_create(job, attempt, node):
            task = task_of(job, attempt, node, 0)
        return cloud.create(Order(node.place, node.spec, labels, until, task))

    def _put_off(
        self, node: Node, lease: Lease, error: CloudError, earlier_sent_at: int | None
    ) -> None:
        """Record that this call certainly had no effect, and retry later.

        The time of the earlier create is restored. After a crash before this write, the call counts
        as a call whose answer was lost. If the intent has changed meanwhile, only the reason is
        written.
        """
        log.warning("launch.put_off", node_id=node.id, zone=node.zone, reason=str(error))
        with self._context.units(lease) as unit:
            found = unit.nodes.get(node.id)
            after = with_retry(found, str(error), self._context.clock(), asked_to_wait(error))
            if _intent_key(found) == _intent_key(node):
                after = replace(after, unanswered_at=earlier_sent_at)
            unit.nodes.save(after)

    def _record_accepted(
        self, node: Node, lease: Lease, operation: Operation, *, final: bool
    ) -> None:
        now = self._context.clock()

        def with_operation(_unit: Unit, node: Node) -> Node:
            state = NodeState.QUEUED if node.spec.queued else NodeState.CREATING
            return replace(
                node.with_state(state, operation.created_at),
                operation=operation.name,
                unanswered_at=None if final else node.unanswered_at,
                last_error="",
                tries=0,
                next_try_at=now + self._context.installation.period,
            )

        self._context.save(node, lease, with_operation)

    def _adopt_node(self, node: Node, lease: Lease) -> None:
        """Keep the node if its name was taken by an earlier create of ours with a lost answer; fail
        the node if a stranger has the name."""
        cloud, place = self._context.cloud, node.place
        ours = (
            is_our_ticket(node, cloud.queued(place))
            if node.spec.queued
            else is_ours(node, cloud.get(place))
        )
        if not ours:
            self.fail_on_conflict(node, lease)
            return
        now = self._context.clock()
        self._context.save(
            node, lease, lambda _, node: replace(node, last_error="", tries=0, next_try_at=now)
        )

    def begin_next(self, node: Node, look: NodeLook, lease: Lease) -> None:
        """End an attempt of which the cloud shows nothing any more, and make the next attempt at
        once if it is due."""
        error = look.operation.error if look.operation is not None else None
        reason = error or CloudError(node.last_error or "it never appeared")
        node = self._give_way(node, lease, reason)
        due = node.next_try_at is not None and node.next_try_at <= self._context.clock()
        if due and node.asked is not Asked.ABSENT:
            self.place(node, lease)

    def _give_way(self, node: Node, lease: Lease, error: CloudError) -> Node:
        """End this attempt and schedule the next one; give up if no candidate is left.

        The next attempt is due at once unless a cooldown applies.
        """
        now, outcome = self._context.clock(), outcome_of(error)
        poll = self._context.records.build_poll(node, now)

        def end_attempt(unit: Unit, node: Node) -> Node:
            known = polls_since(poll, unit.nodes.shown_at(node.id))
            book = lock_and_price(unit, [node.id], self._context.prices)
            node = with_room(end_usage(unit, node, known, book))
            scope = scope_of(error, node.zone)
            end_placement(unit, node, outcome, str(error), now, scope)
            save_learned_limit(unit, node, error, now)
            if outcome is Outcome.DENIED:
                unit.events.add(Event(node.id, now, "denied", describe_denial(node, error)))
            tried = unit.placements.list_by_node(node.id)
            if not list_candidates(node.spec, tried):
                return _with_failure(unit, node, describe_refusals(tried, node.spec), now)
            choice = choose_next(unit, node, now)
            last = tried[-1]
            where = describe_candidate(last.key, node.spec)
            ended = f"{last.outcome} in {where}: {last.reason.rstrip('.')}"
            return replace(
                node.with_state(NodeState.REQUESTED, now),
                sent_at=None,
                unanswered_at=None,
                operation="",
                last_error=f"{ended}; {describe_next_try(choice, node.spec)}",
                next_try_at=next_look_at(node, min(choice.at, now + RECHECK_SECONDS)),
            )

        if outcome is Outcome.DENIED:
            log.warning("launch.denied", node_id=node.id, zone=node.zone, reason=str(error))
        return self._context.save(node, lease, end_attempt)

    def fail_on_conflict(self, node: Node, lease: Lease) -> None:
        """Give the node up because a stranger has its name; nothing of this node is in the
        cloud."""
        reason = (
            f"{node.cloud_id} in {node.zone} exists and is unmanaged; it is not touched."
            " Create the node again: it then gets another name in the cloud"
        )
        now = self._context.clock()

        def fail_node(unit: Unit, node: Node) -> Node:
            end_placement(unit, node, Outcome.NAME_TAKEN, reason, now)
            return _with_failure(unit, node, reason, now)

        self._context.save(node, lease, fail_node)


def _intent_key(node: Node) -> tuple[int, int | None, int | None]:
    """Identifies the intent that one create call stands for."""
    return node.attempt, node.sent_at, node.unanswered_at


def choose_next(unit: Unit, node: Node, now: int) -> PlacementChoice:
    """The next candidate for a node, based on the recent attempts of all nodes of the project."""
    spec = node.spec
    unit.placements.lock_until_commit(spec.project)
    history = unit.placements.list_recent(spec.project, spec.provisioning_model, now)
    keys = list_candidates(spec, unit.placements.list_by_node(node.id))
    barred = read_barred(unit, spec, now)
    return choose_candidate(keys, relevant_attempts(node, history), now, barred, node_id=node.id)


def build_placement(
    node: Node, key: HardwareKey, attempt: int, cloud_id: str, now: int
) -> Placement:
    """Build the placement of an attempt that begins now."""
    return Placement(
        node_id=node.id,
        attempt=attempt,
        zone=key.zone,
        model=key.model,
        cloud_id=cloud_id,
        started_at=now,
        project=node.spec.project,
        accelerator_type=key.accelerator_type,
        generation=key.generation,
    )


def _with_failure(unit: Unit, node: Node, reason: str, now: int) -> Node:
    unit.events.add(Event(node.id, now, "failed", f"given up: {reason}"))
    return replace(
        node.with_state(NodeState.FAILED, now),
        asked=Asked.ABSENT,
        gave_up=True,
        ended_at=now,
        last_error=reason,
        next_try_at=None,
    )
