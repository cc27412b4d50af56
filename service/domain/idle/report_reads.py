"""The nodes whose reports are read in a tick, and the changes by these reports. Pure.

No call reads the reports of several nodes, and Google answers ten queries a minute for each machine
(reference/jobs.md J2, J11). So reports are read only where they are needed: of nodes that
Monitoring does not cover, of candidates, and of nodes that are about to end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.domain.clock import HOUR
from service.domain.idle.assess import REPORT_PAUSE, SOON_SECONDS, IdleSubject, IdleTimes
from service.domain.idle.course import State
from service.domain.idle.proof import REPORT_AGE, STALE_SECONDS, Host, Signals, shown_at_work
from service.domain.idle.signals.signal import Kind, Level, Reading, SignalTrack, with_reading
from service.domain.idle.worker_report import WorkerReport, readings_of
from service.domain.idle.workers import is_covered
from service.domain.nodes.node import Node

NAMES_PAUSE = 1_800
"""Seconds between two reads of a node of which only the instance ids are needed."""

MOST_SOON = 100
"""The number of nodes about to end that are read twice a minute, the most expensive first."""

MOST_READS = 2_000
"""Reads that one tick begins for a project; each slice of a node is one read."""


@dataclass(frozen=True, slots=True)
class ReportRead:
    """The result of one read of a node: the reports by worker, over all slices. The read is
    complete if the cloud answered for every slice, and no report is dated in the future."""

    node_id: str
    incarnation: int
    asked_at: int
    workers: Mapping[int, WorkerReport] = field(default_factory=dict)
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class ReportedNodes:
    """The nodes with their workers' reports, and the new readings by node."""

    subjects: Sequence[IdleSubject]
    readings: Mapping[str, Sequence[Reading]] = field(default_factory=dict)


def choose_reads(
    subjects: Iterable[IdleSubject], tried: Mapping[str, int], now: int, times: IdleTimes
) -> Sequence[Node]:
    """Return the nodes whose reports are read now, the most urgent first. `tried` is the last read
    of each, successful or not."""
    known = list(subjects)
    limit = now + 2 * max(times.period, SOON_SECONDS)
    urgent = [  # nodes that may end within two ticks, or get a notice after a new report
        subject
        for subject in known
        if subject.node.spec.supervisor
        and (_ends_by(subject, now, limit) or _waits_for_report(subject, now - times.telemetry))
    ]
    urgent.sort(key=lambda subject: (-(subject.hourly or 0), subject.node.id))
    soon = {subject.node.id for subject in urgent[:MOST_SOON]}
    due: list[tuple[int, int, str, Node]] = []
    for subject in known:
        node = subject.node
        pause = SOON_SECONDS if node.id in soon else pause_of(subject, now, times)
        last = max(subject.signals.asked_at or 0, tried.get(node.id, 0))
        if pause is not None and now - last >= pause:
            due.append((pause, last, node.id, node))
    chosen, reads = [], 0
    for *_, node in sorted(due, key=lambda entry: entry[:3]):
        reads += node.spec.slices
        if reads > MOST_READS:
            break
        chosen.append(node)
    return chosen


def pause_of(subject: IdleSubject, now: int, times: IdleTimes) -> int | None:
    """Return the seconds between two reads of the reports of a node; None for no read. A node that
    is about to end is read more often, which is not decided here."""
    node, signals = subject.node, subject.signals
    if not node.spec.supervisor:
        return None
    is_seen = is_covered(subject, now - times.telemetry - STALE_SECONDS)
    is_unread = signals.unread_since is not None
    # A report that was too old at the newest read counts as stopped until a newer one is read.
    oldest = (signals.asked_at or 0) - REPORT_AGE
    has_stopped = any(host.at < oldest for host in signals.hosts.values())
    # A job runs, and Monitoring shows no work of its devices: only reports show whether a process
    # holds them.
    may_lack_device = (
        subject.job is not None
        and not subject.job.is_preparing
        and shown_at_work(signals.tracks, now - times.telemetry) is None
    )
    is_suspect = is_candidate(subject, times) or may_lack_device
    if is_suspect or not is_seen or is_unread or has_stopped:
        return REPORT_PAUSE
    return NAMES_PAUSE if len(signals.instances) < node.spec.hosts else None


def is_candidate(subject: IdleSubject, times: IdleTimes) -> bool:
    """Whether a node is a candidate, so that its reports are read. It is quiet for the idle time
    of its policy, also if its end is blocked. A node with a notice stays a candidate while its
    activity is unknown."""
    watched = subject.watched
    if watched is None or watched.course.incarnation != subject.node.attempt:
        return False
    course, verdict = watched.course, watched.verdict
    if course.notified_at is not None or course.state is State.CANDIDATE:
        return True
    if verdict is None or verdict.since is None:
        return False
    rest = watched.judged_at - times.telemetry - verdict.since
    return rest >= subject.applied.rule.idle_after_seconds


