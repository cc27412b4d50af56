"""Jobs as callers submit, read and cancel them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from service.application.budgets import admission
from service.application.idempotency import Remember, find_result, write_once
from service.application.jobs.cost import AttemptCost, JobCost, attempt_costs, job_cost
from service.application.nodes.requests import NodeRequests
from service.application.projects import choose_project
from service.application.retries import run_with_retries
from service.domain.clock import Clock
from service.domain.errors import Conflict, NotFound
from service.domain.event import Event
from service.domain.idempotency import RequestKey
from service.domain.ids import new_id
from service.domain.jobs import startup
from service.domain.jobs.job import Attempt, Job, JobState
from service.domain.jobs.submission import (
    Submission,
    build_job,
    check_node,
    check_software,
    check_submission,
    warnings_of,
)
from service.domain.jobs.task import task_of
from service.domain.jobs.transition import new_attempt, with_wait_detail
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode, ResolvedRequest
from service.store.jobs import JobFilter
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

__all__ = ["JobFilter", "JobService", "JobStatus", "JobWithAttempts", "OnNode", "SubmittedJob"]

_LAST = 2**31
"""The largest generation: the size of a task must not grow with its generation."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job with its cost so far, and the name of its node (empty before there is one)."""

    job: Job
    cost: JobCost
    node_name: str


@dataclass(frozen=True, slots=True)
class JobWithAttempts:
    """A job and its attempts as of one instant, so that their phases add up to its cost.

    `node` is its node, None before there is one. `ahead` is the number of jobs that come first on
    the caller's node of a job that waits; 0 for every other job.
    """

    shown: JobStatus
    attempts: Sequence[AttemptCost]
    node: Node | None = None
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class OnNode:
    """A job and its attempts on one node, first to last; no attempts while the job waits for the
    node."""

    job: Job
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A submitted job; `created` is False if a request with the same key submitted it before."""

    shown: JobStatus
    warnings: tuple[str, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A checked submission, with the resolved request for its node."""

    submission: Submission
    request: RequestedNode | None = None
    meant: ResolvedRequest | None = None


