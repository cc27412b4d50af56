"""The idleness of a node, in one line. Pure."""

from __future__ import annotations

from service.application.cleanup.cleanup import IdleBrief
from service.dashboard.kit.figures import format_duration, to_moment
from service.domain.idle.cleanup import ExpectedEnd
from service.domain.idle.course import State, idle_at
from service.domain.idle.policy import Action, Waste
from service.domain.idle.rails import Rail

IDLE_ENDS = {Action.STOP: "stopped", Action.DELETE: "deleted"}
"""What happens to an idle node, by the action of its policy."""

_WASTES = {Waste.CRASH_LOOP: "in a crash loop", Waste.NO_PROGRESS: "without progress"}
RAIL_REASONS = {
    Rail.PAUSE: "deletions are paused",
    Rail.START: "the daemon has just started",
    Rail.CLOCK: "the clock jumped",
    Rail.INVENTORY: "nodes are missing in the cloud",
    Rail.BREAKER: "the breaker is open",
    Rail.MASS: "most of the nodes are idle at once",
    Rail.TICK: "other nodes go first",
    Rail.OWNER: "other nodes of the owner go first",
    Rail.HOUR: "the hourly limit is reached",
}


def idle_line(brief: IdleBrief, now: int) -> str:
    """Idle time of a node and the next action on it. Empty while the node works or warms up. The
    reason for an unknown state is left to `idle_sentence`."""
    course, verdict = brief.watched.course, brief.watched.verdict
    if course.state is State.UNKNOWN:
        return "unknown whether it is idle"
    if verdict is None or verdict.since is None:
        return ""
    what = "quiet" if verdict.waste is None else _WASTES[verdict.waste]
    said = f"{what} for {format_duration(now - verdict.since)}"

    # The next action on the node, or what the action waits for.
    ends, expected = IDLE_ENDS.get(brief.applied.action), brief.expected
    after = ""
    if brief.keep is not None:
        until = brief.keep.until
        after = "kept" if until is None else f"kept until {to_moment(until).full}"
    elif course.state is State.QUIET:
        at = idle_at(course, verdict, brief.applied, brief.watched.judged_at)
        # None while something blocks the end of the node.
        after = "" if at is None else f"idle {_describe_time(at, now, 'one of the next checks')}"
    elif ends is not None and expected is not None:
        after = f"{ends} {describe_expected(expected, now, 'the next check')}"
        due_at = brief.watched.due_at
        if due_at is not None and due_at <= now and brief.waiting is not None:
            since, until = brief.waiting.since, brief.waiting.until
            waits = "waits" if since is None else f"waits since {to_moment(since).full}"
            left = "" if until is None else f", {format_duration(until - now)} more"
            after = f"{waits}: {RAIL_REASONS[brief.waiting.rail]}{left}"
    return f"{said}; {after}" if after else said


def idle_sentence(brief: IdleBrief, now: int) -> str:
    """The text of `idle_line`, with the reason if the state is unknown."""
    line, verdict = idle_line(brief, now), brief.watched.verdict
    if brief.watched.course.state is not State.UNKNOWN or verdict is None:
        return line
    return f"{line}: {verdict.reason}"


def describe_expected(expected: ExpectedEnd, now: int, later: str) -> str:
    """When the daemon ends an idle node, and the first rail that delays it. `later` are the words
    for an end that is due."""
    why = f": {RAIL_REASONS[expected.held_by[0].rail]}" if expected.held_by else ""
    when = "later" if expected.at is None else _describe_time(expected.at, now, later)
    return when + why


def _describe_time(at: int, now: int, later: str) -> str:
    return f"in {format_duration(at - now)}" if at > now else f"at {later}"
