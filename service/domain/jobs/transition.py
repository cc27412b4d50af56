"""How a job and its attempt change by a decision. Pure: the controller saves what is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.domain.jobs.follow import Follow, follow, is_infrastructure
from service.domain.jobs.job import (
    Attempt,
    Job,
    JobState,
    Phase,
    Reason,
    TaskAction,
    attempt_id,
)
from service.domain.jobs.next import SHOWN, AttemptDecision, AttemptStep, reports_of
from service.domain.jobs.outcome import AttemptVerdict, exit_codes_of
from service.domain.jobs.presets import device_warnings
from service.domain.jobs.report import SupervisorReport, WorkerState, is_newer
from service.domain.jobs.task import needs_barrier
from service.domain.nodes.node import Asked, Node, NodeState

_MOST_WARNINGS = 50

_UNANSWERED_SECONDS = 60
"""A worker that has not taken a task for so long is asked why."""


@dataclass(frozen=True, slots=True)
class JobTransition:
    """A job and its attempt after a step. `follow` is set when the attempt ended."""

    job: Job
    attempt: Attempt
    follow: Follow | None = None


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """Whether the metadata of every slice holds the newest task. `written` says that it was written
    just now, so another writer may have dropped it since. `error` says why it does not, in the
    cloud's words, and is empty where the node is gone; `refused` that the same request will never
    be accepted."""

    done: bool
    written: bool = False
    error: str = ""
    refused: bool = False


def new_attempt(job: Job, node: Node, *, generation: int, now: int) -> Attempt:
    """The next attempt of a job on a node. `generation` is above that of every task before it.

    Its number is the job's: the caller has counted the job up. One worker alone need not wait for
    others, so it is told to run at once.
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
    """Whether the task is in the metadata that the node is created with: one text for all slices
    would name the wrong slice."""
    return job.own_node and node.spec.slices == 1 and attempt.generation == 1


def accepted(
    attempt: Attempt, found: Mapping[int, SupervisorReport], reached: int | None = None
) -> Attempt:
    """The attempt with the reports that are newer than those it has; unchanged when nothing is new.
    `reached` is the highest step of the attempts before it."""
    newer = {
        str(number): _with_catch_up(report, attempt.reports.get(str(number)), reached)
        for number, report in found.items()
        if is_newer(report, attempt.reports.get(str(number))) or _is_of_the_stub(report)
    }
    return replace(attempt, reports={**attempt.reports, **newer}) if newer else attempt


def _with_catch_up(
    report: SupervisorReport, before: SupervisorReport | None, reached: int | None
) -> SupervisorReport:
    """The report with the time at which its attempt was first seen to have come to `reached`."""
    if before is not None and before.attempt == report.attempt and before.caught_up_at is not None:
        return replace(report, caught_up_at=before.caught_up_at)
    has_caught_up = reached is not None and report.step is not None and report.step >= reached
    return replace(report, caught_up_at=report.step_at) if has_caught_up else report


def _is_of_the_stub(report: SupervisorReport) -> bool:
    """Whether a startup script that could not start the supervisor wrote it: it knows no `seq`."""
    return report.seq == 0 and report.state is WorkerState.UNAVAILABLE


def has_echoed(job: Job, attempt: Attempt, node: Node) -> bool:
    """Whether every worker that takes part acts on the newest task."""
    return all(
        report is not None and report.generation >= attempt.generation
        for report in reports_of(job, attempt, node).values()
    )


def applied(
    job: Job, attempt: Attempt, node: Node, decision: AttemptDecision, now: int
) -> JobTransition:
    """The job and its attempt after the step."""
    job = replace(job, warnings=_warnings(job, attempt, node))
    job, attempt = _explained(job, attempt, node, now)
    if decision.step is AttemptStep.WAIT or decision.phase is None:
        return JobTransition(job, attempt)
    if decision.step is AttemptStep.END:
        assert decision.verdict is not None
        return _ended(job, attempt, node, decision.verdict, now)
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
            attempt = attempt.told(TaskAction.RUN)
        case AttemptStep.STOP:
            assert decision.verdict is not None
            attempt = replace(
                attempt.told(TaskAction.STOP),
                stop_reason=decision.verdict.reason,
                detail=decision.verdict.detail,
            )
        case AttemptStep.CLASSIFY:
            attempt = attempt.told(TaskAction.STOP)
        case AttemptStep.PROGRESS:
            pass
    return JobTransition(job.in_state(SHOWN[decision.phase], now), attempt)


