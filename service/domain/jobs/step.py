"""What to do next with a job. Pure: it decides, `service.controllers.jobs` acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.jobs.job import Attempt, Job, JobState, Phase, Reason, TaskAction
from service.domain.jobs.outcome import (
    AttemptVerdict,
    NodeFacts,
    ended_well,
    find_success,
    find_verdict,
)
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.jobs.task import needs_barrier, workers_of
from service.domain.nodes.node import LOST, Asked, Node, NodeState
from service.domain.nodes.placement import Outcome

STOP_SECONDS = 120
"""Seconds beyond the grace period within which workers have to report that containers ended."""

OVERRUN_SECONDS = 120
"""Seconds beyond `max_duration_seconds` after which this service ends a container that its
supervisor should have ended."""

SCRIPT_SECONDS = 3_600
"""Seconds that a job waits for the end of its node's startup script."""

SILENT_SECONDS = 900
"""A worker without a new report for this long is silent. Supervisors report at least once a minute,
and Google may lose some reports."""


class AttemptStep(StrEnum):
    """The one thing to do with an attempt now."""

    WAIT = "wait"
    BEGIN = "begin"
    """The node is READY: record the placement, and look for reports."""
    PROGRESS = "progress"
    """The workers have reached the next phase."""
    START = "start"
    """Every worker has pulled: tell the workers to start."""
    STOP = "stop"
    """Tell the workers to end their containers."""
    CLASSIFY = "classify"
    """A worker failed or fell silent: stop the others and look for evidence of the reason."""
    END = "end"
    """The outcome is decided."""


@dataclass(frozen=True, slots=True)
class AttemptDecision:
    """A step; `phase` is the next phase, `verdict` the reason of an end or a stop."""

    step: AttemptStep
    phase: Phase | None = None
    verdict: AttemptVerdict | None = None


WAIT = AttemptDecision(AttemptStep.WAIT)


def reports_of(job: Job, attempt: Attempt, node: Node) -> dict[int, SupervisorReport | None]:
    """Return the reports that decide what to do next with an attempt, by the number of each
    worker."""
    found: dict[int, SupervisorReport | None] = {}
    for number in workers_of(job, node):
        report = attempt.reports.get(str(number))
        about = report is not None and report.attempt == attempt.id
        found[number] = report if about else None
    return found


def decide_step(  # noqa: PLR0911 - a table of the cases
    job: Job, attempt: Attempt, node: Node, facts: NodeFacts, now: int
) -> AttemptDecision:
    """Return the next step of an attempt that has not ended.

    The function keeps no memory: a lost, late or doubled tick leads to the same answer.
    """
    if attempt.placement == 0:
        return _decide_before_ready(job, attempt, node, facts)
    reports = reports_of(job, attempt, node)
    if (obstacle := _find_obstacle(attempt, reports, now)) is not None:
        return _end_with(obstacle)
    complete = find_success(list(reports.values()))
    if complete is not None:
        return _end_with(complete)
    if attempt.phase is Phase.CLASSIFYING:
        found = find_verdict(attempt, node, facts, reports, now)
        return WAIT if found is None else _end_with(found)
    if attempt.phase is Phase.STOPPING:
        return _decide_while_stopping(job, attempt, node, reports, now)
    if _is_lost(attempt, node) or _has_failed_or_silent(attempt, reports):
        return AttemptDecision(AttemptStep.CLASSIFY, Phase.CLASSIFYING)
    if (stop := _find_stop_reason(job, reports, now)) is not None:
        return AttemptDecision(AttemptStep.STOP, Phase.STOPPING, stop)
    return _decide_progress(job, attempt, node, reports)


