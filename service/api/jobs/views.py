"""Response models of jobs and their attempts."""

from __future__ import annotations

from pydantic import Field

from service.api.http.schemas import Page, Time, Usd, View, time_or_none
from service.application.jobs.cost import AttemptCost
from service.application.jobs.jobs import JobStatus, SubmittedJob
from service.domain.clock import to_rfc3339
from service.domain.jobs.job import Attempt, JobState, Reason
from service.domain.jobs.phases import PhaseCost, Spent
from service.domain.jobs.report import SupervisorReport
from service.domain.money import format_usd

ExitCodes = dict[str, int | None]


class JobView(View):
    """One job: what runs, how far it is, how it ended and what it cost."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    project: str = Field(examples=["lab"])
    state: JobState
    state_since: Time
    reason: Reason = Field(description="Why it, or its last attempt, ended; empty before that.")
    detail: str = Field(
        description="The same in a sentence; before the first attempt on a node that was named,"
        " what the job waits for.",
        examples=[""],
    )
    attempts: int = Field(description="How many attempts there were.", examples=[1])
    exit_codes: ExitCodes = Field(
        description="Of the last attempt that ended, by worker; null where none was reported.",
        examples=[{"0": 0}],
    )
    node_id: str = Field(description="The node of the latest attempt.")
    node_name: str = Field(examples=["job-3d6c2a11"])
    cost: Usd = Field(description="So far, in dollars: the sum of its attempts.")
    cost_estimated: bool = Field(description="Whether that may still change.")
    unpriced_seconds: int = Field(
        description="Seconds of nodes without a known price: what they cost is in no figure."
    )
    waited_seconds: int = Field(
        description="From its submission to its end, or until now, in which nothing was charged:"
        " it waited for its turn, for hardware, or for another attempt. Costs nothing.",
        examples=[42],
    )
    logs_cost_estimate: Usd = Field(
        description="About what Cloud Logging takes for its output; not in the cost."
    )
    image: str
    image_digest: str = Field(description="Empty where the registry did not name one.")
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    run_name: str
    owner: str
    team: str
    labels: dict[str, str]
    max_duration_seconds: int
    preemptions: int = Field(description="Attempts that were followed by another: lost hardware.")
    failures: int = Field(description="Attempts that were followed by another: failed programs.")
    created_at: Time
    cancel_requested_at: Time | None
    ended_at: Time | None
    warnings: tuple[str, ...]
    version: int

    @classmethod
    def from_status(cls, shown: JobStatus) -> JobView:
        """The view of a job."""
        job, spec = shown.job, shown.job.spec
        return cls(
            id=job.id,
            project=job.project,
            state=JobState(job.state),
            state_since=to_rfc3339(job.state_since),
            reason=job.reason,
            detail=job.detail,
            attempts=job.attempt,
            exit_codes=dict(job.exit_codes),
            node_id=job.node_id,
            node_name=shown.node_name,
            cost=format_usd(shown.cost.cost),
            cost_estimated=shown.cost.estimated,
            unpriced_seconds=shown.cost.unpriced_seconds,
            waited_seconds=shown.cost.waited_seconds,
            logs_cost_estimate=format_usd(shown.cost.logs),
            image=spec.image,
            image_digest=job.image_digest,
            command=spec.command,
            args=spec.args,
            env=dict(spec.env),
            run_name=spec.run_name,
            owner=job.owner,
            team=job.team,
            labels=dict(job.labels),
            max_duration_seconds=spec.max_duration_seconds,
            preemptions=job.preemptions,
            failures=job.failures,
            created_at=to_rfc3339(job.created_at),
            cancel_requested_at=time_or_none(job.cancel_requested_at),
            ended_at=time_or_none(job.ended_at),
            warnings=job.warnings,
            version=job.version,
        )


class SubmittedView(JobView):
    """A job that was submitted, or would be."""

    dry_run: bool = Field(description="Nothing was recorded; the ids are made up.")

    @classmethod
    def from_submission(cls, found: SubmittedJob, *, dry_run: bool) -> SubmittedView:
        """The answer to a submission."""
        return cls(**JobView.from_status(found.shown).model_dump(), dry_run=dry_run)


class JobPage(Page):
    """A page of jobs, the newest first."""

    jobs: tuple[JobView, ...]


class PhaseView(View):
    """What one phase of an attempt cost."""

    phase: Spent
    seconds: int = Field(description="Billed seconds, of every slice.")
    chip_seconds: int
    cost: Usd

    @classmethod
    def from_cost(cls, amount: PhaseCost) -> PhaseView:
        """The view of an amount."""
        return cls(
            phase=amount.spent,
            seconds=amount.seconds,
            chip_seconds=amount.chip_seconds,
            cost=format_usd(amount.cost),
        )


class JobWorkerView(View):
    """What a worker reported last. It is the worker's word, not proof."""

    worker: int
    state: str = Field(examples=["RUNNING"])
    reason: str = Field(examples=[""])
    detail: str = Field(examples=[""])
    exit_code: int | None
    started_at: Time | None
    ended_at: Time | None
    checkpoint: int | None = Field(description="The step of its last STEWARD_CHECKPOINT line.")
    devices: int | None = Field(description="Of its last STEWARD_DEVICES line.")
    access: str = Field(description="How the container was given the TPU.", examples=["device"])
    startup_script: str = Field(examples=["none"])
    startup_exit_code: int | None
    reported_at: Time

    @classmethod
    def from_report(cls, number: str, report: SupervisorReport) -> JobWorkerView:
        """The view of a report."""
        return cls(
            worker=int(number),
            state=report.state.value,
            reason=report.reason,
            detail=report.detail,
            exit_code=report.exit_code,
            started_at=time_or_none(report.started_at),
            ended_at=time_or_none(report.ended_at),
            checkpoint=report.checkpoint,
            devices=report.devices,
            access=report.access,
            startup_script=report.startup_script,
            startup_exit_code=report.startup_exit_code,
            reported_at=to_rfc3339(report.seen_at),
        )