def _explained(job: Job, attempt: Attempt, node: Node, now: int) -> tuple[Job, Attempt]:
    """Both with what keeps the containers from their start. The job keeps saying why the attempt
    before ended."""
    if attempt.phase not in (Phase.PULLING, Phase.STARTING):
        return job, attempt
    said = next(_obstacles(job, attempt, node, now), "")
    was_said = attempt.detail and job.detail == attempt.detail
    if said == attempt.detail or (job.detail and not was_said):
        return job, replace(attempt, detail=said)
    return replace(job, detail=said), replace(attempt, detail=said)


def _obstacles(job: Job, attempt: Attempt, node: Node, now: int) -> Iterator[str]:
    """What a worker waits for or cannot do, in words."""
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


def delivered(changed: JobTransition, delivery: TaskDelivery, now: int) -> JobTransition:
    """The job and its attempt after the newest task was handed to the cloud.

    An error is kept as their `detail` until the task is written. What the cloud refuses twice in
    the same words ends the attempt, unless evidence of lost hardware is found: a node that just
    left READY refuses changes as well.
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
            attempt = attempt.in_phase(Phase.CLASSIFYING, now).told(TaskAction.STOP)
            attempt = replace(attempt, stop_reason=Reason.METADATA_REFUSED)
            job = job.in_state(SHOWN[attempt.phase], now)
    return replace(changed, job=job, attempt=attempt)


def _ended(
    job: Job, attempt: Attempt, node: Node, verdict: AttemptVerdict, now: int
) -> JobTransition:
    reports = reports_of(job, attempt, node)
    codes = exit_codes_of(reports) if attempt.placement else {}
    attempt = replace(
        attempt.in_phase(Phase.ENDED, now).told(TaskAction.RELEASE),
        reason=verdict.reason,
        detail=verdict.detail,
        evidence=verdict.evidence,
        exit_codes=codes,
        ended_at=now,
    )
    what = follow(job, attempt, node)
    job = replace(job, exit_codes=codes)
    if not what.again:
        return JobTransition(
            job.closed(what.state, attempt.reason, what.detail, now), attempt, what
        )
    lost = is_infrastructure(job, attempt.reason)
    job = replace(
        job.in_state(what.state, now),
        reason=attempt.reason,
        detail=what.detail,
        preemptions=job.preemptions + lost,
        failures=job.failures + (not lost),
        next_try_at=now,
    )
    return JobTransition(job, attempt, what)


def _warnings(job: Job, attempt: Attempt, node: Node) -> tuple[str, ...]:
    """The warnings of the job and those of its workers, each once. Any process on a worker can
    write a report, so their number is bounded."""
    reports = reports_of(job, attempt, node)
    told = [warning for report in reports.values() if report for warning in report.warnings]
    devices = device_warnings(job, node, reports)
    return tuple(dict.fromkeys([*job.warnings, *devices, *told]))[:_MOST_WARNINGS]


def refused(job: Job, reason: Reason, detail: str, now: int) -> Job:
    """The job when its image or a budget rules out that it ever runs."""
    return job.closed(JobState.FAILED, reason, detail, now)


def waiting(job: Job, node: Node, first: str, before: int, holder: str) -> Job:
    """The job while a caller's node is not free for it, with what it waits for as its detail.

    `first` is the oldest of the `before` jobs that come earlier on that node, `holder` the job
    that holds it (empty for none). The detail of an attempt that ended is kept.
    """
    if job.reason is not Reason.UNDECIDED:
        return job
    return replace(job, detail=_waits_for(node, first, before, holder))


def _waits_for(node: Node, first: str, before: int, holder: str) -> str:
    if node.asked is Asked.STOPPED or node.state == NodeState.STOPPED:
        return f"node {node.name} is stopped; start it with: tpu-steward nodes start {node.name}"
    if before:
        others = f" and {before - 1} more" if before > 1 else ""
        return f"it waits on node {node.name} behind job {first}{others}"
    if holder:
        return f"it waits until job {holder} has released node {node.name}"
    if node.state != NodeState.READY:
        return f"it waits until node {node.name} is READY; the node is {node.state}"
    return ""
