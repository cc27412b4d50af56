"""The changes of a job and its attempt after a decision. Pure: the controller saves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.domain.jobs.job import (
    Attempt,
    Job,
    JobState,
    Phase,
    Reason,
    TaskAction,
    attempt_id,
)
from service.domain.jobs.outcome import AttemptVerdict, exit_codes_of
from service.domain.jobs.pace import OUTAGE_SECONDS
from service.domain.jobs.presets import device_warnings
from service.domain.jobs.report import SupervisorReport, WorkerState, is_newer
from service.domain.jobs.retries import FollowUp, decide_follow_up, is_infrastructure
from service.domain.jobs.step import SHOWN, AttemptDecision, AttemptStep, reports_of
from service.domain.jobs.task import needs_barrier
from service.domain.nodes.node import Asked, Node, NodeState

_MOST_WARNINGS = 50

_UNANSWERED_SECONDS = 60
"""Seconds without an answer to a task after which the worker's error is shown."""


@dataclass(frozen=True, slots=True)
class JobTransition:
    """A job and its attempt after a step. `follow` is set when the attempt ended."""

    job: Job
    attempt: Attempt
    follow: FollowUp | None = None


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """Whether the metadata of every slice holds the newest task (`done`). `written` says that the
    task was written just now, so another writer may have dropped it since. `error` is the cloud's
    error, and is empty where the node is gone; `refused` says that the same request will never be
    accepted."""

    done: bool
    written: bool = False
    error: str = ""
    refused: bool = False


def new_attempt(job: Job, node: Node, *, generation: int, now: int) -> Attempt:
    """Return the new attempt that a job's transition begins on a node. `generation` is above that
    of every earlier task.

    The number is the job's: the caller has increased it. A single worker waits for no other, so its
    first task is to run.
    """
    return Attempt(
        id=attempt_id(job.id, job.attempt),
        job_id=job.id,
        number=job.attempt,
        project=job.project,
        node_id=node.id,
        claimed_at=now,
        phase_since=now,
        action=TaskAction.PULL if needs_barrier(job, node) else TaskAction.RUN,
        generation=generation,
    )


def travels_in_create(job: Job, attempt: Attempt, node: Node) -> bool:
    """Whether the create of the node takes the new attempt's task along in its metadata. Several
    slices would all get the task of one slice."""
    return job.own_node and node.spec.slices == 1 and attempt.generation == 1


def with_reports(
    attempt: Attempt, found: Mapping[int, SupervisorReport], reached: int | None = None
) -> Attempt:
    """Return the attempt after a transition: with the reports that are newer than its own. It is
    unchanged without any. `reached` is the highest step of the earlier attempts. A report keeps the
    time at which its attempt was first seen at that step."""
    newer = {}
    for number, report in found.items():
        before = attempt.reports.get(str(number))
        # A startup script that could not start the supervisor reports without a `seq`.
        is_of_script = report.seq == 0 and report.state is WorkerState.UNAVAILABLE
        if not (is_newer(report, before) or is_of_script):
            continue
        known = before.caught_up_at if before and before.attempt == report.attempt else None
        caught_up_at = report.caught_up_at
        if known is not None:
            caught_up_at = known
        elif reached is not None and report.step is not None and report.step >= reached:
            caught_up_at = report.step_at
        newer[str(number)] = replace(report, caught_up_at=caught_up_at)
    return replace(attempt, reports={**attempt.reports, **newer}) if newer else attempt


def with_answer(attempt: Attempt, now: int) -> Attempt:
    """Return the attempt after a transition: the cloud has answered with the reports of all
    slices."""
    since = attempt.answering_since
    if since is None or now - (attempt.answered_at or 0) > OUTAGE_SECONDS:
        since = now
    return replace(attempt, answered_at=now, answering_since=since)


def has_echoed(job: Job, attempt: Attempt, node: Node) -> bool:
    """Whether every worker that takes part acts on the task of the newest transition."""
    return all(
        report is not None and report.generation >= attempt.generation
        for report in reports_of(job, attempt, node).values()
    )


def apply_decision(
    job: Job, attempt: Attempt, node: Node, decision: AttemptDecision, now: int
) -> JobTransition:
    """Return the job and its attempt after the transition that was decided."""
    job, attempt = _with_messages(job, attempt, node, now)
    if decision.step is AttemptStep.WAIT or decision.phase is None:
        return JobTransition(job, attempt)
    if decision.step is AttemptStep.END:
        assert decision.verdict is not None
        return _end_attempt(job, attempt, node, decision.verdict, now)
    attempt = attempt.in_phase(decision.phase, now)
    match decision.step:
        case AttemptStep.BEGIN:
            written = now if travels_in_create(job, attempt, node) else None
            attempt = replace(
                attempt,
                placement=node.attempt,
                zone=node.zone,
                ready_at=now,
                written_at=written,
            )
        case AttemptStep.START:
            attempt = attempt.with_action(TaskAction.RUN)
        case AttemptStep.STOP:
            assert decision.verdict is not None
            attempt = replace(
                attempt.with_action(TaskAction.STOP),
                stop_reason=decision.verdict.reason,
                detail=decision.verdict.detail,
            )
        case AttemptStep.CLASSIFY:
            attempt = attempt.with_action(TaskAction.STOP)
        case AttemptStep.PROGRESS:
            pass
    return JobTransition(job.in_state(SHOWN[decision.phase], now), attempt)


