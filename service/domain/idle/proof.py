"""The rule of proof: what it takes to say that a node is idle. Pure.

Two mistakes are possible: to delete a node that works, and to pay for one that does not. The first
cannot be made good, so whatever is not proved is UNKNOWN, and names the signal that is lacking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.idle.policy import Waste
from service.domain.idle.signal import (
    CHIPS_KINDS,
    COUNTED,
    CPU_KINDS,
    DEVICE_KINDS,
    MONITORED,
    NETWORK_KINDS,
    Kind,
    Level,
    SignalTrack,
)

COVERAGE_PERCENT = 90
"""So much of the time at rest has to be covered by readings, of each signal that is needed."""

STALE_SECONDS = 300
"""A signal whose newest reading ended so long before the newest seconds has stopped."""

REPORT_AGE = 360
"""How old, in seconds, a report may be that was just read: a meter writes after 240, by a clock of
its own, and of the time until its last count."""

UNREAD = "the reports of its workers cannot be read, or are dated in the future"

CRASHES = 3
"""A container that was restarted so often within `idle_after` is a crash loop."""


class MetricFamily(StrEnum):
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
    """The most restarts of one container within ten minutes."""
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Signals:
    """What was measured and reported of one incarnation of a node: the tracks by worker and kind,
    the newest report of each worker, when the reports were asked for, and the ids of the instances
    of the workers: some metrics know a worker by nothing else, and of the time before `named_at`
    they can tell nothing. `unread_since` is when the first of the newest reads of reports failed;
    None where the newest one succeeded."""

    tracks: Mapping[tuple[int, Kind], SignalTrack] = field(default_factory=dict)
    hosts: Mapping[int, Host] = field(default_factory=dict)
    asked_at: int | None = None
    instances: Mapping[int, str] = field(default_factory=dict)
    named_at: Mapping[int, int] = field(default_factory=dict)
    unread_since: int | None = None


@dataclass(frozen=True, slots=True)
class ActivityEvidence:
    """All that is known of the activity of one incarnation of a node.

    `counts_from` is READY and the warm-up; before it nothing is idle. `hosts` are the newest
    reports by worker, of this boot only; `asked_at` is when they were asked for. `named` is
    since when the instance id of a worker is known; without those of which it is not.
    `report_seconds` is how old the newest reports may be where
    nobody else sees a node: they are not read more often. `queued_job` is the id of a job that
    waits for this node.
    """

    workers: int
    counts_from: int
    tracks: Mapping[tuple[int, Kind], SignalTrack]
    families: Mapping[Kind, MetricFamily]
    hosts: Mapping[int, Host] = field(default_factory=dict)
    asked_at: int | None = None
    named: Mapping[int, int] = field(default_factory=dict)
    unread_since: int | None = None
    report_seconds: int = 0
    heartbeat_until: int = 0
    job: JobActivity | None = None
    queued_job: str = ""


class Blocker(StrEnum):
    """What keeps an idle node from its deletion; the time at rest goes on meanwhile."""

    HOST_BUSY = "host_busy"
    SESSION = "session"
    QUEUED_JOB = "queued_job"


@dataclass(frozen=True, slots=True)
class IdleVerdict:
    """What the evidence proves.

    With QUIET, `since` is when the devices came to rest, and `proved_since` from when on the hosts
    were at rest as well. `coverage` is the least covered share of that time in percent, of all
    workers and signals that are needed. `until` is how far the proof reaches. `lacking` says what
    is missing for a proof. `is_seen` says of an UNKNOWN node that all its workers report, and what
    they report proves no rest: nothing has gone dark.
    """

    level: Level
    reason: str
    since: int | None = None
    proved_since: int | None = None
    coverage: int = 0
    blockers: tuple[Blocker, ...] = ()
    waste: Waste | None = None
    lacking: tuple[str, ...] = ()
    until: int | None = None
    is_seen: bool = False


_KINDS = tuple(kind for kind in Kind if kind in COUNTED or kind not in MONITORED)
"""The signals that count. Chips that are scheduled say what a VM has, not what it does."""
_HOST_KINDS = (*CPU_KINDS, *NETWORK_KINDS)


@dataclass(frozen=True, slots=True)
class _Proof:
    """What is known of one worker: what is lacking, the coverage in percent, and until when its
    host was busy."""

    lacking: tuple[str, ...]
    coverage: int
    busy_until: int
    has_stopped: bool = False


def judge(evidence: ActivityEvidence, idle_after: int, now: int, delay: int) -> IdleVerdict:
    """The verdict on one node. Activity counts at once; rest counts until `now - delay` only, as
    the newest seconds of telemetry are still to come, and of a node that only its reports show no
    further than they reach. A metric that has stopped by now has stopped, however far that is."""
    verdict = _judge(evidence, idle_after, now, now - delay, now - delay)
    reported = _reported_until(evidence, now)
    if verdict.level is not Level.UNKNOWN or reported is None or reported >= now - delay:
        return verdict
    earlier = _judge(evidence, idle_after, now, reported, now - delay)
    return earlier if earlier.level is Level.QUIET else verdict


def _reported_until(evidence: ActivityEvidence, now: int) -> int | None:
    """How far the reports of all workers reach; None where one is missing or too old."""
    ends = [host.at for host in evidence.hosts.values()]
    if len(ends) < evidence.workers or not ends:
        return None
    return min(ends) if min(ends) >= now - evidence.report_seconds else None


def _judge(
    evidence: ActivityEvidence, idle_after: int, now: int, until: int, seen_by: int
) -> IdleVerdict:
    activity = sorted(_activity(evidence, now))
    if activity and activity[-1][0] > until:
        return IdleVerdict(Level.ACTIVE, activity[-1][1])
    since = max(evidence.counts_from, activity[-1][0] if activity else 0)
    window = max(since, until - idle_after)
    tracks = _by_worker(evidence)
    proofs = [
        _prove(evidence, worker, tracks.get(worker, {}), (window, until), seen_by)
        for worker in range(evidence.workers)
    ]
    busy_until = max((proof.busy_until for proof in proofs), default=0)
    blockers = tuple(_blockers(evidence, busy_until, until))
    unread = is_unread(evidence, now)
    lacking = tuple(_lacking(proofs, is_unread=unread))
    if lacking:
        is_dark = unread or not proofs or any(proof.has_stopped for proof in proofs)
        is_seen = not is_dark and _reported_until(evidence, now) is not None
        return IdleVerdict(
            Level.UNKNOWN, lacking[0], lacking=lacking, blockers=blockers, is_seen=is_seen
        )
    return IdleVerdict(
        Level.QUIET,
        "every device is at rest",
        since=since,
        proved_since=max(since, busy_until),
        coverage=min(proof.coverage for proof in proofs),
        blockers=blockers,
        waste=_waste(evidence),
        until=until,
    )


def is_unread(evidence: ActivityEvidence, now: int) -> bool:
    """Whether the reports of workers were asked for in vain for as long as a signal may stop."""
    since = evidence.unread_since
    return since is not None and now - since >= STALE_SECONDS


def _lacking(proofs: Sequence[_Proof], *, is_unread: bool) -> Iterator[str]:
    if is_unread:
        yield UNREAD
    if not proofs:
        yield "the number of workers is not known"
    for proof in proofs:
        yield from proof.lacking


_WORK_KINDS = frozenset((*DEVICE_KINDS, *CHIPS_KINDS)) - {Kind.DEVICE}
"""The signals that show work. A device that is held may be at rest."""


def _activity(evidence: ActivityEvidence, now: int) -> Iterator[tuple[int, str]]:
    """Until when each source of activity shows work, and in words."""
    shown = _newest_work(evidence.tracks)
    if shown is not None:
        yield shown[0], _work_of(*shown[1:])
    if evidence.heartbeat_until > evidence.counts_from:
        yield heartbeat_activity(evidence.heartbeat_until, now)
    if evidence.job is not None:
        yield job_activity(evidence.job, now)


def _newest_work(tracks: Mapping[tuple[int, Kind], SignalTrack]) -> tuple[int, int, Kind] | None:
    """The end of the newest work that the tracks show, with the worker and the signal; None where
    they show none."""
    newest: tuple[int, int, Kind] | None = None
    latest = 0
    for (worker, kind), track in tracks.items():
        at = track.broken_at
        if at is None or at < latest or kind not in _WORK_KINDS:
            continue
        if newest is None or at > latest or (worker, kind) > newest[1:]:
            newest, latest = (at, worker, kind), at
    return newest


def _work_of(worker: int, kind: Kind) -> str:
    return f"worker {worker} is at work, as its {kind} shows"


def shown_at_work(tracks: Mapping[tuple[int, Kind], SignalTrack], until: int) -> IdleVerdict | None:
    """What `judge` answers for a node without heartbeat and job whose tracks show work after
    `until`; None where they show none. Most nodes of a fleet need nothing more."""
    newest = _newest_work(tracks)
    if newest is None or newest[0] <= until:
        return None
    return IdleVerdict(Level.ACTIVE, _work_of(*newest[1:]))


def heartbeat_activity(until: int, now: int) -> tuple[int, str]:
    """Until when the newest heartbeat shows work, and in words."""
    return min(until, now + 1), "a heartbeat says that it is at work"


def job_activity(job: JobActivity, now: int) -> tuple[int, str]:
    """Until when the job of a node shows work, and in words."""
    if job.is_preparing:
        return now + 1, f"job {job.job_id} prepares to run"
    return job.progress_at, f"job {job.job_id} makes progress"


def _by_worker(evidence: ActivityEvidence) -> Mapping[int, Mapping[Kind, SignalTrack]]:
    tracks: dict[int, dict[Kind, SignalTrack]] = {}
    for (worker, kind), track in evidence.tracks.items():
        tracks.setdefault(worker, {})[kind] = track
    return tracks


def _prove(
    evidence: ActivityEvidence,
    worker: int,
    tracks: Mapping[Kind, SignalTrack],
    window: tuple[int, int],
    seen_by: int,
) -> _Proof:
    """Whether one worker is at rest in the window: a device signal, CPU and network, each covered
    by 90 %, and none of them stopped before `seen_by`."""
    start, until = window
    stopped = [
        f"{kind} of worker {worker} {why}" for kind, why in _troubles(evidence, tracks, seen_by)
    ]
    device, cpu, network = (
        max(coverage_of(tracks.get(kind), start, until) for kind in kinds)
        for kinds in (DEVICE_KINDS, CPU_KINDS, NETWORK_KINDS)
    )
    host = [track for kind in _HOST_KINDS if (track := tracks.get(kind)) is not None]
    busy_until = max((track.broken_at or 0 for track in host), default=0)
    if device < COVERAGE_PERCENT and _never_started(evidence, worker):
        device = max(device, _coverage_of_missing(evidence.named[worker], tracks, window))
    elif device < COVERAGE_PERCENT and _is_of_job(evidence, worker):
        device = min(cpu, network)
    least = min(device, cpu, network)
    if least >= COVERAGE_PERCENT:
        return _Proof(tuple(stopped), least, busy_until, bool(stopped))
    is_busy = busy_until > start  # a busy host blocks; it is not what is lacking
    lacking = [
        f"{name} of worker {worker} has readings at rest for {share} % of the time;"
        f" {COVERAGE_PERCENT} % is needed{_holder(evidence, worker, name)}"
        for name, share in (("device", device), ("cpu", cpu), ("network", network))
        if share < COVERAGE_PERCENT and not (name != "device" and is_busy)
    ]
    return _Proof((*stopped, *lacking), least, busy_until, bool(stopped))


def coverage_of(track: SignalTrack | None, start: int, until: int) -> int:
    """The share of [start, until) that one signal shows at rest, in whole percent, rounded down; of
    an empty span all."""
    if track is None:
        return 0
    if until <= start:
        return 100
    return 100 * track.covered(start, until) // (until - start)


def _coverage_of_missing(
    named_at: int, tracks: Mapping[Kind, SignalTrack], window: tuple[int, int]
) -> int:
    """The share of a window in which a duty cycle was missing and the host at rest, in percent.
    Before the id of the instance was known nobody could have seen one, so it was not missing."""
    start, until = window
    seen_from = max(start, named_at)
    if until <= start or seen_from >= until:
        return 100 if until <= start else 0
    host = [
        max(
            (track.covered(seen_from, until) for kind in kinds if (track := tracks.get(kind))),
            default=0,
        )
        for kinds in ((Kind.CPU,), NETWORK_KINDS)
    ]
    return 100 * min(host) // (until - start)


def _troubles(
    evidence: ActivityEvidence, tracks: Mapping[Kind, SignalTrack], until: int
) -> Iterator[tuple[Kind, str]]:
    """The signals of a worker that count and cannot be relied on, and why."""
    for kind in _KINDS:
        if why := trouble_of(evidence, kind, tracks.get(kind), until):
            yield kind, why


def trouble_of(
    evidence: ActivityEvidence, kind: Kind, track: SignalTrack | None, until: int
) -> str:
    """Why a signal of a worker cannot be relied on; empty where it can. A metric that the project
    does not have counts neither way. Reports are read where they are needed only: one that the
    newest read found too old has stopped, for as long as no newer one is read."""
    if kind not in MONITORED:
        is_old = track is not None and track.end < (evidence.asked_at or 0) - REPORT_AGE
        return "has stopped" if is_old else ""
    family = evidence.families.get(kind, MetricFamily.FAILED)
    if family is MetricFamily.FAILED:
        return "cannot be read"
    is_old = track is not None and track.end < until - STALE_SECONDS
    return "has stopped" if is_old and family is MetricFamily.PRESENT else ""


def _never_started(evidence: ActivityEvidence, worker: int) -> bool:
    """Whether the metrics show a worker whose accelerator never ran: no duty cycle, though other
    workers of the project have one (reference/cloud-tpu-api.md section 5). Duty cycles go by the
    ids of instances: of a worker whose id is not known, none can be found. A device that any signal
    has shown at work, or a process has held, was started; and only the worker's own report says
    that none has held it."""
    is_measured = evidence.families.get(Kind.DUTY_CYCLE) is MetricFamily.PRESENT
    tracks = [evidence.tracks.get((worker, kind)) for kind in DEVICE_KINDS]
    was_used = any(track is not None and track.broken_at is not None for track in tracks)
    is_named = worker in evidence.named
    is_missing = (worker, Kind.DUTY_CYCLE) not in evidence.tracks
    is_reported = (worker, Kind.DEVICE) in evidence.tracks
    return is_measured and is_named and is_reported and is_missing and not was_used


def _is_of_job(evidence: ActivityEvidence, worker: int) -> bool:
    """Whether the job of the node is what holds the device of a worker: it is judged by its
    progress, and without any it is one that hangs."""
    host = evidence.hosts.get(worker)
    return evidence.job is not None and host is not None and bool(host.holder)


def _holder(evidence: ActivityEvidence, worker: int, name: str) -> str:
    host = evidence.hosts.get(worker)
    return f"; {host.holder}" if name == "device" and host is not None and host.holder else ""


def _blockers(evidence: ActivityEvidence, busy_until: int, until: int) -> Iterator[Blocker]:
    if busy_until > until - STALE_SECONDS:
        yield Blocker.HOST_BUSY
    if any(host.sessions for host in evidence.hosts.values()):
        yield Blocker.SESSION
    if evidence.queued_job:
        yield Blocker.QUEUED_JOB


def _waste(evidence: ActivityEvidence) -> Waste | None:
    """Whether something that looks like work holds the node at rest."""
    failures = evidence.job.failures if evidence.job is not None else 0
    if max(failures, *_restarts(evidence.hosts.values())) >= CRASHES:
        return Waste.CRASH_LOOP
    runs = any(host.containers and host.holder for host in evidence.hosts.values())
    return Waste.NO_PROGRESS if runs or evidence.job is not None else None


def _restarts(hosts: Iterable[Host]) -> list[int]:
    return [0, *(host.restarts for host in hosts)]