def _decide_before_ready(
    job: Job, attempt: Attempt, node: Node, facts: NodeFacts
) -> AttemptDecision:
    if attempt.phase is Phase.STOPPING:
        stopped = AttemptVerdict(attempt.stop_reason, attempt.detail)
        return _end_with(stopped) if node.has_ended else WAIT
    if job.cancel_requested_at is not None:
        found = AttemptVerdict(Reason.CANCELLED, "cancelled before the node was READY")
        return _give_up(found, job, node)
    if node.has_ended or node.asked is Asked.STOPPED:
        return _give_up(_explain_missing_node(node, facts), job, node)
    if node.asked is Asked.ABSENT:
        return WAIT if node.gave_up else _give_up(_explain_missing_node(node, facts), job, node)
    return (
        AttemptDecision(AttemptStep.BEGIN, Phase.PULLING) if node.state == NodeState.READY else WAIT
    )


def _give_up(found: AttemptVerdict, job: Job, node: Node) -> AttemptDecision:
    """End the attempt, once its container can no longer start.

    The create of a node of the job's own carries the task. While that create may be under way, the
    node can still come up and run the container, so the attempt ends with the node.
    """
    may_still_run = job.own_node and node.attempt > 0 and not node.has_ended
    if may_still_run:
        return AttemptDecision(AttemptStep.STOP, Phase.STOPPING, found)
    return _end_with(found)


def _explain_missing_node(node: Node, facts: NodeFacts) -> AttemptVerdict:
    if node.ready_at is None and node.state == NodeState.FAILED:
        return AttemptVerdict(
            Reason.NODE_NOT_GRANTED, node.last_error or "the node was not granted"
        )
    is_gone = node.state in LOST or facts.placement in (Outcome.VANISHED, Outcome.PREEMPTED)
    if is_gone or node.asked is Asked.PRESENT:
        return AttemptVerdict(Reason.NODE_GONE, "the node was lost before the container started")
    what = "deleted" if node.asked is Asked.ABSENT else "stopped"
    why = f": {node.delete_reason}" if node.delete_reason else ""
    return AttemptVerdict(Reason.NODE_DELETED, f"the node was {what} before the job started{why}")


_REMEDIES: Mapping[str, str] = {
    "NO_DOCKER": "its image has no docker; use a runtime version with docker",
    "NO_PYTHON3": "its image has no python3; use a runtime version with python3",
    "NO_SYSTEMD": "its image has no systemd-run; use a runtime version made for TPU VMs",
    "NO_SUPERVISOR": "the metadata of the node has lost the supervisor; create the node again",
    "BAD_DIGEST": "the supervisor in the metadata was changed; create the node again",
}


def _find_obstacle(
    attempt: Attempt, reports: Mapping[int, SupervisorReport | None], now: int
) -> AttemptVerdict | None:
    """Why a worker cannot run any container; None where all workers can.

    A worker without python3 or docker reports UNAVAILABLE for every task. A supervisor waits for
    the end of the caller's startup script before the first job.
    """
    for worker, latest in sorted(attempt.reports.items()):
        if latest.state is WorkerState.UNAVAILABLE:
            what = latest.detail or _REMEDIES.get(latest.reason, latest.reason)
            return AttemptVerdict(
                Reason.NO_SUPERVISOR, f"worker {worker} cannot run containers: {what}"
            )
    if now - (attempt.ready_at or now) < SCRIPT_SECONDS:
        return None
    for number, report in sorted(reports.items()):
        if report is not None and report.runs_startup_script:
            return AttemptVerdict(
                Reason.STARTUP_SCRIPT_RUNNING,
                f"the startup script of worker {number} has not ended within"
                f" {SCRIPT_SECONDS // 60} minutes; have it end, and start what lasts with nohup"
                " or systemd-run",
            )
    return None


def _is_lost(attempt: Attempt, node: Node) -> bool:
    return (
        node.has_ended
        or node.attempt != attempt.placement
        or node.state in LOST
        or node.asked is not Asked.PRESENT
    )


