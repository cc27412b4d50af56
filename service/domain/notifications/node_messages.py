"""Messages about idle nodes and about a cleanup on hold: contents and recipients. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from service.domain.clock import HOUR, to_rfc3339
from service.domain.idle.cleanup import RailHold
from service.domain.idle.links import LinkPromise, Verb
from service.domain.idle.policy import Action, AppliedRule, Recipient
from service.domain.idle.proof import IdleVerdict, Signals
from service.domain.idle.rails import Rail
from service.domain.money import format_usd, half_even
from service.domain.nodes.keep import LABEL
from service.domain.nodes.node import Node
from service.domain.notifications.letters import to_one_line
from service.domain.notifications.notification import (
    PROMISE,
    About,
    Channel,
    Notification,
    body_of,
    is_email,
)

MAX_SIGNALS = 16
"""Signals that a message names; `GET /v1/nodes/{id}/idle` shows all."""

MAX_SUBJECT = 150


class MessageKind(StrEnum):
    """The kind of a message; the `kind` of its body."""

    IDLE = "node.idle"
    UNKNOWN = "node.unknown"
    TTL = "node.ttl"
    KEEP = "node.keep_unreadable"
    HELD = "cleanup.held"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the instant `at`, without its recipients."""

    kind: MessageKind
    about_kind: About
    about_id: str
    at: int
    subject: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class IdleLook:
    """The result of one idle check of a node, with its policy.

    `hourly` is nano-dollars an hour; None if the price is unknown.
    """

    node: Node
    applied: AppliedRule
    verdict: IdleVerdict
    signals: Signals
    hourly: int | None


def idle_message(
    look: IdleLook,
    now: int,
    idle_since: int,
    acts_at: int | None,
    promise: LinkPromise | None = None,
) -> Message:
    """The message that a node is idle, with the action at `acts_at` (None: no action).

    `promise` is for links that keep or delete the node; without them the message names the
    commands.
    """
    action = look.applied.action
    done = {Action.STOP: "stopped", Action.DELETE: "deleted"}.get(action)
    if done is None:
        acts_at = None
    subject = f"{look.node.name} is idle"
    if acts_at is not None:
        subject += f", to be {done} at {to_rfc3339(acts_at)}"
    waste = look.verdict.waste
    what = "has been idle" if waste is None else f"does no work ({waste.replace('_', ' ')})"
    hourly = look.hourly
    idle_cost = None if hourly is None else half_even(hourly * (now - idle_since), HOUR)
    facts = {
        "message": f"node {to_one_line(look.node.name)} {what} since {to_rfc3339(idle_since)}",
        "idle_since": to_rfc3339(idle_since),
        "waste": waste or "",
        "action": action,
        "acts_at": _format_time(acts_at),
        "idle_cost": _format_usd(idle_cost),
        "coverage": look.verdict.coverage,
        "links": {},
        **({} if promise is None else {PROMISE: asdict(promise)}),
        **_describe_look(look),
    }
    return _make_node_message(MessageKind.IDLE, look.node, now, subject, facts)


def unknown_message(look: IdleLook, now: int, unknown_since: int) -> Message:
    """The message that no signal proves a node idle or busy, with the missing signals."""
    facts: dict[str, object] = {
        "message": f"since {to_rfc3339(unknown_since)} no signal proves that node"
        f" {to_one_line(look.node.name)} is idle or busy",
        "unknown_since": to_rfc3339(unknown_since),
        "links": {},
        **_describe_look(look),
    }
    subject = f"it is unknown whether {look.node.name} is idle or busy"
    return _make_node_message(MessageKind.UNKNOWN, look.node, now, subject, facts)


def ttl_message(node: Node, now: int, over_at: int, acts_at: int, hourly: int | None) -> Message:
    """The message that a node is deleted at `acts_at`, after a keep.

    Its time to live was over at `over_at`.
    """
    name = to_one_line(node.name)
    facts: dict[str, object] = {
        "message": f"the time to live of node {name} was over at {to_rfc3339(over_at)}",
        "over_at": to_rfc3339(over_at),
        "action": Action.DELETE,
        "acts_at": to_rfc3339(acts_at),
        "hourly_cost": _format_usd(hourly),
        "links": {},
    }
    subject = f"{node.name} will be deleted at {to_rfc3339(acts_at)}"
    return _make_node_message(MessageKind.TTL, node, now, subject, facts)


def keep_message(node: Node, now: int, reason: str, hourly: int | None) -> Message:
    """The message that the date of a node's keep cannot be read, so that the node stays."""
    facts: dict[str, object] = {
        "message": f"the date until which node {to_one_line(node.name)} is kept cannot be read",
        "reason": to_one_line(reason),
        "correct_as": f"{LABEL}=2026-12-01",
        "hourly_cost": _format_usd(hourly),
        "links": {},
    }
    subject = f"the date until which {node.name} is kept cannot be read"
    return _make_node_message(MessageKind.KEEP, node, now, subject, facts)


