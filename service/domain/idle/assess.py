"""One look at one node: what is known of it, what that proves, and how far it has come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import CourseChange, IdleCourse, State, advance, due_at
from service.domain.idle.policy import Action, AppliedRule, with_waste
from service.domain.idle.proof import (
    REPORT_AGE,
    ActivityEvidence,
    IdleVerdict,
    JobActivity,
    MetricFamily,
    Signals,
    judge,
    shown_at_work,
)
from service.domain.idle.signal import Kind, Level, SignalTrack
from service.domain.lifecycle.precedence import Holder
from service.domain.nodes.keep import Keep
from service.domain.nodes.node import Node

UNTOLD = "nobody can be notified that it is idle; it stays until the policy names recipients"

REPORT_PAUSE = 300
"""Least seconds between two reads of a node that is a candidate, or that Monitoring does not cover.
"""

SOON_SECONDS = 30
"""Least seconds between two reads of a node that is about to be ended: two a minute at most."""

WARMUP_SECONDS = 1_800
"""From READY on: no idleness counts so soon, where the settings say nothing else."""


@dataclass(frozen=True, slots=True)
class IdleTimes:
    """The settings that are times, in seconds."""

    warmup: int = WARMUP_SECONDS
    telemetry: int = 240
    start: int = 900
    period: int = 60

    @property
    def least(self) -> int:
        """The shortest idle time that signals can prove: the seconds that are ignored, and one
        look."""
        return self.telemetry + self.period

    @property
    def fresh(self) -> int:
        """How old the newest read of Monitoring may be where nothing else shows a node that is
        ended: two periods, as what a look reads is there at the next one."""
        return 2 * max(self.period, SOON_SECONDS)


SHIPPED_TIMES = IdleTimes()

LEAST_IDLE = SHIPPED_TIMES.least
"""The shortest idle time that signals can prove where no setting says otherwise."""


@dataclass(frozen=True, slots=True)
class IdleSubject:
    """A READY node as a look finds it. `hourly` is in nano-dollars, None where no price is known;
    `can_tell` whether anybody can be told of it; `is_untried` whether a message of the newest
    notice still waits for its first try."""

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

    def measured(self, tracks: Mapping[tuple[int, Kind], SignalTrack]) -> IdleSubject:
        """The node with newer tracks."""
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
    """A node after a look: its course with the verdict, what is to be told, whether its time is
    over, and what holds its end back all the same. `is_fresh` says whether its reports, where it
    has any, were read within one period: nothing ends before."""

    subject: IdleSubject
    watched: WatchedNode
    verdict: IdleVerdict
    moved: CourseChange
    held_by: tuple[Holder, ...] = ()
    is_told: bool = True
    is_fresh: bool = True

    @property
    def is_due(self) -> bool:
        """Whether it would be stopped or deleted now, if no rail held it."""
        return self.moved.is_due and not self.held_by and self.is_told

    @property
    def is_news(self) -> bool:
        """Whether anything was decided anew, rather than measured once more."""
        before, after = self.subject.watched, self.watched
        if before is None or before.due_at != after.due_at:
            return True
        if before.course is not after.course and before.course != after.course:
            return True
        is_same = _told_by(before.verdict) == _told_by(after.verdict)
        return not is_same or before.signals.instances != after.signals.instances

    @property
    def is_idle(self) -> bool:
        """Whether it is proved to be idle, for as long as its policy asks."""
        return self.moved.course.state in (State.CANDIDATE, State.NOTIFIED)


def _told_by(verdict: IdleVerdict | None) -> tuple[object, ...]:
    """What a verdict says, without how well that is covered: this changes with each look."""
    if verdict is None:
        return ()
    return verdict.level, verdict.since, verdict.blockers, verdict.waste


def counts_from(node: Node, times: IdleTimes) -> int:
    """When idleness begins to count: the warm-up after it became READY, the last time it did."""
    ready_since = max(node.state_since, node.up_since or 0)
    return ready_since + times.warmup


def signals_of(node: Node, watched: WatchedNode | None) -> Signals:
    """What was measured of this incarnation; of an earlier one nothing counts."""
    if watched is None or watched.course.incarnation != node.attempt:
        return Signals()
    return watched.signals


def evidence_of(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], times: IdleTimes
) -> ActivityEvidence:
    """All that is known of the activity of a node."""
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
        report_seconds=report_age(times),
        heartbeat_until=subject.heartbeat_until,
        job=subject.job,
        queued_job=subject.queued_job,
    )


def assess(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], now: int, times: IdleTimes
) -> AssessedNode:
    """The node after a look at `now`."""
    node = subject.node
    verdict = verdict_on(subject, families, now, times)
    if verdict.waste is not None:
        subject = replace(subject, applied=with_waste(subject.applied, verdict.waste))
    is_told = subject.applied.is_own or subject.can_tell
    course = _course_of(subject, now)
    moved = advance(
        course,
        verdict,
        subject.applied,
        now,
        times.telemetry,
        is_warm=now >= counts_from(node, times),
        is_told=is_told,
        is_kept=is_kept(subject, now) or _was_kept_unseen(subject, course, now),
    )
    watched = WatchedNode(
        course=moved.course,
        project=node.spec.project,
        signals=subject.signals,
        verdict=verdict,
        judged_at=now,
        due_at=due_at(moved.course, subject.applied),
    )
    held_by = tuple(holders(subject, verdict, now))
    is_fresh = has_fresh_reports(subject, now, times.period)
    return AssessedNode(subject, watched, verdict, moved, held_by, is_told, is_fresh)


def verdict_on(
    subject: IdleSubject, families: Mapping[Kind, MetricFamily], now: int, times: IdleTimes
) -> IdleVerdict:
    """What is proved of the activity of a node at `now`."""
    if subject.job is None and not subject.heartbeat_until:
        at_work = shown_at_work(subject.signals.tracks, now - times.telemetry)
        if at_work is not None:
            return at_work
    evidence = evidence_of(subject, families, times)
    return judge(evidence, subject.applied.rule.idle_after_seconds, now, times.telemetry)


def report_age(times: IdleTimes) -> int:
    """How old the newest report of a node may be that is read every five minutes: that long after
    it was written, its successor has been taken."""
    return REPORT_PAUSE + REPORT_AGE + 2 * times.period


def has_fresh_reports(subject: IdleSubject, now: int, period: int) -> bool:
    """Whether the reports of a node were read within one period, and each was a new one. Of workers
    that never reported, that has to be what the read showed."""
    signals = subject.signals
    if not subject.node.spec.supervisor:
        return True
    if signals.asked_at is None or now - signals.asked_at > max(period, SOON_SECONDS):
        return False
    return all(host.at >= signals.asked_at - REPORT_AGE for host in signals.hosts.values())


def _course_of(subject: IdleSubject, now: int) -> IdleCourse:
    """The course so far; a new one for an incarnation that was not checked yet."""
    node, watched = subject.node, subject.watched
    if watched is not None and watched.course.incarnation == node.attempt:
        return watched.course
    version = 0 if watched is None else watched.course.version
    return IdleCourse(node.id, node.attempt, State.WARMING, now, version=version)


def is_kept(subject: IdleSubject, now: int) -> bool:
    """Whether somebody keeps the node now."""
    return subject.keep is not None and subject.keep.holds(now)


def _was_kept_unseen(subject: IdleSubject, course: IdleCourse, now: int) -> bool:
    """Whether a keep came and went after the notice and nobody looked meanwhile: that notice counts
    no more, as if the keep had been seen."""
    until = None if subject.keep is None else subject.keep.until
    if until is None or course.notified_at is None or course.told is None:
        return False
    return course.notified_at < until <= now


def holders(subject: IdleSubject, verdict: IdleVerdict, now: int) -> list[Holder]:
    """What keeps an idle node from its end; see `service.domain.lifecycle.precedence`."""
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


def limits(subject: IdleSubject) -> tuple[str, ...]:
    """Why less is done to a node, once it is idle, than its policy says."""
    applied = subject.applied
    is_untold = not applied.is_own and not subject.can_tell
    if applied.action.rank >= Action.STOP.rank and is_untold:
        return (*applied.limits, UNTOLD)
    return applied.limits


def begun(assessed: AssessedNode, now: int, *, is_deletion: bool) -> WatchedNode:
    """The course once its end was asked for. A node that is stopped begins anew when it is started
    again."""
    state = State.DELETING if is_deletion else State.WARMING
    course = assessed.watched.course
    fresh = IdleCourse(course.node_id, course.incarnation, state, now, version=course.version)
    kept = replace(course, state=state, since=now) if is_deletion else fresh
    return replace(assessed.watched, course=kept, due_at=None)