class JobService:
    """Each public method is one unit of work, without a call to the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
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
        """Record a job, which the daemon runs. With a `key`, repeated submissions are one job.

        Raises Rejected or Conflict with the remedy for a job that can never run, BudgetExceeded if
        a budget has no room for its worst case.
        """
        scope = f"jobs/{actor}"
        if key is not None and (known := find_result(self._units, scope, key)) is not None:
            return self._submitted_before(known)
        wanted = self._check_submission(submission)
        made: list[SubmittedJob] = []

        def write_job(unit: Unit, remember: Remember) -> str:
            job = self._write_job(unit, wanted, actor, remember)
            made[:] = [SubmittedJob(self._read_status(unit, job), job.warnings, created=True)]
            return job.id

        opened = partial(admission.open_unit, self._units, self._clock)
        job_id, created = write_once(self._units, scope, key, self._clock, write_job, opened=opened)
        return made[0] if created else self._submitted_before(job_id)

    def _submitted_before(self, job_id: str) -> SubmittedJob:
        with self._units.reading() as unit:
            job = unit.jobs.get(job_id)
            return SubmittedJob(self._read_status(unit, job), job.warnings, created=False)

    def try_out(self, submission: Submission, *, actor: str = "") -> SubmittedJob:
        """The answer of `submit` in a dry run: nothing is written."""
        wanted = self._check_submission(submission)

        def write_and_undo(unit: Unit) -> None:
            job = self._write_job(unit, wanted, actor, lambda _: None)
            raise _Undo(SubmittedJob(self._read_status(unit, job), job.warnings, created=True))

        try:
            with self._units() as unit:
                write_and_undo(unit)
        except _Undo as undone:
            return undone.answer
        raise AssertionError("a dry run always undoes its unit of work")

    def get(self, job_id: str) -> JobStatus:
        """One job; raises NotFound."""
        with self._units.reading() as unit:
            return self._read_status(unit, unit.jobs.get(job_id))

    def list_page(
        self, only: JobFilter, page_size: int, page_token: str
    ) -> tuple[list[JobStatus], str]:
        """Jobs that match, the newest first, and the token of the next page."""
        with self._units.reading() as unit:
            found = unit.jobs.list_page(only, page_token, page_size + 1)
            shown = [self._read_status(unit, job) for job in found[:page_size]]
        return shown, found[page_size - 1].id if len(found) > page_size else ""

    def list_attempts(self, job_id: str) -> Sequence[AttemptCost]:
        """The attempts of a job, first to last, with the cost of each phase."""
        with self._units.reading() as unit:
            job = unit.jobs.get(job_id)
            return attempt_costs(unit, job, self._prices.get_book(unit), self._clock())

    def get_with_attempts(self, job_id: str) -> JobWithAttempts:
        """One job with its attempts, read and charged as of the same instant; raises NotFound."""
        with self._units.reading() as unit:
            job, now = unit.jobs.get(job_id), self._clock()
            attempts = attempt_costs(unit, job, self._prices.get_book(unit), now)
            node = unit.nodes.find_many([job.node_id]).get(job.node_id) if job.node_id else None
            waits = job.state == JobState.QUEUED and node is not None and not job.own_node
            ahead = unit.jobs.line_before(job)[1] if waits else 0
            return JobWithAttempts(self._read_status_at(unit, job, now), attempts, node, ahead)

    def find_running(self, node_id: str) -> str:
        """The id of the job that has a node now. Empty if none has it."""
        with self._units.reading() as unit:
            claim = unit.jobs.find_claim(node_id)
        return "" if claim is None else claim.job_id

    def list_on_node(self, node_id: str, limit: int) -> Sequence[OnNode]:
        """The jobs that ran on a node, run on it or wait for it, the newest first."""
        with self._units.reading() as unit:
            return [
                OnNode(
                    job,
                    [
                        attempt
                        for attempt in unit.jobs.list_attempts(job.id)
                        if attempt.node_id == node_id
                    ],
                )
                for job in unit.jobs.list_page(JobFilter(node_id=node_id), "", limit)
            ]

    def cancel(self, job_id: str, *, actor: str = "") -> JobStatus:
        """Request the end of a job; repeating the request changes nothing. A job that has ended
        stays as it is. Raises NotFound."""

        def request_end(unit: Unit) -> JobStatus:
            return self._read_status(unit, self._request_end(unit, unit.jobs.get(job_id), actor))

        return run_with_retries(self._units, request_end, f"job {job_id}")

    def _request_end(self, unit: Unit, job: Job, actor: str) -> Job:
        if job.ended or job.cancel_requested_at is not None:
            return job
        now = self._clock()
        if job.node_id:
            message = f"job {job.id}: cancelled"
            unit.events.add(Event(job.node_id, now, "job", message, actor or "caller"))
        return unit.jobs.save(replace(job, cancel_requested_at=now, next_try_at=now))

    def _check_submission(self, submission: Submission) -> _Wanted:
        submission = check_submission(submission)
        if submission.node_request is None:
            return _Wanted(submission)
        request, meant = self._requests.resolve_request(submission.node_request)
        check_software(meant.spec.runtime_version, meant.spec.generation, submission.spec)
        return _Wanted(submission, request, meant)

    def _write_job(self, unit: Unit, wanted: _Wanted, actor: str, remember: Remember) -> Job:
        """The new job. Its key is remembered before a budget is asked, because the budget would
        count a repeated request twice."""
        now, job_id = self._clock(), new_id()
        if wanted.request is not None:
            return self._write_with_own_node(
                unit, wanted, job_id, actor, lambda _: remember(job_id)
            )
        remember(job_id)
        submission = wanted.submission
        node_id = _find_node(unit, submission.node).id
        # The end of a node locks the row too: this job commits before it, or is refused.
        unit.nodes.lock(node_id)
        node = unit.nodes.get(node_id)
        check_node(node, submission.spec)
        if submission.project and submission.project != node.spec.project:
            raise Conflict(f"node {node.name} is in project {node.spec.project}; leave out project")
        job = build_job(submission, job_id, node.spec.project, now)
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
        holder = unit.jobs.find_claim(node.id)
        first, before = unit.jobs.line_before(job)
        holder_id = "" if holder is None else holder.job_id
        job = with_wait_detail(job, node, first, before, holder_id)
        unit.jobs.add(job, None)
        return job

    def _write_with_own_node(
        self,
        unit: Unit,
        wanted: _Wanted,
        job_id: str,
        actor: str,
        remember: Callable[[Node], None],
    ) -> Job:
        """The job, the node of its first attempt and the claim on it, in one transaction."""
        request, meant, now = wanted.request, wanted.meant, self._clock()
        assert request is not None
        assert meant is not None
        project = choose_project(request.project, self._projects)
        job = build_job(wanted.submission, job_id, project, now)
        request = replace(request, owner=job.owner, team=job.team, labels=job.labels)
        named = request if request.name else replace(request, name=f"job-{job_id[-8:]}")
        node = self._requests.record_node(unit, named, meant, actor, job=job_id, written=remember)
        warnings = (*meant.warnings, *warnings_of(job.spec, node))
        job = replace(job, node_id=node.id, attempt=1, warnings=warnings)
        unit.jobs.add(job, request)
        attempt = new_attempt(job, node, generation=1, now=now)
        startup.check_size(startup.metadata_of(node.spec, task_of(job, attempt, node, 0)))
        unit.jobs.add_attempt(attempt)
        return job

    def _read_status(self, unit: Unit, job: Job) -> JobStatus:
        return self._read_status_at(unit, job, self._clock())

    def _read_status_at(self, unit: Unit, job: Job, now: int) -> JobStatus:
        cost = job_cost(unit, job, self._prices.get_book(unit), now)
        names = unit.nodes.find_many([job.node_id] if job.node_id else [])
        return JobStatus(job, cost, names[job.node_id].name if job.node_id in names else "")


class _Undo(Exception):
    """Rolls back the unit of work of a dry run, and carries the answer."""

    def __init__(self, answer: SubmittedJob) -> None:
        super().__init__()
        self.answer = answer


def _find_node(unit: Unit, name_or_id: str) -> Node:
    """The node with that id, or the live node with that name."""
    named = unit.nodes.find_by_name(name_or_id)
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
