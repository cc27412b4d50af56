"""The activity of a node's job, by the reports of the job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from service.domain.clock import HOUR
from service.domain.idle.proof import CRASHES, JobActivity
from service.domain.jobs.job import PROGRAM, Attempt, Job, Phase

FAILURE_SECONDS = HOUR
"""Failed attempts that ended longer ago are no crash loop."""

STEADY_SECONDS = 600
"""An attempt that has run for so long is no part of a crash loop."""


def activity_of(
    job: Job, attempt: Attempt, now: int, earlier: Iterable[Attempt] = ()
) -> JobActivity:
    """Return the activity of a job by the progress of its present attempt. A step, a checkpoint or
    the start of its container is progress; a running container alone is not. In a crash loop only
    steps and checkpoints are progress, of the `earlier` attempts on the node too; its preparations
    are no activity. An ended `attempt` is the last one of a job that waits for its next attempt. No
    instant is later than `now`."""
    on_node = [other for other in earlier if other.node_id == attempt.node_id]
    failures = sum(
        other.reason in PROGRAM
        and other.ended_at is not None
        and now - other.ended_at < FAILURE_SECONDS
        for other in on_node
    )
    starts = [at for report in attempt.own_reports if (at := report.started_at) is not None]
    started_at = max(starts, default=attempt.claimed_at)
    is_running = attempt.phase is Phase.RUNNING
    is_steady = is_running and now - started_at >= STEADY_SECONDS
    is_loop = failures >= CRASHES and not is_steady
    if is_loop:
        seen = [min(other.claimed_at for other in on_node)]
        seen += [at for other in (attempt, *on_node) for at in _list_steps(other)]
    else:
        seen = [attempt.claimed_at, *starts, *_list_steps(attempt)]
    return JobActivity(
        job_id=job.id,
        is_preparing=not is_running and not is_loop,
        progress_at=min(now, max(seen)),
        failures=0 if is_steady else failures,
        started_at=min(now, started_at),
    )


def _list_steps(attempt: Attempt) -> Iterator[int]:
    """Yield the instants of the steps and checkpoints of an attempt."""
    for report in attempt.own_reports:
        for at in (report.step_at, report.checkpoint_at):
            if at is not None:
                yield at
