"""The idle course of a node, as its page shows it: where it is, what follows, and what blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.application.cleanup.cleanup import IdleNode
from service.dashboard.kit.figures import Fact, format_count, format_duration, to_moment
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.dashboard.pages.nodes.idle import IDLE_ENDS, RAIL_REASONS, describe_expected
from service.domain.idle.assess import is_kept, list_holders, list_limits
from service.domain.idle.course import State, idle_at
from service.domain.idle.policy import with_waste
from service.domain.lifecycle.precedence import Holder
from service.domain.nodes.node import Asked, NodeState

REPORTS_SHOWN = 8
"""The most workers whose reports are shown."""

_COURSES: Mapping[State, str] = {
    State.WARMING: "The node was READY a short while ago; idleness does not count yet.",
    State.ACTIVE: "The node works.",
    State.QUIET: "The node is quiet, and not yet for long enough to be idle.",
    State.CANDIDATE: "The node is idle.",
    State.NOTIFIED: "The node is idle, and its owner was notified.",
    State.DELETING: "The node ends because it was idle.",
    State.UNKNOWN: "It is unknown whether the node is idle. No time counts meanwhile.",
}


@dataclass(frozen=True, slots=True)
class CourseShown:
    """The idle course of a node: its state in a sentence, what follows, and the facts about it."""

    state: str
    sentence: str
    after: str
    facts: tuple[Fact, ...]
    ends: tuple[str, ...]


def build_course(found: IdleNode, now: int) -> CourseShown | None:
    """The idle course of a node; None if no check has covered its current incarnation."""
    watched, node = found.watched, found.node
    if watched is None or watched.course.incarnation != node.attempt:
        return None
    state = watched.course.state
    is_counted = node.state == NodeState.READY or state is State.DELETING
    if not is_counted:
        sentence = f"Idleness counts only while a node is READY; the node is {node.state}."
    else:
        sentence = _COURSES[state]
    verdict = watched.verdict
    if verdict is not None and state in (State.ACTIVE, State.UNKNOWN) and is_counted:
        sentence += f" {to_sentence(verdict.reason)}"
    if is_counted and state is not State.DELETING and node.asked is Asked.ABSENT:
        sentence = f"Not checked since its deletion was requested. Before that: {sentence}"
    instants = (
        ("Course since", watched.course.since),
        ("At rest since", None if verdict is None else verdict.since),
        ("Notified at", watched.course.notified_at),
        ("Due at", watched.due_at),
        ("Checked at", watched.judged_at or None),
    )
    facts = [
        Fact(name, to_moment(at).full, to_moment(at)) for name, at in instants if at is not None
    ]
    facts += _list_terms(found, now)
    # What the newest report of each worker shows.
    for worker, host in sorted(watched.signals.hosts.items())[:REPORTS_SHOWN]:
        counts = (
            (host.sessions, "SSH session"),
            (host.containers, "container"),
            (host.restarts, "restart"),
        )
        parts = [format_count(number, noun) for number, noun in counts if number]
        said = ", ".join([*parts, host.holder or "the TPU is free"])
        ago = format_duration(now - host.at)
        facts.append(Fact(f"Worker {worker} reports", escape_invisible(f"{said}, {ago} ago")))
    return CourseShown(
        state=str(state) if is_counted else node.state,
        sentence=escape_invisible(sentence),
        after=_describe_after(found, now) if is_counted else "",
        facts=tuple(facts),
        ends=tuple(
            escape_invisible(
                f"{to_moment(end.at).full}: {end.action} by {end.actor}: {to_sentence(end.reason)}"
            )
            for end in found.ended
        ),
    )


def _describe_after(found: IdleNode, now: int) -> str:
    """What follows if nothing changes, and what would end the course. Empty for an active node."""
    watched, subject = found.watched, found.subject
    if watched is None or subject is None:
        return ""
    state, applied = watched.course.state, subject.applied
    if watched.verdict is not None:
        applied = with_waste(applied, watched.verdict.waste)
    verb, due = IDLE_ENDS.get(applied.action), watched.due_at
    expected = None if due is None else found.cleanup.expect_end(found.node.id, due, now)
    if state is State.QUIET:
        at = idle_at(watched.course, watched.verdict, applied, watched.judged_at)
        said = "" if at is None else f"The node is idle {_describe_when(at, now)} if it stays so."
    elif state not in (State.CANDIDATE, State.NOTIFIED):
        return ""
    elif verb is None:
        said = f"No action follows, because the policy's action is {applied.action}."
    else:
        when = (
            "" if expected is None else describe_expected(expected, now, "one of the next checks")
        )
        said = when and f"The node will be {verb} {when}."
    return f"{said} Work on a device, a job or a heartbeat ends this course.".strip()


def _describe_when(at: int, now: int) -> str:
    return f"in {format_duration(at - now)}" if at > now else "at one of the next checks"


def _list_terms(found: IdleNode, now: int) -> Iterator[Fact]:
    """The policy that applies, why less is done than it says, what holds the end back, and what a
    proof lacks."""
    subject = found.subject
    if subject is not None:
        applied, rule = subject.applied, subject.applied.rule
        grace = format_duration(rule.grace_seconds)
        after = format_duration(rule.idle_after_seconds)
        policy = f"{applied.source}: {applied.action} after {after}, grace {grace}"
        yield Fact("Policy", escape_invisible(policy))
        if limits := list_limits(subject):
            yield Fact("Limited by", escape_invisible("; ".join(limits)))
    verdict = None if found.watched is None else found.watched.verdict
    if subject is not None and subject.keep is not None and is_kept(subject, now):
        until = subject.keep.until
        when = "a date that cannot be read" if until is None else to_moment(until).full
        yield Fact("Kept until", when, None if until is None else to_moment(until))
    if subject is not None and verdict is not None:
        holders = [
            holder for holder in list_holders(subject, verdict, now) if holder is not Holder.UNKNOWN
        ]
        blockers = [*map(str, verdict.blockers), *map(str, holders)]
        if blockers:
            yield Fact("Blocked by", ", ".join(blocker.replace("_", " ") for blocker in blockers))
        if verdict.lacking:
            yield Fact("Lacking", escape_invisible("; ".join(verdict.lacking)))
    waiting = next(
        (waiting for waiting in found.cleanup.waiting if waiting.node_id == found.node.id), None
    )
    if waiting is not None:
        since = "" if waiting.since is None else f" since {to_moment(waiting.since).full}"
        until_text = "" if waiting.until is None else f", until {to_moment(waiting.until).full}"
        yield Fact("Waits", f"{RAIL_REASONS[waiting.rail]}{since}{until_text}")
