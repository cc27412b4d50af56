"""A job and its attempts as they are stored. Instants are whole UTC seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from service.domain.catalog.images import Framework
from service.domain.jobs.report import SupervisorReport


class JobState(StrEnum):
    """What users see."""

    QUEUED = "QUEUED"
    WAITING_FOR_NODE = "WAITING_FOR_NODE"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    CLASSIFYING = "CLASSIFYING"
    CANCELLING = "CANCELLING"
    PREEMPTED = "PREEMPTED"
    """The hardware was lost; another attempt follows."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"


ENDED_STATES = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.TIMED_OUT}
)
"""Final states."""


class Reason(StrEnum):
    """Why an attempt or a job ended. `UNDECIDED` is an attempt that goes on."""

    UNDECIDED = ""
    COMPLETED = "COMPLETED"
    COMPLETED_THEN_ABORTED = "COMPLETED_THEN_ABORTED"
    """The program printed STEWARD_DONE and ended with a non-zero code after it (J15)."""
    PROGRAM_FAILED = "PROGRAM_FAILED"
    OOM_KILLED = "OOM_KILLED"
    DISK_FULL = "DISK_FULL"
    CONTAINER_LOST = "CONTAINER_LOST"
    PULL_FAILED = "PULL_FAILED"
    PULL_DENIED = "PULL_DENIED"
    IMAGE_NOT_FOUND = "IMAGE_NOT_FOUND"
    NO_SUCH_PLATFORM = "NO_SUCH_PLATFORM"
    START_FAILED = "START_FAILED"
    STARTUP_SCRIPT_RUNNING = "STARTUP_SCRIPT_RUNNING"
    """The caller's startup script had not ended after an hour, and no job starts before that."""
    STORAGE_DENIED = "STORAGE_DENIED"
    DEVICE_BUSY = "DEVICE_BUSY"
    PREEMPTED = "PREEMPTED"
    HOST_LOST = "HOST_LOST"
    """A worker restarted, was repaired or had a host error."""
    NODE_GONE = "NODE_GONE"
    """The node was deleted outside this service."""
    NODE_DELETED = "NODE_DELETED"
    """The node was deleted or stopped through this service."""
    NODE_NOT_GRANTED = "NODE_NOT_GRANTED"
    NO_SUPERVISOR = "NO_SUPERVISOR"
    METADATA_REFUSED = "METADATA_REFUSED"
    """Google does not accept the task in the metadata of the node."""
    SUPERVISOR_SILENT = "SUPERVISOR_SILENT"
    UNKNOWN = "UNKNOWN"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"


INFRASTRUCTURE = frozenset(
    {Reason.PREEMPTED, Reason.HOST_LOST, Reason.NODE_GONE, Reason.DEVICE_BUSY}
)
"""Ends that the program did not cause: the next attempt counts against `retries.preemption`."""

PROGRAM = frozenset(
    {
        Reason.PROGRAM_FAILED,
        Reason.OOM_KILLED,
        Reason.DISK_FULL,
        Reason.CONTAINER_LOST,
        Reason.PULL_FAILED,
        Reason.SUPERVISOR_SILENT,
        Reason.UNKNOWN,
    }
)
"""Ends after which the next attempt counts against `retries.failure`. All others are final."""


class Workers(StrEnum):
    """Which workers run the container."""

    ALL = "all"
    FIRST = "first"


class DeviceAccess(StrEnum):
    """How a container is given the TPU: as devices, or as a privileged container."""

    AUTO = "auto"
    DEVICE = "device"
    PRIVILEGED = "privileged"


