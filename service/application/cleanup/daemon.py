"""What the cleanup daemon does with a node after a look: it notifies people, and requests the end
of the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from service.application.cleanup.ending import EndOrder, begin_end
from service.domain.clock import to_rfc3339
from service.domain.event import Event
from service.domain.idle.assess import (
    SHIPPED_TIMES,
    UNTOLD,
    AssessedNode,
    IdleSubject,
    IdleTimes,
    list_limits,
)
from service.domain.idle.cleanup import DAEMON, Cleanup, RailHold
from service.domain.idle.course import Notice, due_at
from service.domain.idle.ends import describe_idleness
from service.domain.idle.links import LinkPromise
from service.domain.idle.policy import DEFAULT, Action, AppliedRule
from service.domain.idle.proof import IdleVerdict
from service.domain.ids import new_id
from service.domain.nodes.keep import LABEL, Keep
from service.domain.notifications.node_messages import (
    IdleLook,
    Message,
    held_message,
    idle_message,
    keep_message,
    notifications_of,
    recipients_of,
    unknown_message,
)
from service.store.unit import Unit

log = structlog.get_logger()

KIND = "idle"
"""The kind of the events that tell a node's owner that the node is idle."""

ALARM = "alarm"
"""The kind of the events that a person has to look at."""


class DaemonActs:
    """Acts within the caller's unit of work, so that messages and records are committed together.

    `public_url` is where people reach the API; if it is empty, messages name commands instead of
    links. `times` are those of the settings.
    """

    def __init__(self, public_url: str = "", times: IdleTimes = SHIPPED_TIMES) -> None:
        self._public_url = public_url
        self._times = times

    def notify_node(self, unit: Unit, assessed: AssessedNode, now: int) -> None:
        """Write an event, and messages to all recipients."""
        node, tell = assessed.subject.node, assessed.moved.tell
        if tell is None:
            return
        said = (
            _describe_idle(assessed)
            if tell is Notice.IDLE
            else f"it is unknown whether it is idle: {assessed.verdict.reason}"
        )
        unit.events.add(Event(node.id, now, KIND, said, DAEMON))
        if tell is Notice.IDLE and not assessed.is_told:
            unit.events.add(Event(node.id, now, ALARM, UNTOLD, DAEMON))
            log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=UNTOLD)
        message = _build_message(assessed, now, self._public_url)
        recipients = recipients_of(assessed.subject.applied, node.owner)
        for notification in notifications_of(message, recipients, now, new_id):
            unit.notifications.add(notification)

    def warn_of_keep(self, unit: Unit, subject: IdleSubject, keep: Keep, now: int) -> None:
        """Warn once that the date until which a node is kept cannot be parsed. The node stays
        protected."""
        node = subject.node
        message = f"the date until which it is kept cannot be read ({keep.reason}); it stays until"
        message = f"{message} the label is corrected: write it as {LABEL}=2026-12-01"
        alarms = unit.events.list_by_kind(node.id, ALARM, 0)
        if any(event.message == message for event in alarms):
            return
        unit.events.add(Event(node.id, now, ALARM, message, DAEMON))
        log.error("node.alarm", node_id=node.id, cloud_id=node.cloud_id, told=message)
        letter = keep_message(node, now, keep.reason, subject.hourly)
        for notification in notifications_of(
            letter, recipients_of(subject.applied, node.owner), now, new_id
        ):
            unit.notifications.add(notification)

    def notify_rail_hold(
        self, unit: Unit, cleanup: Cleanup, held: RailHold, rates: Sequence[int | None], now: int
    ) -> None:
        """Notify that a rail began to hold: the recipients of the project's policy, else those of
        the default policy."""
        policies = unit.idle_policies.find_all()
        scopes = (f"project:{cleanup.project}", DEFAULT)
        named = [policies[scope].recipients for scope in scopes if scope in policies]
        recipients = next((some for some in named if some), ())
        message = held_message(cleanup.project, held, rates, now)
        for notification in notifications_of(message, recipients, now, new_id):
            unit.notifications.add(notification)

    def request_end(self, unit: Unit, assessed: AssessedNode, cleanup: Cleanup, now: int) -> None:
        """Request the stop or deletion of a node. Raises Conflict if something changed since the
        look."""
        action = assessed.subject.applied.action
        order = EndOrder(
            assessed, action, DAEMON, reason_of(assessed.verdict), cleanup, self._times
        )
        begin_end(unit, order, now)


def reason_of(verdict: IdleVerdict) -> str:
    """Why a node is ended, as its owner reads it."""
    measured = f"{verdict.coverage} % of that time is measured"
    return f"{describe_idleness(verdict)}: {verdict.reason}, {measured}"


def _build_message(assessed: AssessedNode, now: int, public_url: str) -> Message:
    """The message to people outside: the text of the event, with the signals."""
    subject, verdict, course = assessed.subject, assessed.verdict, assessed.moved.course
    signals = assessed.watched.signals
    applied = replace(subject.applied, limits=list_limits(subject))
    since = verdict.since if verdict.since is not None else now
    look = IdleLook(subject.node, applied, verdict, signals, subject.hourly)
    if assessed.moved.tell is Notice.BLIND:
        return unknown_message(look, now, course.frozen_at if course.frozen_at is not None else now)
    promise = None
    if public_url and course.notified_at is not None:
        node = subject.node
        promise = LinkPromise(node.id, node.attempt, course.notified_at, public_url)
    return idle_message(look, now, since, due_at(course, applied), promise)


def _describe_idle(assessed: AssessedNode) -> str:
    applied = assessed.subject.applied
    said = reason_of(assessed.verdict)
    at = due_at(assessed.moved.course, applied)
    if at is None:
        why = "; ".join(list_limits(assessed.subject))
        done = f"no action follows ({_describe_policy(applied)} is {applied.action})"
        return f"{said}; {done}; {why}" if why else f"{said}; {done}"
    verb = "deleted" if applied.action is Action.DELETE else "stopped"
    return f"{said}; it will be {verb} at {to_rfc3339(at)} by {_describe_policy(applied)}"


def _describe_policy(applied: AppliedRule) -> str:
    return "its own policy" if applied.is_own else f"the policy of {applied.source}"
