"""Takes the next step for every job that is due."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from service.cloud.ports import Registry, TpuCloud
from service.controllers.jobs.image import inspect_image
from service.controllers.jobs.mailbox import Mailbox
from service.controllers.threads import work_on
from service.domain.clock import Clock
from service.domain.errors import (
    BudgetExceeded,
    CloudError,
    Conflict,
    LeaseLost,
    Rejected,
    StoreUnavailable,
)
from service.domain.event import Event
from service.domain.jobs.job import Attempt, Job, JobState, Phase, Reason
from service.domain.jobs.outcome import NodeFacts, is_about_to_go
from service.domain.jobs.pace import (
    ASSERT_SECONDS,
    claim_again_at,
    is_delivery_due,
    is_read_due,
    next_look,
)
from service.domain.jobs.phases import steps_before
from service.domain.jobs.step import AttemptStep, decide_step, is_over
from service.domain.jobs.transition import (
    JobTransition,
    TaskDelivery,
    apply_decision,
    apply_delivery,
    has_echoed,
    new_attempt,
    with_answer,
    with_refusal,
    with_reports,
    with_wait_detail,
)
from service.domain.lease import Lease
from service.domain.lifecycle.expiry import with_ended_job
from service.domain.lifecycle.precedence import describe_others
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Evidence
from service.domain.nodes.keep import keep_sentence, waits_for_job_end
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.placement import Outcome
from service.domain.nodes.request import RequestedNode, ResolvedRequest
from service.store.node_ends import read_causes
from service.store.unit import Unit, Units

log = structlog.get_logger()

BATCH = 60
"""Jobs of one tick, the longest waiting first; limited so that a tick stays short."""

GONE_SECONDS = 300
"""Seconds that a new attempt waits at most for the deletion of its predecessor's node, which holds
quota. The attempt waits longer while that node may still run the container."""

ACTOR = "the job controller"


class AdmitsJobs(Protocol):
    """Resolves and records node requests, and admits jobs to existing nodes; see
    `service.application.nodes.requests`."""

    def admit_job(self, unit: Unit, node: Node, job: Job) -> None:
        """Raise BudgetExceeded if a budget of the job has no room for its worst case."""
        ...

    def resolve_request(self, wanted: RequestedNode) -> tuple[RequestedNode, ResolvedRequest]:
        """Resolve a request: returns the request with its project, and its spec."""
        ...

    def record_node(
        self, unit: Unit, wanted: RequestedNode, meant: ResolvedRequest, actor: str, job: str = ""
    ) -> Node:
        """Write the node and place the hold for its worst case."""
        ...


@dataclass(frozen=True, slots=True)
class _Found:
    """A job, its open attempt and the attempt's node. `reached` is the highest step of the earlier
    attempts."""

    job: Job
    attempt: Attempt
    node: Node
    reached: int | None


class JobsController:
    """Reads, looks, decides and writes, for each job separately. No transaction is open while the
    cloud is asked, and every write is guarded by the version of its row and by the lease."""

    name = "jobs"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        registry: Registry,
        requests: AdmitsJobs,
        clock: Clock,
        period: int = 5,
    ) -> None:
        self._units = units
        self._registry = registry
        self._requests = requests
        self._clock = clock
        self._period = period
        self._mailbox = Mailbox(cloud, units)

    workers = 8
    """Jobs reconciled at the same time."""

    def tick(self, lease: Lease) -> None:
        """Take one step for every due job; a job that fails delays no other job."""
        with self._units.reading() as unit:
            due = unit.jobs.list_due(lease.project, self._clock(), BATCH)
        workers = min(self.workers, len(due))
        work_on(due, lambda job_id: self._reconcile_isolated(job_id, lease), workers)

    def _reconcile_isolated(self, job_id: str, lease: Lease) -> None:
        try:
            self.reconcile(job_id, lease)
        except LeaseLost:
            raise  # every other job would fail too
        except Conflict as error:
            log.debug("jobs.overtaken", job_id=job_id, reason=str(error))
        except (StoreUnavailable, CloudError) as error:
            log.warning("jobs.no_answer", job_id=job_id, reason=str(error))
        except Exception:  # one poisoned job must not starve the others
            log.exception("jobs.failed", job_id=job_id)
            try:
                with self._units(lease) as unit:
                    job = unit.jobs.get(job_id)
                    unit.jobs.save(replace(job, next_try_at=self._clock() + 60))
            except (Conflict, StoreUnavailable) as error:
                log.info("jobs.not_put_off", job_id=job_id, reason=str(error))

    def reconcile(self, job_id: str, lease: Lease) -> None:
        """Take the next step of one job."""
        with self._units.reading() as unit:
            job = unit.jobs.get(job_id)
            attempts = unit.jobs.list_attempts(job_id)
            attempt = attempts[-1] if attempts else None
            node_id = attempt.node_id if attempt is not None else job.node_id
            node = unit.nodes.get(node_id) if node_id else None
            reached = steps_before(attempts)
        if job.image_checked_at is None and not job.ended and job.cancel_requested_at is None:
            job = self._check_image(job, node, lease)
            if job.next_try_at is not None and job.next_try_at > self._clock():
                return  # other jobs are before this job
        if job.ended:
            self._finish_job(job, attempt, node, lease)
        elif attempt is None or attempt.ended:
            self._begin_attempt(job, attempt, node, lease)
        elif node is not None:
            self._advance_attempt(_Found(job, attempt, node, reached), lease)

    def _check_image(self, job: Job, node: Node | None, lease: Lease) -> Job:
        """Ask the registry, then let the lifecycle create the node of the job."""
        image = inspect_image(self._registry, job.spec.image)
        with self._units(lease) as unit:
            job = unit.jobs.get(job.id)
            if job.cancel_requested_at is not None:  # while the registry was asked
                return job
            now = self._clock()
            if image.warning:
                job = replace(job, warnings=(*job.warnings, image.warning))
            job = replace(job, image_digest=image.digest, image_checked_at=now)
            if image.refusal:
                job = with_refusal(job, image.refusal, image.detail, now)
                if not job.own_node:
                    unit.jobs.wake_next(job, now)
                attempts = unit.jobs.list_attempts(job.id)
                if attempts and not attempts[-1].ended:  # it has not begun, and needs no node
                    attempt = replace(
                        attempts[-1].in_phase(Phase.ENDED, now),
                        reason=job.reason,
                        detail=job.detail,
                        ended_at=now,
                        released_at=now,
                    )
                    unit.jobs.save_attempt(attempt)
                    self._delete_node(unit, attempt.node_id, job, now)
                return unit.jobs.save(job)
            if job.own_node and node is not None and node.asked is Asked.PRESENT:
                unit.nodes.wake([node.id], now)
            if not job.own_node and not unit.jobs.is_first_in_line(job):
                later = claim_again_at(now, self._period, is_next=False)
                job = replace(job, next_try_at=later)
            return unit.jobs.save(job)

    def _begin_attempt(
        self, job: Job, attempt: Attempt | None, node: Node | None, lease: Lease
    ) -> None:
        """Begin the next attempt once a node is free for it. `attempt` is the previous attempt."""
        # A node that exists only because of a keep gets no other attempt.
        is_reusable = (
            node is not None
            and not node.has_ended
            and node.asked is Asked.PRESENT
            and not waits_for_job_end(node)
        )
        if job.cancel_requested_at is not None:
            with self._units(lease) as unit:
                now = self._clock()
                detail = "cancelled before it started"
                job = job.with_end(JobState.CANCELLED, Reason.CANCELLED, detail, now)
                if job.own_node and node is not None:  # no attempt will use the node
                    self._delete_node(unit, node.id, job, now)
                unit.jobs.wake_next(job, now)
                unit.jobs.save(job)
        elif not job.own_node or is_reusable:
            assert node is not None
            try:
                self._claim_node(job, node, lease)
            except BudgetExceeded as error:
                self._refuse_job(job, Reason.BUDGET_EXCEEDED, str(error), lease)
        elif (
            node is None
            or attempt is None
            or node.has_ended
            # A new node while the previous one still exists: a job never runs twice at once,
            # however long a deletion takes.
            or (
                self._clock() - (attempt.ended_at or 0) >= GONE_SECONDS
                and is_over(job, attempt, node)
            )
        ):
            self._request_node(job, lease)
        else:
            with self._units(lease) as unit:
                unit.jobs.save(replace(job, next_try_at=self._clock() + self._period))

    def _claim_node(self, job: Job, node: Node, lease: Lease) -> None:
        """Claim an existing node, in the order in which jobs were submitted."""
        if node.has_ended or node.asked is Asked.ABSENT:
            detail = f"node {node.name} is {node.state}: it was deleted before the job started"
            self._refuse_job(job, Reason.NODE_DELETED, detail, lease)
            return
        with self._units(lease) as unit:
            # A stop or deletion locks the node too: it comes before this claim, or sees the job.
            # Budgets are locked after the node, as everywhere.
            unit.nodes.lock(node.id)
            current = unit.nodes.get(node.id)
            is_free = current.state == NodeState.READY and current.asked is Asked.PRESENT
            last = unit.jobs.find_last(node.id)
            is_leaving = is_about_to_go(last, current, unit.leases.looked_at(job.project))
            holder = unit.jobs.find_claim(node.id)
            first, before = unit.jobs.line_before(job)
            job = with_wait_detail(
                job,
                current,
                first,
                before,
                "" if holder is None else holder.job_id,
                is_leaving=is_leaving,
            )
            if holder is not None or before or not is_free or is_leaving:
                later = claim_again_at(self._clock(), self._period, is_next=not before)
                unit.jobs.save(replace(job, next_try_at=later))
                return
            if not job.own_node:
                self._requests.admit_job(unit, current, job)
            since = self._lend_node(unit, job, current)
            job = replace(job, attempt=job.attempt + 1)
            generation = unit.jobs.last_generation(node.id) + 1
            unit.jobs.add_attempt(new_attempt(job, current, generation=generation, now=since))
            job = job.in_state(JobState.WAITING_FOR_NODE, self._clock())
            unit.jobs.save(replace(job, next_try_at=self._clock()))

    def _lend_node(self, unit: Unit, job: Job, node: Node) -> int:
        """Charge a caller's node to the job; returns the time from which it is charged.

        The node gets a new version. A concurrent stop or change of owner has read that no job runs
        there, and fails.
        """
        now = self._clock()
        if job.own_node:
            return now
        if waits_for_job_end(node):  # a new job ends that wait
            node = replace(node, ends_after_keep="")
        unit.nodes.save(node)
        since = max(now, unit.attributions.list_by_node(node.id)[-1].since + 1)
        whose = Attribution(node.id, since, job.owner, job.team, job.id, job.labels)
        unit.nodes.charge_to(whose, now)
        unit.events.add(Event(node.id, now, "job", f"job {job.id} runs here", ACTOR))
        return since

    def _request_node(self, job: Job, lease: Lease) -> None:
        """Request a node for the next attempt; a refusal by a budget ends the job."""
        with self._units.reading() as unit:
            request = unit.jobs.node_request(job.id)
        assert request is not None
        number = job.attempt + 1
        named = replace(request, name=f"{(request.name or f'job-{job.id[-8:]}')[:44]}-{number}")
        try:
            wanted, meant = self._requests.resolve_request(named)
            with self._units(lease) as unit:
                now = self._clock()
                node = self._requests.record_node(unit, wanted, meant, ACTOR, job.id)
                unit.nodes.wake([node.id], now)
                job = replace(job, attempt=number, node_id=node.id, next_try_at=now)
                unit.jobs.add_attempt(new_attempt(job, node, generation=1, now=now))
                unit.jobs.save(job.in_state(JobState.WAITING_FOR_NODE, now))
        except (BudgetExceeded, Rejected) as error:
            reason = (
                Reason.BUDGET_EXCEEDED
                if isinstance(error, BudgetExceeded)
                else Reason.NODE_NOT_GRANTED
            )
            self._refuse_job(job, reason, str(error), lease)

    def _refuse_job(self, job: Job, reason: Reason, detail: str, lease: Lease) -> None:
        """End a job before its next attempt begins."""
        with self._units(lease) as unit:
            now = self._clock()
            if not job.own_node:
                unit.jobs.wake_next(job, now)
            unit.jobs.save(with_refusal(job, reason, detail, now))

    def _advance_attempt(self, found: _Found, lease: Lease) -> None:
        """Read the reports, decide and save; then write the newest task into the metadata."""
        job, node, before, now = found.job, found.node, found.attempt, self._clock()
        attempt = before
        if attempt.placement and node.state == NodeState.READY and is_read_due(attempt, now):
            attempt = self._read_reports(found, now)
        facts = self._gather_facts(attempt, node, job.project)
        decision = decide_step(job, attempt, node, facts, now)
        changed = apply_decision(job, attempt, node, decision, now)
        if decision.step is not AttemptStep.WAIT:
            log.info(
                "jobs.step",
                job_id=job.id,
                attempt=attempt.number,
                step=decision.step.value,
                state=changed.job.state,
            )
        saved = self._save_transition(changed, before, node, lease)
        if saved.follow is not None or not is_delivery_due(saved.attempt, node, now):
            return
        delivery = self._mailbox.deliver_task(saved.job, saved.attempt, node, lease)
        after = apply_delivery(saved, delivery, self._clock())
        if after != saved:
            with self._units(lease) as unit:
                if after.attempt != saved.attempt:
                    unit.jobs.save_attempt(after.attempt)
                if after.job != saved.job:
                    unit.jobs.save(after.job)

    def _read_reports(self, found: _Found, now: int) -> Attempt:
        """The attempt with the reports of its workers; unchanged if reading was rate-limited."""
        read = self._mailbox.read_reports(found.node, now)
        if read is None:
            return found.attempt
        reports, answered = read
        attempt = replace(with_reports(found.attempt, reports, found.reached), read_at=now)
        if answered:
            attempt = with_answer(attempt, now)
        return replace(attempt, echoed=has_echoed(found.job, attempt, found.node))

    def _gather_facts(self, attempt: Attempt, node: Node, project: str) -> NodeFacts:
        since = attempt.ready_at or attempt.claimed_at
        with self._units.reading() as unit:
            states = {
                observation.state
                for observation in unit.observations.list_by_node(node.id)
                if observation.observed_at >= since and observation.state != NodeState.READY
            }
            placements = {
                placement.attempt: placement for placement in unit.placements.list_by_node(node.id)
            }
            looked_at = unit.leases.looked_at(project)
            ends = [
                usage.end_evidence
                for usage in unit.usage.list_by_node(node.id)
                if (usage.end or 0) >= since
            ]
        placed = placements.get(attempt.placement or node.attempt)
        return NodeFacts(
            states=frozenset(states),
            placement=Outcome.OPEN if placed is None else placed.outcome,
            looked_at=looked_at,
            terminated=Evidence.AUDIT in ends,
        )

    def _save_transition(
        self, changed: JobTransition, before: Attempt, node: Node, lease: Lease
    ) -> JobTransition:
        """Save the job, the attempt and the consequences of its end in one transaction."""
        job, attempt, now = changed.job, changed.attempt, self._clock()
        if changed.follow is None:
            later = next_look(job, attempt, now, self._period)
            with self._units(lease) as unit:
                if attempt != before:
                    attempt = unit.jobs.save_attempt(attempt)
                if attempt.phase is Phase.STOPPING and attempt.placement == 0:
                    self._delete_node(unit, attempt.node_id, job, now)
                job = unit.jobs.save(replace(job, next_try_at=later))
            return JobTransition(job, attempt)
        with self._units(lease) as unit:
            attempt = replace(attempt, released_at=self._release_node(unit, job, attempt, now))
            attempt = unit.jobs.save_attempt(attempt)
            if job.own_node and not changed.follow.same_node:
                self._delete_node(unit, node.id, job, now)
            # A caller's node still has the old task: `_finish_job` makes its supervisors release
            # it.
            again = now if changed.follow.again or not job.own_node else None
            if job.ended and not job.own_node:
                unit.jobs.wake_next(job, now)
            job = unit.jobs.save(replace(job, next_try_at=again))
        return JobTransition(job, attempt, changed.follow)

    def _release_node(self, unit: Unit, job: Job, attempt: Attempt, now: int) -> int:
        """Charge a caller's node to its owner again; returns the time from which the owner is
        charged. The node gets a new version, as in `_lend_node`."""
        if job.own_node:
            return now
        node = unit.nodes.save(unit.nodes.get(attempt.node_id))
        since = max(now, unit.attributions.list_by_node(node.id)[-1].since + 1)
        unit.nodes.charge_to(
            Attribution(node.id, since, node.owner, node.team, "", node.labels), now
        )
        message = f"job {job.id}: {attempt.reason}: {attempt.detail}"
        unit.events.add(Event(node.id, now, "job", message, ACTOR))
        return since

    def _delete_node(self, unit: Unit, node_id: str, job: Job, now: int) -> None:
        """Request the deletion of the job's node in the transaction that ends its attempt. The
        deletion of a kept node waits for the end of the keep."""
        node = unit.nodes.get(node_id)
        if node.has_ended or node.asked is Asked.ABSENT:
            return
        reason = f"job {job.id} is {job.state}"
        kept = with_ended_job(node, reason, now)
        if kept is not None:
            if kept.ends_after_keep != node.ends_after_keep:
                message = f"deletion waits: {reason}; {keep_sentence(node)}"
                unit.events.add(Event(node.id, now, "held", message, ACTOR))
                unit.nodes.save(kept)
            return
        others = describe_others(read_causes(unit, node, now), reason)
        message = f"deletion requested: {reason}{others}"
        unit.events.add(Event(node.id, now, "asked", message, ACTOR))
        unit.nodes.save(
            replace(
                node,
                asked=Asked.ABSENT,
                delete_requested_at=now,
                delete_reason=reason,
                alarmed_at=None,
                tries=0,
                next_try_at=now,
            )
        )

    def _finish_job(
        self, job: Job, attempt: Attempt | None, node: Node | None, lease: Lease
    ) -> None:
        """Make the supervisors of a caller's node release an ended job, by the task in its
        metadata. After an attempt that never began, the task of an earlier attempt may still be
        there."""
        is_there = node is not None and node.state == NodeState.READY and not node.has_ended
        delivery = TaskDelivery(done=True)
        if attempt is not None and node is not None and is_there and not job.own_node:
            with self._units.reading() as unit:
                is_taken = unit.jobs.find_claim(node.id) is not None
            if not is_taken and self._clock() - (attempt.ended_at or 0) < GONE_SECONDS:
                delivery = self._mailbox.deliver_task(job, attempt, node, lease)
        again = ASSERT_SECONDS if delivery.written else self._period
        later = self._clock() + again if delivery.written or delivery.error else None
        with self._units(lease) as unit:
            unit.jobs.save(replace(job, next_try_at=later))
