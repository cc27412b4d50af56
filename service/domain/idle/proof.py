"""The rule of proof: what it takes to say that a node is idle. Pure.

Two mistakes are possible: to delete a node that works, and to pay for one that does not. The first
cannot be made good, so whatever is not proved is UNKNOWN, and names the signal that is lacking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.idle.policy import Waste
from service.domain.idle.signal import (
    CPU_KINDS,
    DEVICE_KINDS,
    MONITORED,
    NETWORK_KINDS,
    Kind,
    Level,
    Track,
)

COVERAGE_PERCENT = 90
"""So much of the time at rest has to be covered by readings, of each signal that is needed."""

STALE_SECONDS = 300
"""A signal whose newest reading ended so long before the newest seconds has stopped."""

CRASHES = 3
"""A container that was restarted so often within `idle_after` is a crash loop."""


class Family(StrEnum):
    """What Cloud Monitoring has of one metric in a project."""

    PRESENT = "present"
    ABSENT = "absent"
    """Reads succeed and show no series for 24 hours: the metric counts neither way."""
    FAILED = "failed"
    """The newest read failed, or none was made: nothing is known."""


@dataclass(frozen=True, slots=True)
class JobActivity:
    """The job that holds the node: whether it prepares to run, when it last made progress (a step,
    a checkpoint, the start; whole UTC seconds), and how many of its attempts failed lately."""

    job_id: str
    is_preparing: bool
    progress_at: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """What the newest report of a supervisor shows of one worker, at a whole UTC second."""

    at: int
    holder: str = ""
    sessions: int = 0
    containers: int = 0
    restarts: int = 0
    """Restarts of containers within the time that the report covers."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What was measured and reported of one incarnation of a node: the tracks by worker and kind,
    the newest report of each worker, when the reports were asked for, and the ids of the instances
    of the workers: some metrics know a worker by nothing else."""

    tracks: Mapping[tuple[int, Kind], Track] = field(default_factory=dict)
    hosts: Mapping[int, Host] = field(default_factory=dict)
    asked_at: int | None = None
    instances: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of the activity of one incarnation of a node.

    `counts_from` is READY and the warm-up; before it nothing is idle. `hosts` are the newest
    reports by worker, of this boot only; `asked_at` is when they were asked for. `named` are the
    workers whose instance id is known. `queued_job` is the id of a job that waits for this node.
    """

    workers: int
    counts_from: int
    tracks: Mapping[tuple[int, Kind], Track]
    families: Mapping[Kind, Family]
    hosts: Mapping[int, Host] = field(default_factory=dict)
    asked_at: int | None = None
    named: frozenset[int] = frozenset()
    heartbeat_until: int = 0
    job: JobActivity | None = None
    queued_job: str = ""


