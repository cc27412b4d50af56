"""What callers may ask of jobs: submit one, see it, cancel it, and know what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from service.application.budgets import admission
from service.application.idempotency import Remember, known_by, once
from service.application.jobs.cost import AttemptCost, JobCost, attempt_costs, job_cost
from service.application.nodes.requests import NodeRequests
from service.application.projects import chosen
from service.application.retries import retrying
from service.domain.clock import Clock
from service.domain.errors import Conflict, NotFound
from service.domain.event import Event
from service.domain.idempotency import RequestKey
from service.domain.ids import new_id
from service.domain.jobs import startup
from service.domain.jobs.job import Attempt, Job
from service.domain.jobs.submission import (
    Submission,
    check_node,
    check_software,
    checked,
    submitted,
    warnings_of,
)
from service.domain.jobs.task import task_of
from service.domain.jobs.transition import new_attempt, waiting
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode, ResolvedRequest
from service.store.jobs import JobFilter
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

__all__ = ["JobFilter", "JobService", "JobStatus", "JobWithAttempts", "OnNode", "SubmittedJob"]

_LAST = 2**31
"""A generation with as many digits as any: the size of a task must not grow with it."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job with what it cost so far, and the name of its node (empty before there is one)."""

    job: Job
    cost: JobCost
    node_name: str


@dataclass(frozen=True, slots=True)
class JobWithAttempts:
    """A job and its attempts as of one instant: their phases come to its cost."""

    shown: JobStatus
    attempts: Sequence[AttemptCost]


@dataclass(frozen=True, slots=True)
class OnNode:
    """A job and its attempts on one node, first to last; none yet while it waits for the node."""

    job: Job
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that was submitted; `created` is False when the same key had submitted it before."""

    shown: JobStatus
    warnings: tuple[str, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A submission that was checked, with the request for its node as it is understood."""

    submission: Submission
    request: RequestedNode | None = None
    meant: ResolvedRequest | None = None


