"""The course of one node from work to its deletion for idleness. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.clock import DAY, HOUR
from service.domain.idle.policy import Action, AppliedRule, with_waste
from service.domain.idle.proof import Blocker, IdleVerdict
from service.domain.idle.signals.signal import Level

BLIND_SECONDS = 2 * HOUR
"""Seconds without proof after which the owner is told the cost of the node, once a day."""


class State(StrEnum):
    """Where a node is on its course. UNKNOWN freezes the others: no time counts meanwhile."""

    WARMING = "WARMING"
    ACTIVE = "ACTIVE"
    QUIET = "QUIET"
    CANDIDATE = "CANDIDATE"
    NOTIFIED = "NOTIFIED"
    DELETING = "DELETING"
    UNKNOWN = "UNKNOWN"


class Notice(StrEnum):
    """What the recipients are told."""

    IDLE = "idle"
    BLIND = "blind"


@dataclass(frozen=True, slots=True)
class IdleCourse:
    """The course of one incarnation of a node. Instants are whole UTC seconds.

    `since` is when the present state began. `told` is the action that the newest message announced,
    at `notified_at`; OBSERVE for a message without recipients. `promised_at` is the announced time
    of the action, which a policy that is shortened later does not change. While UNKNOWN,
    `frozen_at` is when that state began; `frozen_seconds` is the frozen time since the
    notification, which the grace does not count.
    """

    node_id: str
    incarnation: int
    state: State
    since: int
    notified_at: int | None = None
    told: Action | None = None
    frozen_at: int | None = None
    frozen_seconds: int = 0
    blind_told_at: int | None = None
    promised_at: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class CourseChange:
    """The course after one assessment, the notice to send, and whether the end is due. A due node
    is stopped or deleted if the rails allow it."""

    course: IdleCourse
    tell: Notice | None = None
    is_due: bool = False


def advance_course(  # noqa: PLR0913 - one look: the course, and all that was found
    before: IdleCourse,
    verdict: IdleVerdict,
    applied: AppliedRule,
    now: int,
    delay: int,
    *,
    is_warm: bool,
    is_told: bool = True,
    is_kept: bool = False,
) -> CourseChange:
    """Return the course of a node to its deletion after one more verdict. `is_told` says whether a
    message counts as a notice now. A kept node gets no notice, and an earlier notice no longer
    counts: after the keep recipients get a new notice with the whole grace."""
    if before.state is State.DELETING:
        return CourseChange(before)
    applied = with_waste(applied, verdict.waste)
    if is_kept:
        before = _without_notice(before)
    if verdict.level is Level.ACTIVE or not is_warm:
        state = State.ACTIVE if verdict.level is Level.ACTIVE else State.WARMING
        return CourseChange(_restart_in(before, state, now))
    if verdict.level is Level.UNKNOWN:
        frozen_at = before.frozen_at if before.frozen_at is not None else now
        told_at = before.blind_told_at
        is_long = now - frozen_at >= BLIND_SECONDS and (told_at is None or now - told_at >= DAY)
        tells = is_long and applied.action.rank >= Action.NOTIFY.rank
        course = replace(before, frozen_at=frozen_at, blind_told_at=now if tells else told_at)
        frozen = _in_state(course, State.UNKNOWN, now)
        return CourseChange(frozen, Notice.BLIND if tells else None)
    course = before
    if before.frozen_at is not None:  # the signals are known again
        seconds = before.frozen_seconds
        seconds += now - before.frozen_at if before.notified_at is not None else 0
        course = replace(before, frozen_at=None, frozen_seconds=seconds, blind_told_at=None)
    until = verdict.until if verdict.until is not None else now - delay
    if not is_idle(verdict, applied, until):
        return CourseChange(_restart_in(course, State.QUIET, now))
    # A notice is of one rest. Work after the notice, also between two assessments, ends that rest.
    rest_since, notified_at = _rest_since(verdict), course.notified_at
    if notified_at is not None and rest_since is not None and rest_since > notified_at:
        course = _restart_in(course, State.QUIET, now)
    return _advance_idle(course, applied, now, is_told=is_told, is_kept=is_kept)


def _advance_idle(
    course: IdleCourse, applied: AppliedRule, now: int, *, is_told: bool, is_kept: bool
) -> CourseChange:
    """The course of a node that is proved idle. An earlier message does not count if it announced a
    weaker action, had no recipients, or if the policy took its action back: recipients get a new
    notice with the whole grace."""
    if is_kept:
        return CourseChange(_in_state(course, State.CANDIDATE, now))
    if applied.action is Action.OBSERVE:
        return CourseChange(_in_state(_without_notice(course), State.CANDIDATE, now))
    does_end = applied.action.rank >= Action.STOP.rank
    announced = applied.action if is_told else Action.OBSERVE
    if course.told is not None and not does_end:
        course = replace(course, told=course.told.limited_to(applied.action))
    if course.told is None or course.told.rank < announced.rank:
        told = replace(
            course,
            notified_at=now,
            told=announced,
            frozen_seconds=0,
            promised_at=now + applied.rule.grace_seconds,
        )
        return CourseChange(_in_state(told, State.NOTIFIED, now), Notice.IDLE)
    course = _in_state(course, State.NOTIFIED, now)
    at = due_at(course, applied)
    return CourseChange(course, is_due=at is not None and now >= at)


def is_idle(verdict: IdleVerdict, applied: AppliedRule, until: int) -> bool:
    """Whether the course of a node has led to idleness: rest for long enough, and no blocker. In a
    crash loop recipients are told, and the policy says whether the node ends."""
    since = _rest_since(verdict)
    return (
        not _blockers_of(verdict)
        and since is not None
        and until - since >= applied.rule.idle_after_seconds
    )


def idle_at(
    course: IdleCourse, verdict: IdleVerdict | None, applied: AppliedRule, judged_at: int
) -> int | None:
    """Return when the course of a QUIET node reaches idleness, if the node stays quiet. The
    newest seconds did not count at `judged_at`, and will not count then. None in other states, and
    while something blocks the deletion."""
    if course.state is not State.QUIET or verdict is None or verdict.until is None:
        return None
    since = _rest_since(verdict)
    if _blockers_of(verdict) or since is None:
        return None
    return since + applied.rule.idle_after_seconds + judged_at - verdict.until


def _blockers_of(verdict: IdleVerdict) -> set[Blocker]:
    """What blocks the deletion. The host of a crash loop is busy with the loop, and does not."""
    ignored = set() if verdict.waste is None else {Blocker.HOST_BUSY}
    return set(verdict.blockers) - ignored


def _rest_since(verdict: IdleVerdict) -> int | None:
    """The begin of the rest of devices and host; of devices alone where waste keeps the host
    busy."""
    return verdict.proved_since if verdict.waste is None else verdict.since


def due_at(course: IdleCourse, applied: AppliedRule) -> int | None:
    """Return the end of the grace in the course of a node, if no further time is frozen. None
    without an action, or without a notice of the action."""
    if course.notified_at is None or course.told is None:
        return None
    if course.told.rank < applied.action.rank or applied.action.rank < Action.STOP.rank:
        return None
    at = max(course.notified_at + applied.rule.grace_seconds, course.promised_at or 0)
    return at + course.frozen_seconds


def _without_notice(course: IdleCourse) -> IdleCourse:
    """The course without the notice of an action. The links of the message still work: what a
    person requests is not held back by a keep or by the mode."""
    return replace(course, told=None, promised_at=None, frozen_seconds=0)


def _restart_in(course: IdleCourse, state: State, now: int) -> IdleCourse:
    """A new course without a notice."""
    return IdleCourse(
        course.node_id,
        course.incarnation,
        state,
        course.since if course.state is state else now,
        version=course.version,
    )


def _in_state(course: IdleCourse, state: State, now: int) -> IdleCourse:
    return course if course.state is state else replace(course, state=state, since=now)
