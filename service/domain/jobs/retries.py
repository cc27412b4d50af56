"""The follow-up of an attempt that ended: the end of the job, or another attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.jobs.job import INFRASTRUCTURE, PROGRAM, Attempt, Job, JobState, Reason
from service.domain.jobs.submission import FUSE_SECONDS
from service.domain.nodes.node import LOST, Asked, Node

_ENDS = {
    Reason.COMPLETED: JobState.SUCCEEDED,
    Reason.COMPLETED_THEN_ABORTED: JobState.SUCCEEDED,
    Reason.CANCELLED: JobState.CANCELLED,
    Reason.TIMED_OUT: JobState.TIMED_OUT,
}

_REPLACED_AFTER = frozenset({Reason.DEVICE_BUSY, Reason.SUPERVISOR_SILENT, Reason.UNKNOWN})
"""Ends after which a node of the job's own gets no other attempt."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The follow-up of an attempt. `state` is the job's, and is final without `again`. With
    `same_node` the next attempt runs on the same node. `detail` is the text to show."""

    state: JobState
    again: bool
    same_node: bool
    detail: str


def decide_follow_up(job: Job, attempt: Attempt, node: Node) -> FollowUp:
    """Return the follow-up, by the reason of the attempt and the remaining retries."""
    end = _ENDS.get(attempt.reason, JobState.FAILED)
    if job.cancel_requested_at is not None and end is not JobState.SUCCEEDED:
        return FollowUp(JobState.CANCELLED, again=False, same_node=False, detail=attempt.detail)
    # A node is READY for half a minute after the notice of its preemption.
    is_gone = attempt.reason is Reason.PREEMPTED or node.state in LOST
    is_alive = not node.has_ended and node.asked is Asked.PRESENT and not is_gone
    is_fit = attempt.reason not in _REPLACED_AFTER
    if node.deletes_at is not None and node.spec.ttl_seconds is not None:
        # The node has to live nearly as long as a new node.
        longest = min(job.spec.max_duration_seconds + FUSE_SECONDS, node.spec.ttl_seconds)
        left = node.deletes_at - (attempt.ended_at or 0)
        is_fit = is_fit and left >= longest - FUSE_SECONDS
    same_node = is_alive and (is_fit or not job.own_node)
    can_go_on = (
        job.own_node or is_alive or (node.spec.recreate_on_preemption and not node.has_ended)
    )
    refusal = _find_retry_refusal(job, attempt)
    if refusal is None or not can_go_on:
        detail = attempt.detail
        if refusal == "" and node.has_ended:
            detail = f"{detail}; its node no longer exists, so it cannot be tried again"
        return FollowUp(end, again=False, same_node=False, detail=detail)
    if refusal:
        return FollowUp(end, again=False, same_node=False, detail=f"{attempt.detail}; {refusal}")
    is_lost = is_infrastructure(job, attempt.reason)
    state = JobState.PREEMPTED if is_lost else JobState.QUEUED
    return FollowUp(
        state, again=True, same_node=same_node or not job.own_node, detail=attempt.detail
    )


def is_infrastructure(job: Job, reason: Reason) -> bool:
    """Whether the follow-up of an attempt counts against `retries.preemption`. A busy device counts
    only on a node of the job's own, which is replaced; a caller's node is not."""
    return reason in INFRASTRUCTURE and (job.own_node or reason is not Reason.DEVICE_BUSY)


def _find_retry_refusal(job: Job, attempt: Attempt) -> str | None:
    """Why no retry is left; empty where a retry is left, None where this end is never retried."""
    retries = job.spec.retries
    if is_infrastructure(job, attempt.reason):
        used_up = job.preemptions >= retries.preemption
        return f"retries.preemption ({retries.preemption}) is used up" if used_up else ""
    if attempt.reason not in PROGRAM | {Reason.DEVICE_BUSY}:
        return None
    if job.failures >= retries.failure:
        return f"retries.failure ({retries.failure}) is used up" if retries.failure else None
    codes = {code for code in attempt.exit_codes.values() if code}
    if retries.exit_codes and not codes.intersection(retries.exit_codes):
        allowed = ", ".join(map(str, retries.exit_codes))
        return f"only the exit codes {allowed} are retried"
    return ""
