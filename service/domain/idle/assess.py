"""The assessment of one node: its evidence, the verdict, and its course. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import CourseChange, IdleCourse, State, advance_course, due_at
from service.domain.idle.policy import Action, AppliedRule, with_waste
from service.domain.idle.proof import (
    REPORT_AGE,
    ActivityEvidence,
    IdleVerdict,
    JobActivity,
    MetricFamily,
    Signals,
    judge_evidence,
    shown_at_work,
)
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.lifecycle.precedence import Holder
from service.domain.nodes.keep import Keep
from service.domain.nodes.node import Node

UNTOLD = "nobody can be notified that it is idle; it stays until the policy names recipients"

REPORT_PAUSE = 300
"""Least seconds between two reads of a candidate, or of a node that Monitoring does not cover."""

SOON_SECONDS = 30
"""Least seconds between two reads of a node that is about to end: at most two reads a minute."""

WARMUP_SECONDS = 1_800
"""Seconds after READY in which idleness does not count; the default of the setting."""


@dataclass(frozen=True, slots=True)
class IdleTimes:
    """The settings that are times, in seconds."""

    warmup: int = WARMUP_SECONDS
    telemetry: int = 240
    start: int = 900
    period: int = 60

    @property
    def least_idle(self) -> int:
        """The shortest idle time that signals can prove: the ignored newest seconds, and one
        period."""
        return self.telemetry + self.period

    @property
    def max_read_age(self) -> int:
        """The largest age of the newest read of Monitoring before an end. Two periods, as the
        result of a read is used in the next period."""
        return 2 * max(self.period, SOON_SECONDS)


SHIPPED_TIMES = IdleTimes()

LEAST_IDLE = SHIPPED_TIMES.least_idle
"""The shortest idle time that signals can prove with the default settings."""


@dataclass(frozen=True, slots=True)
class IdleSubject:
    """A READY node before its assessment. `hourly` is in nano-dollars, None where the price is
    unknown; `can_tell` says whether the node has recipients; `is_untried` whether a message of the
    newest notice still waits for its first attempt."""

    node: Node
    applied: AppliedRule
    watched: WatchedNode | None = None
    signals: Signals = field(default_factory=Signals)
    keep: Keep | None = None
    heartbeat_until: int = 0
    job: JobActivity | None = None
    queued_job: str = ""
    hourly: int | None = None
    can_tell: bool = True
    is_untried: bool = False

    def with_tracks(self, tracks: Mapping[tuple[int, Kind], SignalTrack]) -> IdleSubject:
        """Return the node with newer tracks."""
        known = self.signals
        signals = Signals(
            tracks, known.hosts, known.asked_at, known.instances, known.named_at, known.unread_since
        )
        return IdleSubject(  # `replace` takes three times as long
            self.node,
            self.applied,
            self.watched,
            signals,
            self.keep,
            self.heartbeat_until,
            self.job,
            self.queued_job,
            self.hourly,
            self.can_tell,
            self.is_untried,
        )


@dataclass(frozen=True, slots=True)
class AssessedNode:
    """A node after its assessment: its course with the verdict, the notice to send, whether its end
    is due, and what holds the end back. `is_fresh` says whether its reports, if any, were read
    within one period: no node ends without fresh reports."""

    subject: IdleSubject
    watched: WatchedNode
    verdict: IdleVerdict
    moved: CourseChange
    held_by: tuple[Holder, ...] = ()
    is_told: bool = True
    is_fresh: bool = True

    @property
    def is_due(self) -> bool:
        """Whether the node would be stopped or deleted now, if no rail held."""
        return self.moved.is_due and not self.held_by and self.is_told

    @property
    def is_news(self) -> bool:
        """Whether a decision changed. A new measurement alone is not news."""
        before, after = self.subject.watched, self.watched
        if before is None or before.due_at != after.due_at:
            return True
        if before.course is not after.course and before.course != after.course:
            return True
        is_same = _decided_parts(before.verdict) == _decided_parts(after.verdict)
        return not is_same or before.signals.instances != after.signals.instances

    @property
    def is_idle(self) -> bool:
        """Whether the node is proved idle for the idle time of its policy."""
        return self.moved.course.state in (State.CANDIDATE, State.NOTIFIED)


def _decided_parts(verdict: IdleVerdict | None) -> tuple[object, ...]:
    """The parts of a verdict that matter for a decision. The coverage changes each time."""
    if verdict is None:
        return ()
    return verdict.level, verdict.since, verdict.blockers, verdict.waste


def counts_from(node: Node, times: IdleTimes) -> int:
    """Return the instant from which an assessment counts idleness: the end of the warm-up after the
    latest READY."""
    ready_since = max(node.state_since, node.up_since or 0)
    return ready_since + times.warmup


def signals_of(node: Node, watched: WatchedNode | None) -> Signals:
    """Return the signals that an assessment counts, of the node's present incarnation. Those of an
    earlier incarnation are left out."""
    if watched is None or watched.course.incarnation != node.attempt:
        return Signals()
    return watched.signals


def evidence_of(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], times: IdleTimes
) -> ActivityEvidence:
    """Return all evidence for the assessment of the activity of a node."""
    node, signals = subject.node, subject.signals
    return ActivityEvidence(
        workers=node.spec.hosts,
        counts_from=counts_from(node, times),
        tracks=signals.tracks,
        families=families,
        hosts=signals.hosts,
        asked_at=signals.asked_at,
        named={
            worker: at for worker, at in signals.named_at.items() if worker in signals.instances
        },
        unread_since=signals.unread_since,
        report_seconds=max_report_age(times),
        heartbeat_until=subject.heartbeat_until,
        job=subject.job,
        queued_job=subject.queued_job,
    )


def assess_node(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], now: int, times: IdleTimes
) -> AssessedNode:
    """Return the node after its assessment at `now`."""
    node = subject.node
    verdict = verdict_on(subject, families, now, times)
    if verdict.waste is not None:
        subject = replace(subject, applied=with_waste(subject.applied, verdict.waste))
    is_told = subject.applied.is_own or subject.can_tell
    course = _find_course(subject, now)
    # A keep may have begun and ended after the notice without an assessment in between. The notice
    # then does not count, as if the keep had been seen.
    noticed = None if course.told is None else course.notified_at
    kept_until = None if subject.keep is None else subject.keep.until
    was_kept = noticed is not None and kept_until is not None and noticed < kept_until <= now
    moved = advance_course(
        course,
        verdict,
        subject.applied,
        now,
        times.telemetry,
        is_warm=now >= counts_from(node, times),
        is_told=is_told,
        is_kept=is_kept(subject, now) or was_kept,
    )
    watched = WatchedNode(
        course=moved.course,
        project=node.spec.project,
        signals=subject.signals,
        verdict=verdict,
        judged_at=now,
        due_at=due_at(moved.course, subject.applied),
    )
    held_by = tuple(list_holders(subject, verdict, now))
    is_fresh = has_fresh_reports(subject, now, times.period)
    return AssessedNode(subject, watched, verdict, moved, held_by, is_told, is_fresh)


def keep_last_verdict(assessed: AssessedNode) -> AssessedNode:
    """Return the node with the verdict and the course of its last assessment, if it is unknown now
    only because nothing was read yet. Its end is not due then, and `judged_at` stays as it was.

    A daemon that has just begun reads every metric again. Until then the stored signals grow old:
    as losses they would open the breaker and send an alarm after each restart. What fresh reports
    show is no missing read.
    """
    before, node = assessed.subject.watched, assessed.subject.node
    if before is None or before.verdict is None or before.course.incarnation != node.attempt:
        return assessed
    was_known = before.verdict.level is not Level.UNKNOWN and before.judged_at >= node.state_since
    is_unread = assessed.verdict.level is Level.UNKNOWN and not assessed.verdict.is_seen
    if not is_unread or not was_known:
        return assessed
    return replace(
        assessed,
        watched=replace(before, signals=assessed.watched.signals),
        verdict=before.verdict,
        moved=CourseChange(before.course),
    )


def verdict_on(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], now: int, times: IdleTimes
) -> IdleVerdict:
    """Return the verdict of an assessment on the activity of a node at `now`."""
    if subject.job is None and not subject.heartbeat_until:
        at_work = shown_at_work(subject.signals.tracks, now - times.telemetry)
        if at_work is not None:
            return at_work
    evidence = evidence_of(subject, families, times)
    return judge_evidence(evidence, subject.applied.rule.idle_after_seconds, now, times.telemetry)


def max_report_age(times: IdleTimes) -> int:
    """Return the largest age that the newest report of a node may have at its assessment. The node
    is read every five minutes, and the next report has been read by then."""
    return REPORT_PAUSE + REPORT_AGE + 2 * times.period


def has_fresh_reports(subject: IdleSubject, now: int, period: int) -> bool:
    """Whether the reports for an assessment were read within one period, and none was too old.
    Workers that never reported have no report to check."""
    signals = subject.signals
    if not subject.node.spec.supervisor:
        return True
    if signals.asked_at is None or now - signals.asked_at > max(period, SOON_SECONDS):
        return False
    return all(host.at >= signals.asked_at - REPORT_AGE for host in signals.hosts.values())


def _find_course(subject: IdleSubject, now: int) -> IdleCourse:
    """The course so far; a new course for a new incarnation."""
    node, watched = subject.node, subject.watched
    if watched is not None and watched.course.incarnation == node.attempt:
        return watched.course
    version = 0 if watched is None else watched.course.version
    return IdleCourse(node.id, node.attempt, State.WARMING, now, version=version)


def is_kept(subject: IdleSubject, now: int) -> bool:
    """Whether a keep holds the node at its assessment."""
    return subject.keep is not None and subject.keep.is_active(now)


def list_holders(subject: IdleSubject, verdict: IdleVerdict, now: int) -> list[Holder]:
    """Return the holders that keep an assessed node from its end. They are those of
    `service.domain.lifecycle.precedence`."""
    is_wasteful = verdict.waste is not None and verdict.waste in subject.applied.rule.also
    is_untold = not subject.can_tell and subject.applied.action.rank >= Action.STOP.rank
    found = []
    if is_kept(subject, now):
        found.append(Holder.KEEP)
    if verdict.level is Level.UNKNOWN:
        found.append(Holder.UNKNOWN)
    if subject.job is not None and not is_wasteful:
        found.append(Holder.BUSY_JOB)
    if (subject.is_untried or is_untold) and not subject.applied.is_own:
        found.append(Holder.NOTICE)
    return found


def list_limits(subject: IdleSubject) -> tuple[str, ...]:
    """Return the reasons why the action on an assessed node is weaker than its policy's."""
    applied = subject.applied
    is_untold = not applied.is_own and not subject.can_tell
    if applied.action.rank >= Action.STOP.rank and is_untold:
        return (*applied.limits, UNTOLD)
    return applied.limits


def with_begun_end(assessed: AssessedNode, now: int, *, is_deletion: bool) -> WatchedNode:
    """Return an assessed node after its end was requested. A stopped node begins a new course, for
    its next start."""
    course = assessed.watched.course
    if is_deletion:
        course = replace(course, state=State.DELETING, since=now)
    else:
        course = IdleCourse(
            course.node_id, course.incarnation, State.WARMING, now, version=course.version
        )
    return replace(assessed.watched, course=course, due_at=None)