def _with_messages(job: Job, attempt: Attempt, node: Node, now: int) -> tuple[Job, Attempt]:
    """Both with the workers' warnings, and with the obstacle to the start of the containers as
    their detail. The job keeps the reason why the previous attempt ended."""
    reports = reports_of(job, attempt, node)
    own = [warning for report in reports.values() if report for warning in report.warnings]
    warnings = dict.fromkeys([*job.warnings, *device_warnings(job, node, reports), *own])
    # Any process on a worker can write a report, so the number of warnings is bounded.
    job = replace(job, warnings=tuple(warnings)[:_MOST_WARNINGS])
    if attempt.phase not in (Phase.PULLING, Phase.STARTING):
        return job, attempt
    obstacle = next(_list_obstacles(job, attempt, node, now), "")
    is_own_detail = attempt.detail and job.detail == attempt.detail
    if obstacle != attempt.detail and (is_own_detail or not job.detail):
        job = replace(job, detail=obstacle)
    return job, replace(attempt, detail=obstacle)


def _list_obstacles(job: Job, attempt: Attempt, node: Node, now: int) -> Iterator[str]:
    """Texts of what a worker waits for or cannot do."""
    if attempt.detail.startswith(_NOT_WRITTEN):
        yield attempt.detail
    for number, report in sorted(reports_of(job, attempt, node).items()):
        if report is not None and report.runs_startup_script:
            yield f"worker {number} still runs the startup script of its node"
        if report is not None and report.state is WorkerState.PULLING and report.detail:
            yield f"worker {number} will pull the image again: {report.detail}"
    for worker, latest in sorted(attempt.reports.items()):
        is_long = now - attempt.phase_since >= _UNANSWERED_SECONDS
        if is_long and latest.task_error and latest.generation < attempt.generation:
            yield f"worker {worker} cannot read its task: {latest.task_error}"


_NOT_WRITTEN = "the task could not be written to the metadata of the node: "
_BEFORE_THE_RUN = frozenset({Phase.PULLING, Phase.STARTING})


def apply_delivery(changed: JobTransition, delivery: TaskDelivery, now: int) -> JobTransition:
    """Return the job and its attempt after a transition: the newest task was sent to the cloud.

    An error is kept as their `detail` until the task is written. A second refusal with the same
    error ends the attempt, unless evidence of lost hardware is found: a node that just left READY
    refuses changes as well.
    """
    job, attempt = changed.job, changed.attempt
    detail = f"{_NOT_WRITTEN}{delivery.error}" if delivery.error else ""
    repeated = delivery.refused and attempt.detail == detail
    if delivery.done:
        attempt = replace(attempt, written_at=now)
    if attempt.phase in _BEFORE_THE_RUN:
        if detail or attempt.detail.startswith(_NOT_WRITTEN):
            attempt = replace(attempt, detail=detail)
        if detail or job.detail.startswith(_NOT_WRITTEN):
            job = replace(job, detail=detail)
        if repeated:
            attempt = attempt.in_phase(Phase.CLASSIFYING, now).with_action(TaskAction.STOP)
            attempt = replace(attempt, stop_reason=Reason.METADATA_REFUSED)
            job = job.in_state(SHOWN[attempt.phase], now)
    return replace(changed, job=job, attempt=attempt)


def _end_attempt(
    job: Job, attempt: Attempt, node: Node, verdict: AttemptVerdict, now: int
) -> JobTransition:
    reports = reports_of(job, attempt, node)
    codes = exit_codes_of(reports) if attempt.placement else {}
    attempt = replace(
        attempt.in_phase(Phase.ENDED, now).with_action(TaskAction.RELEASE),
        reason=verdict.reason,
        detail=verdict.detail,
        evidence=verdict.evidence,
        exit_codes=codes,
        ended_at=now,
    )
    followed = decide_follow_up(job, attempt, node)
    job = replace(job, exit_codes=codes)
    if not followed.again:
        job = job.with_end(followed.state, attempt.reason, followed.detail, now)
        return JobTransition(job, attempt, followed)
    lost = is_infrastructure(job, attempt.reason)
    job = replace(
        job.in_state(followed.state, now),
        reason=attempt.reason,
        detail=followed.detail,
        preemptions=job.preemptions + lost,
        failures=job.failures + (not lost),
        next_try_at=now,
    )
    return JobTransition(job, attempt, followed)


def with_refusal(job: Job, reason: Reason, detail: str, now: int) -> Job:
    """Return the job after its transition to failed. Its image or a budget rules out that it ever
    runs."""
    return job.with_end(JobState.FAILED, reason, detail, now)


def with_wait_detail(
    job: Job, node: Node, first: str, before: int, holder: str, *, is_leaving: bool = False
) -> Job:
    """Return the job that waits for a caller's node, with the reason of the wait as its detail.

    `first` is the oldest of the `before` jobs that come earlier on that node, `holder` the job
    that holds the node (empty for none). `is_leaving` says that the node is about to be preempted.
    The detail of an attempt that ended is kept.
    """
    if job.reason is not Reason.UNDECIDED:
        return job
    detail = ""
    if node.asked is Asked.STOPPED or node.state == NodeState.STOPPED:
        detail = f"node {node.name} is stopped; start it with: tpu-steward nodes start {node.name}"
    elif before:
        others = f" and {before - 1} more" if before > 1 else ""
        detail = f"it waits on node {node.name} behind job {first}{others}"
    elif holder:
        detail = f"it waits until job {holder} has released node {node.name}"
    elif node.state != NodeState.READY:
        detail = f"it waits until node {node.name} is READY; the node is {node.state}"
    elif is_leaving:
        detail = f"it waits: the workers of node {node.name} had the notice of its preemption"
    return replace(job, detail=detail)