@dataclass(frozen=True, slots=True)
class Retries:
    """How often an attempt is followed by another: after lost hardware, and after a failure of the
    program. With `exit_codes`, only these exit codes are retried as a failure."""

    preemption: int = 10
    failure: int = 0
    exit_codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the worker's disk inside the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What runs: the container and its limits. `command` overrides the image's entrypoint, `args`
    its arguments. Sizes are bytes, times are seconds."""

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workers: Workers = Workers.ALL
    device_access: DeviceAccess = DeviceAccess.AUTO
    shm_size: str = ""
    mounts: tuple[Mount, ...] = ()
    data: tuple[str, ...] = ()
    checkpoint_dir: str = ""
    max_duration_seconds: int = 86_400
    stop_grace_seconds: int = 25
    retries: Retries = Retries()
    run_name: str = ""
    global_batch: int | None = None
    examples: int | None = None
    steps_per_epoch: int | None = None
    log_budget: int = 1_073_741_824
    framework: Framework | None = None
    framework_version: str = ""
    launcher: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A container that was submitted.

    `own_node` says that a node is made for each attempt and deleted after it; else `node_id` names
    the caller's node. `preemptions` and `failures` count the attempts that used up a retry.
    `version` guards every write.
    """

    id: str
    project: str
    spec: JobSpec
    created_at: int
    owner: str = ""
    team: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    own_node: bool = False
    node_id: str = ""
    state: str = JobState.QUEUED
    state_since: int = 0
    reason: Reason = Reason.UNDECIDED
    detail: str = ""
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    attempt: int = 0
    preemptions: int = 0
    failures: int = 0
    image_digest: str = ""
    image_checked_at: int | None = None
    cancel_requested_at: int | None = None
    ended_at: int | None = None
    next_try_at: int | None = None
    warnings: tuple[str, ...] = ()
    version: int = 0

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in ENDED_STATES

    def in_state(self, state: JobState, now: int) -> Job:
        """Return the same job in `state`; `state_since` changes only with the state."""
        return replace(
            self, state=state, state_since=self.state_since if state == self.state else now
        )

    def with_end(self, state: JobState, reason: Reason, detail: str, now: int) -> Job:
        """Return the same job at its end."""
        return replace(
            self.in_state(state, now), reason=reason, detail=detail, ended_at=now, next_try_at=None
        )


class Phase(StrEnum):
    """The progress of an attempt, as this service has decided."""

    WAITING = "waiting"
    """The node is not READY, or no worker has reported."""
    PULLING = "pulling"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """The workers have to end the containers, after a cancellation, a time-out or a failure."""
    CLASSIFYING = "classifying"
    """The containers ended, and evidence of the reason is looked for."""
    ENDED = "ended"


class TaskAction(StrEnum):
    """What the task in the metadata tells the supervisors to do."""

    PULL = "pull"
    RUN = "run"
    STOP = "stop"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job on one node.

    `claimed_at` is when the charge of the node to the job began, `released_at` when it ended.
    `placement` is the node's own attempt on which the job runs, 0 until the node was READY.
    `generation` is that of the newest task, `written_at` when that task was last written to the
    metadata of all slices (None: not yet), `echoed` whether every worker has answered it. `read_at`
    is the last read of the reports, `answered_at` when the cloud last returned the reports of all
    slices, `answering_since` when the present series of such answers began; silence counts within
    one series alone, so an outage of the cloud or of this service ends no job. `reports` holds the
    newest accepted report of each worker, by its number in the job. `stop_reason` says why the
    containers had to stop. `detail` says why the newest task is not in the metadata yet, until the
    task is there or the attempt is stopped.
    """

    id: str
    job_id: str
    number: int
    project: str
    node_id: str
    claimed_at: int
    zone: str = ""
    phase: Phase = Phase.WAITING
    phase_since: int = 0
    placement: int = 0
    ready_at: int | None = None
    action: TaskAction = TaskAction.PULL
    generation: int = 1
    written_at: int | None = None
    echoed: bool = False
    read_at: int | None = None
    answered_at: int | None = None
    answering_since: int | None = None
    reports: Mapping[str, SupervisorReport] = field(default_factory=dict)
    stop_reason: Reason = Reason.UNDECIDED
    reason: Reason = Reason.UNDECIDED
    detail: str = ""
    evidence: tuple[str, ...] = ()
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    ended_at: int | None = None
    released_at: int | None = None
    version: int = 0

    @property
    def ended(self) -> bool:
        """Whether the outcome is decided."""
        return self.phase is Phase.ENDED

    @property
    def own_reports(self) -> list[SupervisorReport]:
        """The reports about this attempt. On a node that is used again, a worker's newest report
        may be of the previous attempt."""
        return [report for report in self.reports.values() if report.attempt == self.id]

    def in_phase(self, phase: Phase, now: int) -> Attempt:
        """Return the same attempt in `phase`; `phase_since` changes only with the phase."""
        return replace(
            self, phase=phase, phase_since=self.phase_since if phase is self.phase else now
        )

    def with_action(self, action: TaskAction) -> Attempt:
        """Return the same attempt with a new task to write; unchanged if `action` is the current
        action."""
        if action is self.action:
            return self
        return replace(
            self, action=action, generation=self.generation + 1, written_at=None, echoed=False
        )


def attempt_id(job_id: str, number: int) -> str:
    """Return the id of an attempt of a job, as in the supervisor and the logs."""
    return f"{job_id}-{number}"
