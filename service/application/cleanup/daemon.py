"""What the cleanup daemon does with a node after a look: it tells people, and begins its end."""

from __future__ import annotations

from service.application.cleanup.ending import EndOrder, begin_end
from service.domain.clock import rfc3339
from service.domain.event import Event
from service.domain.idle.assess import Assessed
from service.domain.idle.cleanup import DAEMON, Cleanup
from service.domain.idle.course import Tell, due_at
from service.domain.idle.messages import (
    Look,
    Message,
    idle_message,
    notifications_of,
    recipients_of,
    unknown_message,
)
from service.domain.idle.policy import Action
from service.domain.idle.proof import Verdict
from service.domain.names import new_id
from service.store.unit import Unit

KIND = "idle"
"""Of the events by which a node is told that it is idle."""


class DaemonActs:
    """Acts within the unit of the caller, so that what is told and what is written are one."""

    def tell(self, unit: Unit, assessed: Assessed, now: int) -> None:
        """Write an event, and messages to everybody who is to be told."""
        node, tell = assessed.subject.node, assessed.moved.tell
        if tell is None:
            return
        said = _idle(assessed) if tell is Tell.IDLE else _blind(assessed)
        unit.events.add(Event(node.id, now, KIND, said, DAEMON))
        message = _message(assessed, now)
        told = recipients_of(assessed.subject.applied, node.owner)
        for one in notifications_of(message, told, now, new_id):
            unit.notifications.add(one)

    def end(self, unit: Unit, assessed: Assessed, cleanup: Cleanup, now: int) -> None:
        """Ask for the stop or deletion of a node. Raises Conflict where something changed since."""
        action = assessed.subject.applied.action
        order = EndOrder(assessed, action, DAEMON, reason_of(assessed.verdict), cleanup)
        begin_end(unit, order, now)


def reason_of(verdict: Verdict) -> str:
    """Why a node is ended, as its owner reads it."""
    since = "" if verdict.since is None else f" since {rfc3339(verdict.since)}"
    what = "idle" if verdict.waste is None else verdict.waste.replace("_", " ")
    return f"it is {what}{since}: {verdict.reason}, {verdict.coverage} % of the time measured"


def _message(assessed: Assessed, now: int) -> Message:
    """What people outside are told: the same as in the event, with the signals."""
    subject, verdict, course = assessed.subject, assessed.verdict, assessed.moved.course
    signals = assessed.watched.signals
    look = Look(subject.node, subject.applied, verdict, signals, subject.hourly)
    if assessed.moved.tell is Tell.BLIND:
        return unknown_message(look, now, course.frozen_at if course.frozen_at is not None else now)
    since = verdict.since if verdict.since is not None else now
    return idle_message(look, now, since, due_at(course, subject.applied))


def _idle(assessed: Assessed) -> str:
    applied = assessed.subject.applied
    said = reason_of(assessed.verdict)
    at = due_at(assessed.moved.course, applied)
    if at is None:
        return f"{said}; nothing is done by itself (policy {applied.source}: {applied.action})"
    verb = "deleted" if applied.action is Action.DELETE else "stopped"
    if not assessed.is_told:
        return f"{said}; it would be {verb} at {rfc3339(at)}, but nobody can be told of it"
    return f"{said}; it is {verb} at {rfc3339(at)} (policy {applied.source})"


def _blind(assessed: Assessed) -> str:
    return f"nobody knows whether it is idle: {assessed.verdict.reason}"
