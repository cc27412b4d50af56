"""Whose reports are read in a tick, and what they change. Pure.

No call reads the reports of several nodes, and Google answers ten queries a minute for each machine
(reference/jobs.md J2, J11). So they are read where they are needed: of nodes that Monitoring does
not cover, of candidates, and of nodes that are about to be ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.domain.clock import HOUR
from service.domain.idle.assess import REPORT_PAUSE, SOON_SECONDS, IdleSubject, IdleTimes
from service.domain.idle.course import State
from service.domain.idle.proof import REPORT_AGE, STALE_SECONDS, Host, Signals
from service.domain.idle.report import WorkerReport, readings_of
from service.domain.idle.signal import Kind, Level, Reading, SignalTrack, read
from service.domain.idle.workers import is_covered
from service.domain.nodes.node import Node

NAMES_PAUSE = 1_800
"""Seconds between two reads of a node of which nothing is needed but the ids of its instances."""

MOST_SOON = 100
"""So many nodes that are about to be ended are read twice a minute, the dearest first."""

MOST_READS = 2_000
"""Reads that one tick begins for a project; each slice of a node is one."""


@dataclass(frozen=True, slots=True)
class ReportRead:
    """What one read of a node brought: the reports by worker, over all slices. It is complete where
    the cloud answered for every slice, and no worker's report is dated in the future."""

    node_id: str
    incarnation: int
    asked_at: int
    workers: Mapping[int, WorkerReport] = field(default_factory=dict)
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class ReportedNodes:
    """The nodes with what their workers report, and the new readings by node."""

    subjects: Sequence[IdleSubject]
    readings: Mapping[str, Sequence[Reading]] = field(default_factory=dict)


def choose_reads(
    subjects: Iterable[IdleSubject], tried: Mapping[str, int], now: int, times: IdleTimes
) -> Sequence[Node]:
    """The nodes whose reports are read now, the most urgent first. `tried` is when each was read
    last, whatever came of it."""
    known = list(subjects)
    soon = _soon(known, now, times)
    due: list[tuple[int, int, str, Node]] = []
    for subject in known:
        node = subject.node
        pause = SOON_SECONDS if node.id in soon else pause_of(subject, now, times)
        last = max(subject.signals.asked_at or 0, tried.get(node.id, 0))
        if pause is not None and now - last >= pause:
            due.append((pause, last, node.id, node))
    chosen, reads = [], 0
    for *_, node in sorted(due, key=lambda one: one[:3]):
        reads += node.spec.slices
        if reads > MOST_READS:
            break
        chosen.append(node)
    return chosen


def pause_of(subject: IdleSubject, now: int, times: IdleTimes) -> int | None:
    """Seconds between two reads of a node that is not about to be ended; None for no read."""
    node = subject.node
    if not node.spec.supervisor:
        return None
    is_seen = is_covered(subject, now - times.telemetry - STALE_SECONDS)
    is_unread = subject.signals.unread_since is not None
    if is_candidate(subject, times) or not is_seen or is_unread or _has_stopped(subject.signals):
        return REPORT_PAUSE
    return NAMES_PAUSE if len(subject.signals.instances) < node.spec.hosts else None


def _has_stopped(signals: Signals) -> bool:
    """Whether the newest read found a report too old: it counts as stopped until a newer one is
    read."""
    asked_at = signals.asked_at or 0
    return any(host.at < asked_at - REPORT_AGE for host in signals.hosts.values())


def is_candidate(subject: IdleSubject, times: IdleTimes) -> bool:
    """Whether a node is at rest for as long as its policy asks, also where something blocks its
    end, or where it was told of and nothing is known of it any more."""
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


def _soon(subjects: Iterable[IdleSubject], now: int, times: IdleTimes) -> frozenset[str]:
    """The nodes that may be ended within two ticks, or told of once a report is new enough."""
    limit = now + 2 * max(times.period, SOON_SECONDS)
    found = [
        one
        for one in subjects
        if one.node.spec.supervisor
        and (_ends_by(one, now, limit) or _waits_for_report(one, now - times.telemetry))
    ]
    found.sort(key=lambda one: (-(one.hourly or 0), one.node.id))
    return frozenset(one.node.id for one in found[:MOST_SOON])


def _ends_by(subject: IdleSubject, now: int, limit: int) -> bool:
    watched, keep = subject.watched, subject.keep
    if watched is None or watched.due_at is None or watched.due_at > limit:
        return False
    is_quiet = watched.verdict is not None and watched.verdict.level is Level.QUIET
    is_kept = keep is not None and keep.holds(now)
    return is_quiet and not is_kept and watched.course.incarnation == subject.node.attempt


def _waits_for_report(subject: IdleSubject, until: int) -> bool:
    """Whether a node is idle for long enough by now, but its newest report reaches less far."""
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
    """The nodes after reads; an answer of an earlier incarnation changes nothing."""
    by_node = {answer.node_id: answer for answer in sorted(answers, key=_by_time)}
    readings: dict[str, Sequence[Reading]] = {}
    after = []
    for subject in subjects:
        answer = by_node.get(subject.node.id)
        if answer is None or answer.incarnation != subject.node.attempt:
            after.append(subject)
            continue
        oldest = now - subject.applied.rule.idle_after_seconds - times.telemetry - HOUR
        signals, readings[subject.node.id] = _with_answer(subject, answer, oldest, now)
        after.append(replace(subject, signals=signals))
    return ReportedNodes(_without_contested(subjects, after) if readings else after, readings)


def _by_time(answer: ReportRead) -> int:
    return answer.asked_at


def _with_answer(
    subject: IdleSubject, answer: ReportRead, oldest: int, now: int
) -> tuple[Signals, Sequence[Reading]]:
    """The signals of a node after one answer, and the readings in it."""
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
        activity = report.activity
        if activity is None or not _is_newer(activity.host, hosts.get(worker)):
            continue
        hosts[worker] = activity.host
        for reading in readings_of(worker, activity):
            key = worker, reading.kind
            tracks[key] = read(tracks.get(key), reading, oldest)
            readings.append(reading)
    asked_at = answer.asked_at if answer.is_complete else before.asked_at
    failing_since = before.unread_since if before.unread_since is not None else answer.asked_at
    unread_since = None if answer.is_complete else failing_since
    return Signals(tracks, hosts, asked_at, instances, named_at, unread_since), readings


def _is_newer(host: Host, before: Host | None) -> bool:
    """Whether a report is not older than the one that is known: of the boot before, it may be."""
    return before is None or host.at >= before.at


def _without_contested(
    before: Sequence[IdleSubject], after: Sequence[IdleSubject]
) -> list[IdleSubject]:
    """The nodes without new ids of instances that another worker has as well: whoever named it
    first keeps it, and of two at once neither has it. A worker cannot take another's metrics."""
    known = {
        instance: (one.node.id, worker)
        for one in before
        for worker, instance in one.signals.instances.items()
    }
    claimed = Counter(instance for one in after for instance in one.signals.instances.values())

    def is_fine(node_id: str, worker: int, instance: str) -> bool:
        return claimed[instance] == 1 or known.get(instance) == (node_id, worker)

    found = []
    for subject in after:
        named = subject.signals.instances
        fine = {
            worker: one for worker, one in named.items() if is_fine(subject.node.id, worker, one)
        }
        is_changed = len(fine) < len(named)
        signals = replace(subject.signals, instances=fine) if is_changed else subject.signals
        found.append(replace(subject, signals=signals) if is_changed else subject)
    return found