def _ends_by(subject: IdleSubject, now: int, limit: int) -> bool:
    watched, keep = subject.watched, subject.keep
    if watched is None or watched.due_at is None or watched.due_at > limit:
        return False
    is_quiet = watched.verdict is not None and watched.verdict.level is Level.QUIET
    is_kept = keep is not None and keep.is_active(now)
    return is_quiet and not is_kept and watched.course.incarnation == subject.node.attempt


def _waits_for_report(subject: IdleSubject, until: int) -> bool:
    """Whether a node is idle for long enough, but its newest report ends too early to prove it."""
    watched = subject.watched
    if watched is None or watched.verdict is None or watched.course.state is not State.QUIET:
        return False
    since, is_free = watched.verdict.proved_since, not watched.verdict.blockers
    is_mine = watched.course.incarnation == subject.node.attempt
    is_over = since is not None and until - since >= subject.applied.rule.idle_after_seconds
    return is_mine and is_free and is_over


def with_answers(
    subjects: Sequence[IdleSubject], answers: Iterable[ReportRead], now: int, times: IdleTimes
) -> ReportedNodes:
    """Return the nodes with the reports that were read. An answer of an earlier incarnation changes
    nothing."""
    by_node = {
        answer.node_id: answer for answer in sorted(answers, key=lambda answer: answer.asked_at)
    }
    readings: dict[str, Sequence[Reading]] = {}
    after = []
    for subject in subjects:
        answer = by_node.get(subject.node.id)
        if answer is None or answer.incarnation != subject.node.attempt:
            after.append(subject)
            continue
        oldest = now - subject.applied.rule.idle_after_seconds - times.telemetry - HOUR
        signals, readings[subject.node.id] = _apply_answer(subject, answer, oldest, now)
        after.append(replace(subject, signals=signals))
    return ReportedNodes(_drop_contested_ids(subjects, after) if readings else after, readings)


def _apply_answer(
    subject: IdleSubject, answer: ReportRead, oldest: int, now: int
) -> tuple[Signals, Sequence[Reading]]:
    """The signals of a node after one answer, and the readings of the answer."""
    before = subject.signals
    hosts, instances, named_at = dict(before.hosts), dict(before.instances), dict(before.named_at)
    tracks: dict[tuple[int, Kind], SignalTrack] = dict(before.tracks)
    readings: list[Reading] = []
    for worker, report in answer.workers.items():
        if worker >= subject.node.spec.hosts:
            continue
        if report.instance:
            is_known = before.instances.get(worker) == report.instance
            named_at[worker] = named_at.get(worker, now) if is_known else now
            instances[worker] = report.instance
        activity, known = report.activity, hosts.get(worker)
        if activity is None or (known is not None and activity.host.at < known.at):
            continue  # an older report may be of the previous boot
        hosts[worker] = host = _follow_holder(known, activity.host)
        is_held_on = host.held_since is not None and host.held_since < host.at
        for reading in readings_of(worker, activity, is_held_on=is_held_on):
            key = worker, reading.kind
            tracks[key] = with_reading(tracks.get(key), reading, oldest)
            readings.append(reading)
    asked_at = answer.asked_at if answer.is_complete else before.asked_at
    failing_since = before.unread_since if before.unread_since is not None else answer.asked_at
    unread_since = None if answer.is_complete else failing_since
    return Signals(tracks, hosts, asked_at, instances, named_at, unread_since), readings


def _follow_holder(before: Host | None, host: Host) -> Host:
    """The worker with the instant since which reports show its holder. Another holder or boot
    begins at the end of its first report."""
    if not host.holder:
        return host
    is_known = before is not None and (before.holder, before.boot) == (host.holder, host.boot)
    if before is None or not is_known:
        return replace(host, held_since=host.at)
    return replace(host, held_since=before.at if before.held_since is None else before.held_since)


def _drop_contested_ids(
    before: Sequence[IdleSubject], after: Sequence[IdleSubject]
) -> list[IdleSubject]:
    """The nodes without new instance ids that several workers report. The worker that reported an
    id first keeps it, and of two at once neither gets it. So no worker can take the metrics of
    another."""
    known = {
        instance: (subject.node.id, worker)
        for subject in before
        for worker, instance in subject.signals.instances.items()
    }
    claimed = Counter(
        instance for subject in after for instance in subject.signals.instances.values()
    )
    found = []
    for subject in after:
        named = subject.signals.instances
        kept = {
            worker: instance
            for worker, instance in named.items()
            if claimed[instance] == 1 or known.get(instance) == (subject.node.id, worker)
        }
        is_changed = len(kept) < len(named)
        signals = replace(subject.signals, instances=kept) if is_changed else subject.signals
        found.append(replace(subject, signals=signals) if is_changed else subject)
    return found