def _has_failed_or_silent(attempt: Attempt, reports: Mapping[int, SupervisorReport | None]) -> bool:
    """Whether a container failed, or a worker was silent for too long at the cloud's last answer.

    An outage is not silence: while it lasts no worker can be told its task, and none can report.
    """
    answered_at = attempt.answered_at or 0
    since = attempt.answering_since or answered_at
    for report in reports.values():
        seen_at = 0
        if report is not None:
            seen_at = report.seen_at
            if report.state is WorkerState.EXITED and not ended_well(report):
                return True
        if answered_at - max(since, seen_at) >= SILENT_SECONDS:
            return True
    return False


def _find_stop_reason(
    job: Job, reports: Mapping[int, SupervisorReport | None], now: int
) -> AttemptVerdict | None:
    if job.cancel_requested_at is not None:
        return AttemptVerdict(Reason.CANCELLED, "cancelled by its caller")
    starts = [report.started_at for report in reports.values() if report and report.started_at]
    limit = job.spec.max_duration_seconds
    if starts and now - min(starts) >= limit + OVERRUN_SECONDS:
        return AttemptVerdict(Reason.TIMED_OUT, f"it ran for longer than {limit} seconds")
    return None


def is_over(job: Job, attempt: Attempt, node: Node) -> bool:
    """Whether nothing of an attempt can still run, so that the next attempt may begin. Its node no
    longer exists, or every worker reported the end of its container."""
    reports = reports_of(job, attempt, node).values()
    return node.has_ended or all(report is not None and report.is_final for report in reports)


def _decide_while_stopping(
    job: Job, attempt: Attempt, node: Node, reports: Mapping[int, SupervisorReport | None], now: int
) -> AttemptDecision:
    answered = all(
        report is not None
        and (
            report.is_final
            or (report.state is WorkerState.IDLE and report.generation >= attempt.generation)
        )
        for report in reports.values()
    )
    late = now - attempt.phase_since >= job.spec.stop_grace_seconds + STOP_SECONDS
    if answered or late or _is_lost(attempt, node):
        return _end_with(AttemptVerdict(attempt.stop_reason, attempt.detail))
    return WAIT


_RAN = frozenset({WorkerState.RUNNING, WorkerState.STOPPING, WorkerState.EXITED})


def _decide_progress(
    job: Job, attempt: Attempt, node: Node, reports: Mapping[int, SupervisorReport | None]
) -> AttemptDecision:
    """START once every worker has pulled; otherwise the next phase. The phase is RUNNING once every
    container has started, and stays RUNNING."""
    pulled = all(
        report is not None
        and report.state is WorkerState.PULLED
        and report.generation == attempt.generation
        for report in reports.values()
    )
    if attempt.action is TaskAction.PULL and (pulled or not needs_barrier(job, node)):
        return AttemptDecision(AttemptStep.START, Phase.STARTING)
    states = [None if report is None else report.state for report in reports.values()]
    if attempt.phase is Phase.RUNNING or all(state in _RAN for state in states):
        phase = Phase.RUNNING
    else:
        started = attempt.action is TaskAction.RUN and WorkerState.PULLING not in states
        has_begun = any(state is not None and state is not WorkerState.IDLE for state in states)
        phase = Phase.STARTING if started and has_begun else Phase.PULLING
    return WAIT if phase is attempt.phase else AttemptDecision(AttemptStep.PROGRESS, phase)


def _end_with(found: AttemptVerdict) -> AttemptDecision:
    return AttemptDecision(AttemptStep.END, Phase.ENDED, found)


SHOWN: Mapping[Phase, JobState] = {
    Phase.WAITING: JobState.WAITING_FOR_NODE,
    Phase.PULLING: JobState.PULLING,
    Phase.STARTING: JobState.STARTING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.STOPPING: JobState.CANCELLING,
    Phase.CLASSIFYING: JobState.CLASSIFYING,
}
"""The state of a job while its attempt is in a phase. The state after `ENDED` depends on the
follow-up."""
