"""The activity of a node's job, by the reports of the job. Pure."""

from __future__ import annotations

from service.domain.idle.proof import JobActivity
from service.domain.jobs.job import Attempt, Job, Phase


def activity_of(job: Job, attempt: Attempt, now: int) -> JobActivity:
    """Return the activity of a job. A step, a checkpoint or the start of its container is progress;
    a running container alone is not. No instant is later than `now`."""
    seen = [attempt.claimed_at]
    for report in attempt.own_reports:
        seen += [
            at for at in (report.started_at, report.step_at, report.checkpoint_at) if at is not None
        ]
    return JobActivity(
        job_id=job.id,
        is_preparing=attempt.phase is not Phase.RUNNING,
        progress_at=min(now, max(seen)),
        failures=job.failures,
    )