def held_message(project: str, held: RailHold, waiting: Sequence[int | None], now: int) -> Message:
    """The message that a rail holds the cleanup of a project, until when, and at which cost.

    `waiting` has the nano-dollars an hour of each waiting node; None if no price is known.
    """
    known = [hourly for hourly in waiting if hourly is not None]
    commands = {"plan": "tpu-steward cleanup plan"}
    if held.rail is Rail.MASS:
        commands["apply"] = "tpu-steward cleanup apply PLAN"
    shown, reason = to_one_line(project), to_one_line(held.reason)
    facts = {
        "message": f"the cleanup of project {shown} is on hold: {reason}",
        "project": shown,
        "rail": held.rail,
        "reason": reason,
        "since": to_rfc3339(held.since),
        "until": _format_time(held.until),
        "nodes": len(waiting),
        "unpriced_nodes": len(waiting) - len(known),
        "hourly_cost": format_usd(sum(known)) if known or not waiting else None,
        "commands": commands,
        "links": {},
    }
    subject = _make_subject(f"the cleanup of {project} is on hold: {held.rail}")
    return Message(MessageKind.HELD, About.PROJECT, project, now, subject, facts)


def _make_node_message(
    kind: MessageKind, node: Node, now: int, subject: str, facts: Mapping[str, object]
) -> Message:
    name = shlex.quote(to_one_line(node.name))
    commands = {
        Verb.KEEP: f"tpu-steward nodes keep {name} --for 4h --reason 'still needed'",
        Verb.DELETE: f"tpu-steward nodes delete {name}",
    }
    fields = {
        "id": node.id,
        "name": to_one_line(node.name),
        "project": to_one_line(node.spec.project),
        "zone": to_one_line(node.zone),
        "accelerator_type": to_one_line(node.spec.accelerator_type),
        "provisioning_model": node.spec.provisioning_model,
        "owner": to_one_line(node.owner),
        "team": to_one_line(node.team),
        "incarnation": node.attempt,
    }
    more = {"node": fields, "commands": commands}
    return Message(kind, About.NODE, node.id, now, _make_subject(subject), {**facts, **more})


def _make_subject(text: str) -> str:
    """The subject of a mail, on one line."""
    return f"[TPU Steward] {to_one_line(text)[:MAX_SUBJECT]}"


def _describe_look(look: IdleLook) -> Mapping[str, object]:
    rule, applied = look.applied.rule, look.applied
    tracks = sorted(look.signals.tracks.items())[:MAX_SIGNALS]
    return {
        "hourly_cost": _format_usd(look.hourly),
        "reason": to_one_line(look.verdict.reason),
        "lacking": [to_one_line(text) for text in look.verdict.lacking[:MAX_SIGNALS]],
        "signals": [
            {
                "worker": worker,
                "kind": kind,
                "level": track.level,
                "value": track.value,
                "at": to_rfc3339(track.end),
            }
            for (worker, kind), track in tracks
        ],
        "policy": {
            "source": to_one_line(applied.source),
            "action": rule.action,
            "idle_after_seconds": rule.idle_after_seconds,
            "grace_seconds": rule.grace_seconds,
        },
        "limits": [to_one_line(limit) for limit in applied.limits],
    }


def _format_usd(nanos: int | None) -> str | None:
    return None if nanos is None else format_usd(nanos)


def _format_time(at: int | None) -> str | None:
    return None if at is None else to_rfc3339(at)


@dataclass(slots=True)
class _Named:
    """The recipients so far, each webhook and each address once."""

    found: list[Recipient] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, recipient: Recipient) -> None:
        webhook = "" if recipient.webhook in self.seen else recipient.webhook
        self.seen.add(recipient.webhook)
        new: dict[str, None] = {}
        for address in recipient.emails:
            if address.lower() not in self.seen:
                self.seen.add(address.lower())
                new[address] = None
        if webhook:
            self.found.append(Recipient(webhook, recipient.secret, recipient.format))
        if new:
            self.found.append(Recipient(emails=tuple(new)))


def recipients_of(applied: AppliedRule, owner: str) -> Sequence[Recipient]:
    """The recipients of messages about a node, each webhook and each address once.

    These are the recipients of the policy, and the owner if it is an e-mail address. Empty if
    nobody can be notified.
    """
    named = _Named()
    for recipient in applied.recipients:
        named.add(recipient)
    if is_email(owner):
        named.add(Recipient(emails=(owner,)))
    return named.found


def notifications_of(
    message: Message, recipients: Sequence[Recipient], now: int, new_id: Callable[[], str]
) -> list[Notification]:
    """The notifications that carry a node message: one per recipient and channel, each with its own
    id."""
    found = []
    for recipient in recipients:
        channels = ((Channel.WEBHOOK, recipient.webhook), (Channel.MAIL, recipient.emails))
        for channel in (channel for channel, target in channels if target):
            message_id = new_id()
            head = {"id": message_id, "kind": message.kind, "at": to_rfc3339(message.at)}
            found.append(
                Notification(
                    message_id,
                    message.about_id,
                    channel,
                    message.subject,
                    body_of({**message.facts, **head}),
                    now,
                    now,
                    about_kind=message.about_kind,
                    recipient=recipient,
                )
            )
    return found