class AttemptView(View):
    """One run of a job on one node."""

    number: int = Field(examples=[1])
    node_id: str
    node_name: str
    zone: str = Field(examples=["us-west4-a"])
    phase: str = Field(examples=["running"])
    started_at: Time = Field(description="Since when the node is charged to the job.")
    ended_at: Time | None
    exit_codes: ExitCodes
    reason: Reason
    detail: str
    evidence: tuple[str, ...] = Field(description="What the reason rests on.")
    cost: Usd
    phases: tuple[PhaseView, ...] = Field(description="What the cost was spent on.")
    work_lost_seconds: int | None = Field(
        description="Billed seconds that ran after the last checkpoint and were lost; all"
        " that ran, where steps were reported or a checkpoint_dir was given but no checkpoint was"
        " reported. Null: not known, the program reported nothing."
    )
    workers: tuple[JobWorkerView, ...]

    @classmethod
    def from_attempt(cls, found: AttemptCost) -> AttemptView:
        """The view of an attempt."""
        attempt: Attempt = found.attempt
        reports = sorted(attempt.reports.items(), key=lambda item: int(item[0]))
        return cls(
            number=attempt.number,
            node_id=attempt.node_id,
            node_name=found.node_name,
            zone=attempt.zone,
            phase=attempt.phase.value,
            started_at=to_rfc3339(attempt.claimed_at),
            ended_at=time_or_none(attempt.ended_at),
            exit_codes=dict(attempt.exit_codes),
            reason=attempt.reason,
            detail=attempt.detail,
            evidence=attempt.evidence,
            cost=format_usd(found.cost),
            phases=tuple(map(PhaseView.from_cost, found.amounts)),
            work_lost_seconds=found.lost_seconds,
            workers=tuple(
                JobWorkerView.from_report(number, report)
                for number, report in reports
                if report.attempt in {"", attempt.id}
            ),
        )


class AttemptPage(Page):
    """The attempts of a job, the first one first."""

    attempts: tuple[AttemptView, ...]
