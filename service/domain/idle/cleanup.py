"""The state of one project's cleanup: the pause, the rails that hold, and the metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from service.domain.errors import Conflict, Rejected
from service.domain.idle.course import IdleCourse
from service.domain.idle.policy import Action
from service.domain.idle.proof import IdleVerdict, Signals
from service.domain.idle.rails import Breaker, Rail, Waiting
from service.domain.idle.readings import FamilyRead
from service.domain.idle.signals.signal import Kind

DAEMON = "the cleanup daemon"
"""The actor of ends that no person has requested."""

MAX_REASON = 500

REFRESH_SECONDS = 300
"""Seconds between two writes of new measurements. Decisions are written at once."""


@dataclass(frozen=True, slots=True)
class RailHold:
    """A rail that holds: the reason, the begin, and the end if it is known."""

    rail: Rail
    reason: str
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """When the daemon stops or deletes an idle node: a whole UTC second, or None while a rail
    without a known end holds it. `held_by` are the rails that delay it beyond its grace."""

    at: int | None
    held_by: tuple[RailHold, ...] = ()


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The row of one project. `pauses` counts pauses and resumptions, and is part of a plan."""

    project: str
    ticked_at: int = 0
    paused_at: int | None = None
    paused_by: str = ""
    pause_reason: str = ""
    pauses: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    families: Mapping[Kind, FamilyRead] = field(default_factory=dict)
    mass_since: int | None = None
    holds: tuple[RailHold, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    version: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether a person has paused the cleanup."""
        return self.paused_at is not None

    def with_pause(self, now: int, actor: str, reason: str) -> Cleanup:
        """Return the row with a pause. Raises Rejected without a reason."""
        if not reason.strip():
            raise Rejected("give a reason: why is the cleanup paused?", field="reason")
        paused_at = self.paused_at if self.paused_at is not None else now
        # At once, and not with the next check: every page and answer then says the same.
        paused = RailHold(Rail.PAUSE, f"{actor}: {reason.strip()[:MAX_REASON]}", paused_at)
        return replace(
            self,
            paused_at=paused_at,
            paused_by=actor,
            pause_reason=reason.strip()[:MAX_REASON],
            pauses=self.pauses + 1,
            holds=(paused, *self._other_holds),
        )

    def without_pause(self) -> Cleanup:
        """Return the row without the pause. Raises Conflict without a pause."""
        if not self.is_paused:
            raise Conflict(f"the cleanup of project {self.project} is not paused")
        return replace(
            self,
            paused_at=None,
            paused_by="",
            pause_reason="",
            pauses=self.pauses + 1,
            holds=self._other_holds,
        )

    @property
    def _other_holds(self) -> tuple[RailHold, ...]:
        """The rails that hold beside a pause."""
        return tuple(held for held in self.holds if held.rail is not Rail.PAUSE)

    def expect_end(self, node_id: str, due_at: int, now: int) -> ExpectedEnd:
        """When the daemon ends an idle node whose grace is over at `due_at`: after the rails that
        hold now, else in its turn."""
        due_at = max(due_at, now)
        # A daemon that has just begun reads every metric soon: usually before a later end is due.
        held_by = tuple(
            held
            for held in self.holds
            if (held.until is None or held.until > due_at)
            and (held.rail is not Rail.START or held.until is not None or due_at <= now)
        )
        if any(held.until is None for held in held_by):
            return ExpectedEnd(None, held_by)
        turns = () if self.holds else self.waiting
        later = [held.until for held in held_by]
        later += [waiting.until for waiting in turns if waiting.node_id == node_id]
        return ExpectedEnd(max([due_at, *(at for at in later if at is not None)]), held_by)

    def with_closed_breaker(self, now: int, actor: str, reason: str) -> Cleanup:
        """Return the row with a breaker that a person closed. Raises Rejected without a reason,
        Conflict if the breaker is not open."""
        if not reason.strip():
            raise Rejected("give a reason: why do you close the breaker?", field="reason")
        if not self.breaker.is_open:
            raise Conflict(f"the breaker of project {self.project} is not open")
        # Without its hold: a breaker that opens at the next check sends an alarm again.
        return replace(
            self,
            breaker=self.breaker.close_by_hand(now, actor, reason.strip()[:MAX_REASON]),
            holds=tuple(held for held in self.holds if held.rail is not Rail.BREAKER),
        )


ALARMING = frozenset({Rail.MASS, Rail.BREAKER, Rail.INVENTORY, Rail.CLOCK})
"""Rails that send an alarm, because they hold for an unusual reason. A start, a pause and the pace
are usual."""


def new_alarms(before: Cleanup, after: Cleanup) -> tuple[RailHold, ...]:
    """Return the alarming rails that began to hold a project's cleanup with a round. Each sends one
    alarm, however long it holds."""
    known = {held.rail for held in before.holds}
    return tuple(held for held in after.holds if held.rail in ALARMING - known)


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A node on its course: its signals, the verdict at `judged_at`, and when it would be stopped
    or deleted; None where it would not."""

    course: IdleCourse
    project: str
    signals: Signals = field(default_factory=Signals)
    verdict: IdleVerdict | None = None
    judged_at: int = 0
    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The end of a node by a daemon or a person: actor, time, reason, and the evidence. `hourly` is
    in nano-dollars, None where the price was unknown."""

    project: str
    at: int
    node_id: str
    incarnation: int
    name: str
    action: Action
    actor: str
    reason: str
    hourly: int | None = None
    plan_id: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