class JobService:
    """Each public method is one unit of work, and none calls the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        requests: NodeRequests,
        projects: Sequence[str],
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._requests = requests
        self._projects = tuple(projects)

    def submit(
        self, submission: Submission, *, key: RequestKey | None = None, actor: str = ""
    ) -> SubmittedJob:
        """Record a job; the daemon runs it. With a `key`, the same submission is one job.

        Raises Rejected or Conflict with the remedy for what can never run, BudgetExceeded where a
        budget has no room for its worst case.
        """
        scope = _scope(actor)
        if key is not None and (known := known_by(self._units, scope, key)) is not None:
            return self._submitted_before(known)
        wanted = self._understood(submission)
        made: list[SubmittedJob] = []

        def write(unit: Unit, remember: Remember) -> str:
            job = self._written(unit, wanted, actor, remember)
            made[:] = [SubmittedJob(self._shown(unit, job), job.warnings, created=True)]
            return job.id

        opened = partial(admission.admitting, self._units, self._clock)
        job_id, created = once(self._units, scope, key, self._clock, write, opened=opened)
        return made[0] if created else self._submitted_before(job_id)

    def _submitted_before(self, job_id: str) -> SubmittedJob:
        with self._units.reading() as unit:
            job = unit.jobs.get(job_id)
            return SubmittedJob(self._shown(unit, job), job.warnings, created=False)

    def try_out(self, submission: Submission, *, actor: str = "") -> SubmittedJob:
        """What `submit` would answer, without any trace of it: nothing is written."""
        wanted = self._understood(submission)

        def write(unit: Unit) -> None:
            job = self._written(unit, wanted, actor, lambda _: None)
            raise _Undo(SubmittedJob(self._shown(unit, job), job.warnings, created=True))

        try:
            with self._units() as unit:
                write(unit)
        except _Undo as undone:
            return undone.answer
        raise AssertionError("a dry run always undoes its unit of work")

    def get(self, job_id: str) -> JobStatus:
        """One job; raises NotFound."""
        with self._units.reading() as unit:
            return self._shown(unit, unit.jobs.get(job_id))

    def page(self, only: JobFilter, page_size: int, page_token: str) -> tuple[list[JobStatus], str]:
        """Jobs that match, the newest first, and the token of the next page."""
        with self._units.reading() as unit:
            found = unit.jobs.page(only, page_token, page_size + 1)
            shown = [self._shown(unit, job) for job in found[:page_size]]
        return shown, found[page_size - 1].id if len(found) > page_size else ""

    def attempts(self, job_id: str) -> Sequence[AttemptCost]:
        """The attempts of a job, first to last, with what each phase of them cost."""
        with self._units.reading() as unit:
            job = unit.jobs.get(job_id)
            return attempt_costs(unit, job, self._prices.book(unit), self._clock())

    def whole(self, job_id: str) -> JobWithAttempts:
        """One job with its attempts, read and charged as of the same instant; raises NotFound."""
        with self._units.reading() as unit:
            job, now = unit.jobs.get(job_id), self._clock()
            attempts = attempt_costs(unit, job, self._prices.book(unit), now)
            return JobWithAttempts(self._shown_at(unit, job, now), attempts)

    def on_node(self, node_id: str, limit: int) -> Sequence[OnNode]:
        """The jobs that ran on a node, run on it or wait for it, the newest first."""
        with self._units.reading() as unit:
            return [
                OnNode(job, [one for one in unit.jobs.attempts(job.id) if one.node_id == node_id])
                for job in unit.jobs.page(JobFilter(node_id=node_id), "", limit)
            ]

    def cancel(self, job_id: str, *, actor: str = "") -> JobStatus:
        """Ask for the end of a job; asking twice is asking once. A job that has ended stays as it
        is. Raises NotFound."""

        def work(unit: Unit) -> JobStatus:
            return self._shown(unit, self._cancelled(unit, unit.jobs.get(job_id), actor))

        return retrying(self._units, work, f"job {job_id}")

    def _cancelled(self, unit: Unit, job: Job, actor: str) -> Job:
        if job.ended or job.cancel_requested_at is not None:
            return job
        now = self._clock()
        if job.node_id:
            told = Event(job.node_id, now, "job", f"job {job.id}: cancelled", actor or "caller")
            unit.events.add(told)
        return unit.jobs.save(replace(job, cancel_requested_at=now, next_try_at=now))

    def _understood(self, submission: Submission) -> _Wanted:
        submission = checked(replace(submission, project=submission.project))
        if submission.node_request is None:
            return _Wanted(submission)
        request, meant = self._requests.understand(submission.node_request)
        check_software(meant.spec.runtime_version, meant.spec.generation, submission.spec)
        return _Wanted(submission, request, meant)

    def _written(self, unit: Unit, wanted: _Wanted, actor: str, remember: Remember) -> Job:
        """The job, remembered before a budget is asked: it would see both."""
        now, job_id = self._clock(), new_id()
        if wanted.request is not None:
            return self._with_own_node(unit, wanted, job_id, actor, lambda _: remember(job_id))
        remember(job_id)
        job = self._on_node(unit, wanted.submission, job_id, now)
        unit.jobs.add(job, None)
        return job

    def _on_node(self, unit: Unit, submission: Submission, job_id: str, now: int) -> Job:
        found = _find(unit, submission.node)
        # Whoever ends the node locks it too: this job comes before that, or is refused.
        unit.nodes.lock(found.id)
        node = unit.nodes.get(found.id)
        check_node(node, submission.spec)
        if submission.project and submission.project != node.spec.project:
            raise Conflict(f"node {node.name} is in project {node.spec.project}; leave out project")
        job = submitted(submission, job_id, node.spec.project, now)
        job = replace(
            job,
            node_id=node.id,
            owner=job.owner or node.owner,
            team=job.team or node.team,
            warnings=warnings_of(job.spec, node),
        )
        attempt = new_attempt(replace(job, attempt=1), node, generation=_LAST, now=now)
        startup.check_size(startup.metadata_of(node.spec, task_of(job, attempt, node, 0)))
        admission.check_job(unit, node, job, self._prices, now)
        holder = unit.jobs.claimed(node.id)
        first, before = unit.jobs.line_before(job)
        return waiting(job, node, first, before, "" if holder is None else holder.job_id)

    def _with_own_node(
        self,
        unit: Unit,
        wanted: _Wanted,
        job_id: str,
        actor: str,
        remember: Callable[[Node], None],
    ) -> Job:
        """The job, the node of its first attempt and the claim on it are one transaction."""
        request, meant, now = wanted.request, wanted.meant, self._clock()
        assert request is not None
        assert meant is not None
        project = chosen(request.project, self._projects)
        job = submitted(wanted.submission, job_id, project, now)
        request = replace(request, owner=job.owner, team=job.team, labels=job.labels)
        named = request if request.name else replace(request, name=f"job-{job_id[-8:]}")
        node = self._requests.record(unit, named, meant, actor, job=job_id, written=remember)
        warnings = (*meant.warnings, *warnings_of(job.spec, node))
        job = replace(job, node_id=node.id, attempt=1, warnings=warnings)
        unit.jobs.add(job, request)
        attempt = new_attempt(job, node, generation=1, now=now)
        startup.check_size(startup.metadata_of(node.spec, task_of(job, attempt, node, 0)))
        unit.jobs.add_attempt(attempt)
        return job

    def _shown(self, unit: Unit, job: Job) -> JobStatus:
        return self._shown_at(unit, job, self._clock())

    def _shown_at(self, unit: Unit, job: Job, now: int) -> JobStatus:
        cost = job_cost(unit, job, self._prices.book(unit), now)
        names = unit.nodes.many([job.node_id] if job.node_id else [])
        return JobStatus(job, cost, names[job.node_id].name if job.node_id in names else "")


class _Undo(Exception):
    """Undoes the unit of work of a dry run, and carries what it would have answered."""

    def __init__(self, answer: SubmittedJob) -> None:
        super().__init__()
        self.answer = answer


def _find(unit: Unit, name_or_id: str) -> Node:
    """The node of that id, or the live one of that name."""
    named = unit.nodes.named(name_or_id)
    if len(named) > 1:
        raise Conflict(
            f"{name_or_id!r} exists in several projects; give its id",
            ids=[node.id for node in named],
        )
    if named:
        return named[0]
    try:
        return unit.nodes.get(name_or_id)
    except NotFound:
        raise NotFound(f"there is no node {name_or_id[:80]!r}; name a live node") from None


def _scope(actor: str) -> str:
    return f"jobs/{actor}"
