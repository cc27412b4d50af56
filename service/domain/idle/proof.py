"""The rule of proof: the evidence that is needed to call a node idle. Pure.

Two mistakes are possible: to delete a node that works, and to pay for an idle node. The first
cannot be undone, so a node without proof is UNKNOWN, with the name of the missing signal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.idle.policy import Waste
from service.domain.idle.signals.signal import (
    CHIPS_KINDS,
    COUNTED,
    CPU_KINDS,
    DEVICE_KINDS,
    MONITORED,
    NETWORK_KINDS,
    Kind,
    Level,
    SignalTrack,
    name_signal,
)

COVERAGE_PERCENT = 90
"""The share of the quiet time that readings of each needed signal have to cover."""

STALE_SECONDS = 300
"""A signal has stopped if its newest reading ended this long before the newest seconds."""

REPORT_AGE = 360
"""The largest age in seconds of a report at its read. A meter writes every 240 s, by its own clock,
about the time until its last count."""

UNREAD = "the reports of its workers cannot be read, or are dated in the future"

CRASHES = 3
"""So many restarts of one container within ten minutes, or failed attempts of the node's job within
an hour, are a crash loop."""

OPEN_SECONDS = 300
"""The time that a job has to open the device after its start."""


class MetricFamily(StrEnum):
    """What Cloud Monitoring has of one metric in a project."""

    PRESENT = "present"
    ABSENT = "absent"
    """Reads succeed and show no series for 24 hours: the metric counts neither way."""
    FAILED = "failed"
    """The newest read failed, or there was no read."""


@dataclass(frozen=True, slots=True)
class JobActivity:
    """The job that holds the node, or that waits between two attempts of its crash loop there. It
    says whether the job prepares to run, and when it last made progress (a step, a checkpoint, the
    start). It also says how many of its attempts failed on the node within the last hour, and when
    its container started. A steady attempt counts no failures. Instants are whole UTC seconds."""

    job_id: str
    is_preparing: bool
    progress_at: int
    failures: int = 0
    started_at: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """One worker by the newest report of its supervisor, at a whole UTC second. `held_since` is the
    end of the first of the consecutive reports with this holder; None without a holder."""

    at: int
    holder: str = ""
    sessions: int = 0
    containers: int = 0
    restarts: int = 0
    """The most restarts of one container within ten minutes."""
    boot: str = ""
    held_since: int | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """The measurements and reports of one incarnation of a node: the tracks by worker and kind, the
    newest report of each worker, the instant of the last complete read, and the instance ids of the
    workers. Some metrics identify a worker by its instance id alone, so they show nothing of the
    time before `named_at`. `unread_since` is the first of the consecutive failed reads of reports;
    None where the newest read succeeded."""

    tracks: Mapping[tuple[int, Kind], SignalTrack] = field(default_factory=dict)
    hosts: Mapping[int, Host] = field(default_factory=dict)
    asked_at: int | None = None
    instances: Mapping[int, str] = field(default_factory=dict)
    named_at: Mapping[int, int] = field(default_factory=dict)
    unread_since: int | None = None


@dataclass(frozen=True, slots=True)
class ActivityEvidence:
    """All evidence of the activity of one incarnation of a node.

    `counts_from` is READY plus the warm-up; a node is never idle before it. `hosts` are the newest
    reports by worker, of this boot only; `asked_at` is the instant of their last complete read.
    `named` is the instant since which a worker's instance id is known, without workers whose id is
    unknown. `report_seconds` is the largest age of the newest reports where only reports show the
    node: they are not read more often. `queued_job` is the id of a job other than `job` that waits
    for this node.
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
    """What keeps an idle node from its deletion; the quiet time goes on meanwhile."""

    HOST_BUSY = "host_busy"
    SESSION = "session"
    QUEUED_JOB = "queued_job"


