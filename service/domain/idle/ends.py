"""Everything that may end a node: the cause, the time, and what holds it back. Pure.

The table of `service.domain.lifecycle.precedence`, for one node. Requests of people are unknown
beforehand, and the orphan collector ends no node of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.domain.clock import to_rfc3339
from service.domain.idle.assess import IdleSubject, list_holders
from service.domain.idle.cleanup import Cleanup, WatchedNode
from service.domain.idle.course import State
from service.domain.idle.policy import Action, AppliedRule, Waste
from service.domain.idle.proof import IdleVerdict
from service.domain.idle.signals.signal import Level
from service.domain.lifecycle.expiry import out_of_time
from service.domain.lifecycle.precedence import HELD_BY, EndCause, Holder
from service.domain.nodes.keep import Keep, cloud_ends_at, goes_at, keep_of_node, waits_for_job_end
from service.domain.nodes.node import Asked, Node


@dataclass(frozen=True, slots=True)
class End:
    """One way in which a node may end. `at` is None where the time is unknown."""

    ender: EndCause
    reason: str
    at: int | None
    held_by: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class EndOutlook:
    """The facts about a node: the cleanup of its project, the newest assessment of its idleness,
    the job that it was made for and that runs on it (empty for none), and the exceeded budgets that
    delete it, by name, each with its time."""

    node: Node
    cleanup: Cleanup
    subject: IdleSubject | None = None
    watched: WatchedNode | None = None
    own_job: str = ""
    budgets: Mapping[str, int] = field(default_factory=dict)


def list_causes(
    node: Node,
    now: int,
    *,
    applied: AppliedRule | None,
    watched: WatchedNode | None,
    budgets: Mapping[str, int],
) -> tuple[tuple[EndCause, str], ...]:
    """Return every cause that would end a node now, with its text, the strongest first. It does not
    matter what holds a cause back. The arguments are as in `EndOutlook`.

    Requests of people and the acts of Google are not here: they are known once they happen.
    """
    found = []
    if waits_for_job_end(node):
        found.append((EndCause.JOB_END, node.ends_after_keep))
    first_to_last = sorted(budgets, key=lambda name: (budgets[name], name))
    found += [(EndCause.BUDGET, describe_exceeded(name)) for name in first_to_last]
    if over := out_of_time(node, now):
        found.append((EndCause.TTL, over))
    if applied is not None and watched is not None and _ends_for_idleness(node, applied, watched):
        assert watched.verdict is not None
        found.append((EndCause.IDLE, describe_idleness(watched.verdict)))
    return tuple(found)


def describe_exceeded(budget: str) -> str:
    """The first words of the reason when a budget with this name ends a node."""
    return f"the budget {budget!r} is exceeded"


def describe_idleness(verdict: IdleVerdict) -> str:
    """The first words of the reason when idleness ends a node: what it did, and since when."""
    since = "" if verdict.since is None else f" since {to_rfc3339(verdict.since)}"
    what = "been idle" if verdict.waste is None else _WASTED[verdict.waste]
    return f"it has {what}{since}"


_WASTED: Mapping[Waste, str] = {
    Waste.CRASH_LOOP: "been in a crash loop",
    Waste.NO_PROGRESS: "made no progress",
}


def _ends_for_idleness(node: Node, applied: AppliedRule, watched: WatchedNode) -> bool:
    """Whether this incarnation is proved idle, and its policy would stop or delete it for that."""
    course, verdict = watched.course, watched.verdict
    if verdict is None or verdict.level is not Level.QUIET or course.incarnation != node.attempt:
        return False
    is_candidate = course.state in {State.CANDIDATE, State.NOTIFIED}
    ends = applied.rule.action.rank >= Action.STOP.rank
    return ends and is_candidate and (verdict.waste is None or verdict.waste in applied.rule.also)


def ends_of(outlook: EndOutlook, now: int) -> tuple[End, ...]:
    """Return all ends of a node, the strongest first; none for a node that is being deleted."""
    node = outlook.node
    if node.has_ended or node.asked is Asked.ABSENT:
        return ()
    keep = keep_of_node(node)
    google: End | None = None
    budget: End | None = None
    job: End | None = None
    if (cloud_at := cloud_ends_at(node)) is not None:
        google = End(EndCause.GOOGLE, "Google ends a flex-start node", cloud_at)
    if outlook.budgets:  # the budget that deletes the node first; no hold applies to budgets
        name, at = min(outlook.budgets.items(), key=lambda item: (item[1], item[0]))
        budget = End(EndCause.BUDGET, describe_exceeded(name), at)
    if waits_for_job_end(node):
        held_by = _held_by(EndCause.JOB_END, keep, now, is_paused=False)
        job = End(EndCause.JOB_END, node.ends_after_keep, goes_at(node), held_by)
    elif outlook.own_job:
        job = End(EndCause.JOB_END, f"it goes with job {outlook.own_job}", None)
    found = [
        google,
        job,
        budget,
        _find_ttl_end(outlook, keep, now),
        _find_idle_end(outlook, now),
    ]
    return tuple(end for end in found if end is not None)


def _find_ttl_end(outlook: EndOutlook, keep: Keep | None, now: int) -> End | None:
    node = outlook.node
    over_at = node.deletes_at
    if over_at is None:
        return None
    is_paused = outlook.cleanup.is_paused
    held_by = _held_by(EndCause.TTL, keep, max(over_at, now), is_paused=is_paused)
    at: int | None = over_at
    if Holder.PAUSE in held_by:
        at = None
    elif keep is not None:
        at = None if keep.until is None else max(over_at, keep.until)
    reason = out_of_time(node, now) or f"its time to live of {node.spec.ttl_seconds} s"
    return End(EndCause.TTL, reason, at, held_by)


def _find_idle_end(outlook: EndOutlook, now: int) -> End | None:
    node, subject, watched = outlook.node, outlook.subject, outlook.watched
    if subject is None or watched is None or watched.verdict is None:
        return None
    applied = subject.applied
    if applied.rule.action.rank < Action.STOP.rank:
        return None
    held_by = list_holders(subject, watched.verdict, now)
    is_paused = outlook.cleanup.is_paused
    held_by += [Holder.RAILS] if outlook.cleanup.holds and not is_paused else []
    held_by += [Holder.PAUSE] if is_paused else []
    held_by += [Holder.MODE] if applied.action.rank < Action.STOP.rank else []
    verb = "deletes" if applied.rule.action is Action.DELETE else "stops"
    whose = "its own policy" if applied.is_own else f"the policy of {applied.source}"
    reason = f"{whose} {verb} idle nodes"
    if _ends_for_idleness(node, applied, watched):
        reason = f"{describe_idleness(watched.verdict)}; {reason}"
    at, keep = watched.due_at, subject.keep
    if at is not None:
        at = outlook.cleanup.expect_end(node.id, at, now).at
    is_candidate = watched.course.state is State.CANDIDATE
    if keep is not None and keep.is_active(now) and is_candidate:  # the grace begins after the keep
        at = None if keep.until is None else keep.until + applied.rule.grace_seconds
    return End(EndCause.IDLE, reason, at, tuple(held_by))


def _held_by(ender: EndCause, keep: Keep | None, at: int, *, is_paused: bool) -> tuple[Holder, ...]:
    holding = {
        Holder.KEEP: keep is not None and keep.is_active(at),
        Holder.PAUSE: is_paused,
    }
    return tuple(holder for holder, holds in holding.items() if holds and holder in HELD_BY[ender])