class Blocker(StrEnum):
    """What keeps an idle node from its deletion; the time at rest goes on meanwhile."""

    HOST_BUSY = "host_busy"
    SESSION = "session"
    QUEUED_JOB = "queued_job"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evidence proves.

    With QUIET, `since` is when the devices came to rest, and `proved_since` from when on the hosts
    were at rest as well. `coverage` is the least covered share of that time in percent, of all
    workers and signals that are needed. `lacking` says what is missing for a proof.
    """

    level: Level
    reason: str
    since: int | None = None
    proved_since: int | None = None
    coverage: int = 0
    blockers: tuple[Blocker, ...] = ()
    waste: Waste | None = None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Proof:
    """What is known of one worker: what is lacking, the coverage in percent, and until when its
    host was busy."""

    lacking: tuple[str, ...]
    coverage: int
    busy_until: int


def judge(evidence: Evidence, idle_after: int, now: int, delay: int) -> Verdict:
    """The verdict on one node. Activity counts at once; rest counts until `now - delay` only, as
    the newest seconds of telemetry are still to come."""
    until = now - delay
    activity = sorted(_activity(evidence, now))
    if activity and activity[-1][0] > until:
        return Verdict(Level.ACTIVE, activity[-1][1])
    since = max(evidence.counts_from, activity[-1][0] if activity else 0)
    window = max(since, until - idle_after)
    proofs = [_prove(evidence, worker, window, until) for worker in range(evidence.workers)]
    busy_until = max((proof.busy_until for proof in proofs), default=0)
    blockers = tuple(_blockers(evidence, busy_until, until))
    lacking = tuple(text for proof in proofs for text in proof.lacking)
    if not proofs:
        lacking = ("the number of workers is not known",)
    if lacking:
        return Verdict(Level.UNKNOWN, lacking[0], lacking=lacking, blockers=blockers)
    return Verdict(
        Level.QUIET,
        "every device is at rest",
        since=since,
        proved_since=max(since, busy_until),
        coverage=min(proof.coverage for proof in proofs),
        blockers=blockers,
        waste=_waste(evidence),
    )


def _activity(evidence: Evidence, now: int) -> Iterator[tuple[int, str]]:
    """Until when each source of activity shows work, and in words."""
    for (worker, kind), track in evidence.tracks.items():
        counts = kind in (*DEVICE_KINDS, Kind.ACTIVE_CHIPS) and kind is not Kind.DEVICE
        if counts and track.broken_at is not None:
            yield track.broken_at, f"{kind} of worker {worker} is at work"
    if evidence.heartbeat_until > evidence.counts_from:
        yield min(evidence.heartbeat_until, now + 1), "a heartbeat says so"
    if evidence.job is not None:
        job = evidence.job
        at = now + 1 if job.is_preparing else job.progress_at
        yield at, f"job {job.job_id} {'prepares to run' if job.is_preparing else 'makes progress'}"


def _prove(evidence: Evidence, worker: int, start: int, until: int) -> _Proof:
    """Whether one worker is at rest in [start, until): a device signal, CPU and network, each
    covered by 90 %, and none of them stopped."""
    stopped = [
        f"{kind} of worker {worker} {why}"
        for kind in Kind
        if (why := _trouble(evidence, worker, kind, until))
    ]
    shares = {}
    for name, kinds in (("device", DEVICE_KINDS), ("cpu", CPU_KINDS), ("network", NETWORK_KINDS)):
        shares[name] = max(_coverage(evidence, worker, kind, start, until) for kind in kinds)
    host = [evidence.tracks.get((worker, kind)) for kind in (*CPU_KINDS, *NETWORK_KINDS)]
    busy_until = max((track.broken_at or 0 for track in host if track is not None), default=0)
    if shares["device"] < COVERAGE_PERCENT and _never_started(evidence, worker):
        shares["device"] = min(shares["cpu"], shares["network"])
    is_busy = busy_until > start  # a busy host blocks; it is not what is lacking
    lacking = [
        f"{name} of worker {worker} is known at rest for {share} % of the time,"
        f" and {COVERAGE_PERCENT} % are needed{_holder(evidence, worker, name)}"
        for name, share in shares.items()
        if share < COVERAGE_PERCENT and not (name != "device" and is_busy)
    ]
    return _Proof((*stopped, *lacking), min(shares.values()), busy_until)


def _coverage(evidence: Evidence, worker: int, kind: Kind, start: int, until: int) -> int:
    """The share of [start, until) that one signal shows at rest, in whole percent, rounded down; of
    an empty span all."""
    track = evidence.tracks.get((worker, kind))
    if track is None:
        return 0
    if until <= start:
        return 100
    return 100 * track.covered(start, until) // (until - start)


def _trouble(evidence: Evidence, worker: int, kind: Kind, until: int) -> str:
    """Why a signal of a worker cannot be relied on; empty where it can, or counts neither way."""
    track = evidence.tracks.get((worker, kind))
    if kind in MONITORED:
        family = evidence.families.get(kind, Family.FAILED)
        if family is Family.FAILED:
            return "cannot be read"
        if family is Family.ABSENT or track is None:
            return ""
    elif track is None or evidence.asked_at is None or evidence.asked_at < until:
        return ""  # the supervisor is asked for its report where one is needed
    return "has stopped" if track.end < until - STALE_SECONDS else ""


def _never_started(evidence: Evidence, worker: int) -> bool:
    """Whether the metrics show a worker whose accelerator never ran: no duty cycle, though other
    workers of the project have one (reference/cloud-tpu-api.md section 5). Duty cycles go by the
    ids of instances: of a worker whose id is not known, none can be found."""
    is_measured = evidence.families.get(Kind.DUTY_CYCLE) is Family.PRESENT
    is_named = worker in evidence.named
    return is_measured and is_named and (worker, Kind.DUTY_CYCLE) not in evidence.tracks


def _holder(evidence: Evidence, worker: int, name: str) -> str:
    host = evidence.hosts.get(worker)
    return f"; {host.holder}" if name == "device" and host is not None and host.holder else ""


def _blockers(evidence: Evidence, busy_until: int, until: int) -> Iterator[Blocker]:
    if busy_until > until - STALE_SECONDS:
        yield Blocker.HOST_BUSY
    if any(host.sessions for host in evidence.hosts.values()):
        yield Blocker.SESSION
    if evidence.queued_job:
        yield Blocker.QUEUED_JOB


def _waste(evidence: Evidence) -> Waste | None:
    """Whether something that looks like work holds the node at rest."""
    failures = evidence.job.failures if evidence.job is not None else 0
    if max(failures, *_restarts(evidence.hosts.values())) >= CRASHES:
        return Waste.CRASH_LOOP
    runs = any(host.containers and host.holder for host in evidence.hosts.values())
    return Waste.NO_PROGRESS if runs or evidence.job is not None else None


def _restarts(hosts: Iterable[Host]) -> list[int]:
    return [0, *(host.restarts for host in hosts)]
