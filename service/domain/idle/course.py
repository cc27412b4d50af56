"""The course of one node from work to its deletion for idleness. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.clock import DAY, HOUR
from service.domain.idle.policy import Action, AppliedRule, with_waste
from service.domain.idle.proof import Blocker, IdleVerdict
from service.domain.idle.signal import Level

BLIND_SECONDS = 2 * HOUR
"""After so long without proof the owner is told what the node costs, and once a day from then on.
"""


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
    """How far one incarnation of a node has come. Instants are whole UTC seconds.

    `since` is when the present state began. `told` is the action that the newest message announced,
    at `notified_at`; OBSERVE for a message that went to nobody. `promised_at` is when that message
    said it would be done: a policy that is shortened later does not break this word. While UNKNOWN,
    `frozen_at` is when that began; `frozen_seconds` are those that were frozen since the
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
    """The course after one look, what has to be told, and whether its time is over: `is_due` asks
    the rails, and what they allow is stopped or deleted."""

    course: IdleCourse
    tell: Notice | None = None
    is_due: bool = False


def advance(  # noqa: PLR0913 - one look: the course, and all that was found
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
    """The course after one verdict. `is_told` says whether a message counts as a notice now. A node
    that is kept gets no notice, and one from before counts no more: once the keep is over, its
    people are told, and have the whole grace."""
    if before.state is State.DELETING:
        return CourseChange(before)
    applied = with_waste(applied, verdict.waste)
    if is_kept:
        before = _without_notice(before)
    if verdict.level is Level.ACTIVE or not is_warm:
        state = State.ACTIVE if verdict.level is Level.ACTIVE else State.WARMING
        return CourseChange(_reset(before, state, now))
    if verdict.level is Level.UNKNOWN:
        return _frozen(before, applied, now)
    course = _thawed(before, now)
    until = verdict.until if verdict.until is not None else now - delay
    if not is_idle(verdict, applied, until):
        return CourseChange(_reset(course, State.QUIET, now))
    if _has_worked_since(course, verdict):
        course = _reset(course, State.QUIET, now)
    return _idle(course, applied, now, is_told=is_told, is_kept=is_kept)


def _idle(
    course: IdleCourse, applied: AppliedRule, now: int, *, is_told: bool, is_kept: bool
) -> CourseChange:
    """The course of a node that is proved to be idle. A message that announced less than what would
    be done now does not count, neither does one that went to nobody, nor one whose end the policy
    took back since: recipients are told again, and have the whole grace."""
    if is_kept:
        return CourseChange(_in_state(course, State.CANDIDATE, now))
    if applied.action is Action.OBSERVE:
        return CourseChange(_reset(course, State.CANDIDATE, now))
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
    return CourseChange(course, is_due=_is_due(course, applied, now))


def is_idle(verdict: IdleVerdict, applied: AppliedRule, until: int) -> bool:
    """Whether the node was at rest for long enough, and nothing blocks its deletion. The host of a
    crash loop is busy with the loop, so it does not block: people are told, and whether it is ended
    is for the policy to say."""
    is_waste = verdict.waste is not None
    blockers = set(verdict.blockers) - ({Blocker.HOST_BUSY} if is_waste else set())
    since = _rest_since(verdict)
    return not blockers and since is not None and until - since >= applied.rule.idle_after_seconds


def _rest_since(verdict: IdleVerdict) -> int | None:
    """Since when the node is at rest; its host as well, unless what looks like work holds it."""
    return verdict.proved_since if verdict.waste is None else verdict.since


def _has_worked_since(course: IdleCourse, verdict: IdleVerdict) -> bool:
    """Whether the node worked after the notice and nobody looked meanwhile: the notice was about
    the rest before, and its people have not heard of this one."""
    since = _rest_since(verdict)
    return course.notified_at is not None and since is not None and since > course.notified_at


def due_at(course: IdleCourse, applied: AppliedRule) -> int | None:
    """When the grace is over, if nothing freezes it any more; None where nothing will be done, or
    nobody was told that it would be."""
    if course.notified_at is None or course.told is None:
        return None
    if course.told.rank < applied.action.rank or applied.action.rank < Action.STOP.rank:
        return None
    at = max(course.notified_at + applied.rule.grace_seconds, course.promised_at or 0)
    return at + course.frozen_seconds


def _is_due(course: IdleCourse, applied: AppliedRule, now: int) -> bool:
    at = due_at(course, applied)
    return at is not None and now >= at


def _frozen(course: IdleCourse, applied: AppliedRule, now: int) -> CourseChange:
    frozen_at = course.frozen_at if course.frozen_at is not None else now
    told_at = course.blind_told_at
    is_long = now - frozen_at >= BLIND_SECONDS and (told_at is None or now - told_at >= DAY)
    tells = is_long and applied.action.rank >= Action.NOTIFY.rank
    course = replace(course, frozen_at=frozen_at, blind_told_at=now if tells else told_at)
    return CourseChange(_in_state(course, State.UNKNOWN, now), Notice.BLIND if tells else None)


def _thawed(course: IdleCourse, now: int) -> IdleCourse:
    if course.frozen_at is None:
        return course
    frozen = now - course.frozen_at if course.notified_at is not None else 0
    return replace(
        course, frozen_at=None, frozen_seconds=course.frozen_seconds + frozen, blind_told_at=None
    )


def _without_notice(course: IdleCourse) -> IdleCourse:
    """The course whose notice counts no more; the links of its message still work."""
    return replace(course, told=None, promised_at=None, frozen_seconds=0)


def _reset(course: IdleCourse, state: State, now: int) -> IdleCourse:
    return IdleCourse(
        course.node_id,
        course.incarnation,
        state,
        course.since if course.state is state else now,
        version=course.version,
    )


def _in_state(course: IdleCourse, state: State, now: int) -> IdleCourse:
    return course if course.state is state else replace(course, state=state, since=now)