@dataclass(frozen=True, slots=True)
class IdleVerdict:
    """The result of the evidence.

    With QUIET, `since` is when the devices became quiet, and `proved_since` when the hosts were
    quiet as well. `coverage` is the smallest covered share of that time in percent, of all workers
    and needed signals. `until` is the end of the proof. `lacking` says what is missing for a proof.
    `is_seen` says of an UNKNOWN node that all its workers report, and that the reports do not prove
    it quiet: no signal is lost.
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
"""The signals that count. Scheduled chips show the size of a VM, not its activity."""
_HOST_KINDS = (*CPU_KINDS, *NETWORK_KINDS)


@dataclass(frozen=True, slots=True)
class _Proof:
    """The proof of one worker: what is lacking, the coverage in percent, and the end of its host's
    activity."""

    lacking: tuple[str, ...]
    coverage: int
    busy_until: int
    has_stopped: bool = False


def judge_evidence(
    evidence: ActivityEvidence, idle_after: int, now: int, delay: int
) -> IdleVerdict:
    """Return the verdict on one node by the rule of proof.

    Activity counts at once. Rest counts until `now - delay` only, as the newest seconds of
    telemetry are not there yet; where only reports show the node, rest counts until the end of the
    reports. A metric has stopped by its age at `now - delay`, also for such an earlier end.
    """
    verdict = _judge_until(evidence, idle_after, now, now - delay, now - delay)
    reported = _reported_until(evidence, now)
    if verdict.level is not Level.UNKNOWN or reported is None or reported >= now - delay:
        return verdict
    earlier = _judge_until(evidence, idle_after, now, reported, now - delay)
    return earlier if earlier.level is Level.QUIET else verdict


def _reported_until(evidence: ActivityEvidence, now: int) -> int | None:
    """The end of the reports of all workers; None where a report is missing or too old."""
    ends = [host.at for host in evidence.hosts.values()]
    if len(ends) < evidence.workers or not ends:
        return None
    return min(ends) if min(ends) >= now - evidence.report_seconds else None


def _judge_until(
    evidence: ActivityEvidence, idle_after: int, now: int, until: int, seen_by: int
) -> IdleVerdict:
    # The end of the work that each source of activity shows, with a text.
    activity: list[tuple[int, str]] = []
    if (shown := _newest_work(evidence.tracks)) is not None:
        activity.append((shown[0], _describe_work(*shown[1:])))
    if evidence.heartbeat_until > evidence.counts_from:
        activity.append(heartbeat_activity(evidence.heartbeat_until, now))
    if evidence.job is not None:
        activity.append(job_activity(evidence, evidence.job, now))
    activity.sort()
    if activity and activity[-1][0] > until:
        return IdleVerdict(Level.ACTIVE, activity[-1][1])
    since = max(evidence.counts_from, activity[-1][0] if activity else 0)
    window = max(since, until - idle_after)
    tracks: dict[int, dict[Kind, SignalTrack]] = {}
    for (worker, kind), track in evidence.tracks.items():
        tracks.setdefault(worker, {})[kind] = track
    proofs = [
        _prove_worker(evidence, worker, tracks.get(worker, {}), (window, until), seen_by)
        for worker in range(evidence.workers)
    ]
    busy_until = max((proof.busy_until for proof in proofs), default=0)
    blockers = tuple(_list_blockers(evidence, busy_until, until))
    unread = is_unread(evidence, now)
    lacking = (
        *([UNREAD] if unread else []),
        *([] if proofs else ["the number of workers is not known"]),
        *(text for proof in proofs for text in proof.lacking),
    )
    if lacking:
        is_dark = unread or not proofs or any(proof.has_stopped for proof in proofs)
        is_seen = not is_dark and _reported_until(evidence, now) is not None
        return IdleVerdict(
            Level.UNKNOWN, lacking[0], lacking=lacking, blockers=blockers, is_seen=is_seen
        )
    return IdleVerdict(
        Level.QUIET,
        "every device is quiet",
        since=since,
        proved_since=max(since, busy_until),
        coverage=min(proof.coverage for proof in proofs),
        blockers=blockers,
        waste=_find_waste(evidence),
        until=until,
    )


def is_unread(evidence: ActivityEvidence, now: int) -> bool:
    """Whether proof by reports is missing: all their reads failed for as long as a signal may
    stop."""
    since = evidence.unread_since
    return since is not None and now - since >= STALE_SECONDS


_WORK_KINDS = frozenset((*DEVICE_KINDS, *CHIPS_KINDS)) - {Kind.DEVICE}
"""The signals that show work. A device that a process holds may be quiet."""


def _newest_work(tracks: Mapping[tuple[int, Kind], SignalTrack]) -> tuple[int, int, Kind] | None:
    """The end of the newest work in the tracks, with the worker and the signal; None without
    work."""
    newest: tuple[int, int, Kind] | None = None
    latest = 0
    for (worker, kind), track in tracks.items():
        at = track.broken_at
        if at is None or at < latest or kind not in _WORK_KINDS:
            continue
        if newest is None or at > latest or (worker, kind) > newest[1:]:
            newest, latest = (at, worker, kind), at
    return newest


def _describe_work(worker: int, kind: Kind) -> str:
    return f"worker {worker} is active, by its {name_signal(kind)}"


def shown_at_work(tracks: Mapping[tuple[int, Kind], SignalTrack], until: int) -> IdleVerdict | None:
    """Return the verdict on a node without heartbeat and job whose tracks prove work after `until`.
    None without such work. Most nodes of a fleet need no other evidence."""
    newest = _newest_work(tracks)
    if newest is None or newest[0] <= until:
        return None
    return IdleVerdict(Level.ACTIVE, _describe_work(*newest[1:]))


def heartbeat_activity(until: int, now: int) -> tuple[int, str]:
    """Return the end of the work that the newest heartbeat claims, for the proof, with a text."""
    return min(until, now + 1), "a heartbeat says that it is active"


def job_activity(evidence: ActivityEvidence, job: JobActivity, now: int) -> tuple[int, str]:
    """Return the end of the work that a node's job claims, for the proof, with a text. Progress
    without a device is no work, as after a silent fall back to the CPU: the work ends with the
    start."""
    if job.is_preparing:
        return now + 1, f"job {job.job_id} prepares to run"
    tracks = [evidence.tracks.get((worker, Kind.DEVICE)) for worker in range(evidence.workers)]
    oldest = now - evidence.report_seconds
    if tracks and all(_was_free(track, job, oldest) for track in tracks):
        return min(job.started_at, job.progress_at), f"job {job.job_id} started"
    return job.progress_at, f"job {job.job_id} makes progress"


def _was_free(track: SignalTrack | None, job: JobActivity, oldest: int) -> bool:
    """Whether reports show that no process held the device of a worker at the newest progress of
    the job, and for `OPEN_SECONDS` since its start. If the progress is later than the newest
    report, that report counts only if it ended at `oldest` or later."""
    if track is None or (job.progress_at >= track.end and track.end < oldest):
        return False
    at = min(job.progress_at, track.end - 1)
    return any(
        first <= at < last and last - max(first, job.started_at) >= OPEN_SECONDS
        for first, last in track.at_rest
    )


def _prove_worker(
    evidence: ActivityEvidence,
    worker: int,
    tracks: Mapping[Kind, SignalTrack],
    window: tuple[int, int],
    seen_by: int,
) -> _Proof:
    """Whether one worker is quiet in the window. Readings of a device signal, CPU and network
    each have to cover 90 %, and none of these signals may have stopped before `seen_by`."""
    start, until = window
    stopped = [
        f"{name_signal(kind)} of worker {worker} {why}"
        for kind in _KINDS
        if (why := trouble_of(evidence, kind, tracks.get(kind), seen_by))
    ]
    device, cpu, network = (
        max(coverage_of(tracks.get(kind), start, until) for kind in kinds)
        for kinds in (DEVICE_KINDS, CPU_KINDS, NETWORK_KINDS)
    )
    host_tracks = [track for kind in _HOST_KINDS if (track := tracks.get(kind)) is not None]
    busy_until = max((track.broken_at or 0 for track in host_tracks), default=0)
    job, host = evidence.job, evidence.hosts.get(worker)
    holder = "" if host is None else host.holder
    # The attempts of a crash loop hold the device now and then.
    is_held = host is not None and job is not None and (bool(holder) or job.failures >= CRASHES)
    if device < COVERAGE_PERCENT and _has_never_started(evidence, worker):
        device = max(device, _coverage_of_missing(evidence.named[worker], tracks, window))
    elif device < COVERAGE_PERCENT and is_held:
        device = min(cpu, network)  # the job holds the device, and is judged by its progress
    least = min(device, cpu, network)
    if least >= COVERAGE_PERCENT:
        return _Proof(tuple(stopped), least, busy_until, bool(stopped))
    is_busy = busy_until > start  # a busy host blocks, and is not lacking
    lacking = [
        _describe_lacking(name, worker, share, holder if name == "device" else "")
        for name, share in (("device", device), ("cpu", cpu), ("network", network))
        if share < COVERAGE_PERCENT and not (name != "device" and is_busy)
    ]
    return _Proof((*stopped, *lacking), least, busy_until, bool(stopped))


def _describe_lacking(name: str, worker: int, share: int, holder: str) -> str:
    """What is lacking of a signal that is quiet for `share` percent of the time."""
    why = f"; {holder}" if holder else ""
    if not share:
        return f"nothing shows that the {name_signal(name)} of worker {worker} is quiet{why}"
    return (
        f"the {name_signal(name)} of worker {worker} is known to be quiet for {share} % of the"
        f" time; {COVERAGE_PERCENT} % is needed{why}"
    )


def coverage_of(track: SignalTrack | None, start: int, until: int) -> int:
    """Return the share of [start, until) that one signal proves quiet, in whole percent, rounded
    down. An empty span is 100 % covered."""
    if track is None:
        return 0
    if until <= start:
        return 100
    return 100 * track.seconds_at_rest(start, until) // (until - start)


def _coverage_of_missing(
    named_at: int, tracks: Mapping[Kind, SignalTrack], window: tuple[int, int]
) -> int:
    """The share of a window without a duty cycle and with a quiet host, in percent. The time
    before the instance id was known does not count: no duty cycle could be found then."""
    start, until = window
    seen_from = max(start, named_at)
    if until <= start or seen_from >= until:
        return 100 if until <= start else 0
    host = [
        max(
            (
                track.seconds_at_rest(seen_from, until)
                for kind in kinds
                if (track := tracks.get(kind))
            ),
            default=0,
        )
        for kinds in ((Kind.CPU,), NETWORK_KINDS)
    ]
    return 100 * min(host) // (until - start)


def trouble_of(
    evidence: ActivityEvidence, kind: Kind, track: SignalTrack | None, until: int
) -> str:
    """Return why a signal of a worker is unreliable as a proof; empty where it is reliable. A
    metric that the project does not have is no trouble. Reports are read only where they are
    needed: a report that was too old at the newest read has stopped, until a newer report is
    read."""
    if kind not in MONITORED:
        is_old = track is not None and track.end < (evidence.asked_at or 0) - REPORT_AGE
        return "has stopped" if is_old else ""
    family = evidence.families.get(kind, MetricFamily.FAILED)
    if family is MetricFamily.FAILED:
        return "cannot be read"
    is_old = track is not None and track.end < until - STALE_SECONDS
    return "has stopped" if is_old and family is MetricFamily.PRESENT else ""


def _has_never_started(evidence: ActivityEvidence, worker: int) -> bool:
    """Whether the accelerator of a worker never ran: it has no duty cycle, though other workers of
    the project have one (reference/cloud-tpu-api.md section 5). A duty cycle is found by the
    instance id, so the id has to be known. A device that any signal has shown active, or that a
    process has held, was started; only the worker's own report shows that no process held it."""
    is_measured = evidence.families.get(Kind.DUTY_CYCLE) is MetricFamily.PRESENT
    tracks = [evidence.tracks.get((worker, kind)) for kind in DEVICE_KINDS]
    was_used = any(track is not None and track.broken_at is not None for track in tracks)
    is_named = worker in evidence.named
    is_missing = (worker, Kind.DUTY_CYCLE) not in evidence.tracks
    is_reported = (worker, Kind.DEVICE) in evidence.tracks
    return is_measured and is_named and is_reported and is_missing and not was_used


def _list_blockers(evidence: ActivityEvidence, busy_until: int, until: int) -> Iterator[Blocker]:
    if busy_until > until - STALE_SECONDS:
        yield Blocker.HOST_BUSY
    if any(host.sessions for host in evidence.hosts.values()):
        yield Blocker.SESSION
    if evidence.queued_job:
        yield Blocker.QUEUED_JOB


def _find_waste(evidence: ActivityEvidence) -> Waste | None:
    """The kind of waste on a quiet node: a crash loop, or a holder without progress. None without
    either."""
    failures = evidence.job.failures if evidence.job is not None else 0
    if max([failures, 0, *(host.restarts for host in evidence.hosts.values())]) >= CRASHES:
        return Waste.CRASH_LOOP
    runs = any(host.containers and host.holder for host in evidence.hosts.values())
    return Waste.NO_PROGRESS if runs or evidence.job is not None else None
