"""The idleness of a node, in one line. Pure."""

from __future__ import annotations

from service.application.cleanup.cleanup import IdleBrief
from service.dashboard.kit.figures import format_duration, to_moment
from service.domain.idle.course import State
from service.domain.idle.policy import Action, Waste
from service.domain.idle.rails import Rail

_ENDS = {Action.STOP: "stopped", Action.DELETE: "deleted"}
_WASTES = {Waste.CRASH_LOOP: "in a crash loop", Waste.NO_PROGRESS: "without progress"}
_RAILS = {
    Rail.PAUSE: "deletions are paused",
    Rail.START: "the daemon has just started",
    Rail.CLOCK: "the clock jumped",
    Rail.INVENTORY: "nodes are missing in the cloud",
    Rail.BREAKER: "the breaker is open",
    Rail.MASS: "most of the nodes are idle at once",
    Rail.TICK: "other nodes go first",
    Rail.OWNER: "other nodes of the owner go first",
    Rail.HOUR: "the limit of an hour is reached",
}


def idle_line(brief: IdleBrief, now: int) -> str:
    """Idle time of a node and the next action on it. Empty while the node works or warms up. The
    reason for an unknown state is left to `idle_sentence`."""
    course, verdict = brief.watched.course, brief.watched.verdict
    if course.state is State.UNKNOWN:
        return "unknown whether it is idle"
    if verdict is None or verdict.since is None:
        return ""
    what = "at rest" if verdict.waste is None else _WASTES[verdict.waste]
    said = f"{what} for {format_duration(now - verdict.since)}"
    if course.state is State.QUIET:
        return said
    return f"{said}; {after}" if (after := _describe_next_action(brief, now)) else said


def idle_sentence(brief: IdleBrief, now: int) -> str:
    """The text of `idle_line`, with the reason if the state is unknown."""
    line, verdict = idle_line(brief, now), brief.watched.verdict
    if brief.watched.course.state is not State.UNKNOWN or verdict is None:
        return line
    return f"{line}: {verdict.reason}"


def _describe_next_action(brief: IdleBrief, now: int) -> str:
    """The next action on a node that has been idle for long enough, or what the action waits
    for."""
    if brief.keep is not None:
        until = brief.keep.until
        return "kept" if until is None else f"kept until {to_moment(until).full}"
    ends, due_at = _ENDS.get(brief.applied.action), brief.watched.due_at
    if ends is None or due_at is None:
        return ""
    if due_at > now:
        return f"{ends} in {format_duration(due_at - now)}"
    if brief.waiting is not None:
        since, reason = brief.waiting.since, _RAILS[brief.waiting.rail]
        waits = "waits" if since is None else f"waits since {to_moment(since).full}"
        return f"{waits}: {reason}"
    return f"{ends} at the next check"
