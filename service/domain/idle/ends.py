"""Everything that may end a node: by what, when, and what holds it back. Pure.

The table of `service.domain.lifecycle.precedence`, for one node. Nobody knows beforehand what a
person does; what the orphan collector ends is no node of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.domain.idle.assess import IdleSubject, holders
from service.domain.idle.cleanup import Cleanup, WatchedNode
from service.domain.idle.course import State
from service.domain.idle.policy import Action
from service.domain.lifecycle.expiry import waits_for_job_end
from service.domain.lifecycle.precedence import HELD_BY, EndCause, Holder
from service.domain.nodes.keep import Keep, cloud_ends_at, goes_at, keep_of_node
from service.domain.nodes.node import Asked, Node


@dataclass(frozen=True, slots=True)
class End:
    """One way in which a node may end. `at` is None where nobody knows when."""

    ender: EndCause
    reason: str
    at: int | None
    held_by: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class EndOutlook:
    """What is known of a node: how the cleanup of its project stands, the newest look at its
    idleness, the job that it was made for and that runs on it (empty for none), and the exceeded
    budgets that delete it, by name, each with when."""

    node: Node
    cleanup: Cleanup
    subject: IdleSubject | None = None
    watched: WatchedNode | None = None
    own_job: str = ""
    budgets: Mapping[str, int] = field(default_factory=dict)


def ends_of(outlook: EndOutlook, now: int) -> tuple[End, ...]:
    """All that may end a node, the strongest first. None of a node that is being deleted."""
    node = outlook.node
    if node.ended or node.asked is Asked.ABSENT:
        return ()
    keep = keep_of_node(node)
    found = [
        _google(node),
        _job_end(outlook, keep, now),
        _budget(outlook),
        _ttl(outlook, keep, now),
        _idle(outlook, now),
    ]
    return tuple(end for end in found if end is not None)


def _google(node: Node) -> End | None:
    at = cloud_ends_at(node)
    return None if at is None else End(EndCause.GOOGLE, "Google ends a flex-start node", at)


def _job_end(outlook: EndOutlook, keep: Keep | None, now: int) -> End | None:
    node = outlook.node
    if waits_for_job_end(node):
        held_by = _held_by(EndCause.JOB_END, keep, now, is_paused=False)
        return End(EndCause.JOB_END, node.ends_after_keep, goes_at(node), held_by)
    if outlook.own_job:
        return End(EndCause.JOB_END, f"it goes with job {outlook.own_job}", None)
    return None


def _budget(outlook: EndOutlook) -> End | None:
    """The budget that deletes the node first, whatever holds."""
    if not outlook.budgets:
        return None
    name, at = min(outlook.budgets.items(), key=lambda one: (one[1], one[0]))
    return End(EndCause.BUDGET, f"the budget {name!r} is exceeded", at)


def _ttl(outlook: EndOutlook, keep: Keep | None, now: int) -> End | None:
    node = outlook.node
    over_at = node.deletes_at
    if over_at is None:
        return None
    is_paused = outlook.cleanup.is_paused
    held_by = _held_by(EndCause.TTL, keep, max(over_at, now), is_paused=is_paused)
    at = None if Holder.PAUSE in held_by else _ttl_at(over_at, keep)
    return End(EndCause.TTL, f"its time to live of {node.spec.ttl_seconds} s", at, held_by)


def _ttl_at(over_at: int, keep: Keep | None) -> int | None:
    """When a time to live is over, and no keep holds it back any more."""
    if keep is None:
        return over_at
    return None if keep.until is None else max(over_at, keep.until)


def _idle(outlook: EndOutlook, now: int) -> End | None:
    subject, watched = outlook.subject, outlook.watched
    if subject is None or watched is None or watched.verdict is None:
        return None
    applied = subject.applied
    if applied.rule.action.rank < Action.STOP.rank:
        return None
    held_by = holders(subject, watched.verdict, now)
    is_paused = outlook.cleanup.is_paused
    held_by += [Holder.RAILS] if outlook.cleanup.holds and not is_paused else []
    held_by += [Holder.PAUSE] if is_paused else []
    held_by += [Holder.MODE] if applied.action.rank < Action.STOP.rank else []
    verb = "deletes" if applied.rule.action is Action.DELETE else "stops"
    whose = "its own policy" if applied.is_own else f"the policy of {applied.source}"
    reason = f"{whose} {verb} idle nodes"
    return End(EndCause.IDLE, reason, _idle_at(subject, watched, now), tuple(held_by))


def _idle_at(subject: IdleSubject, watched: WatchedNode, now: int) -> int | None:
    """When an idle node would go; one that is kept has the whole grace once the keep is over."""
    keep = subject.keep
    is_idle = watched.course.state is State.CANDIDATE
    if keep is None or not keep.holds(now) or not is_idle:
        return watched.due_at
    return None if keep.until is None else keep.until + subject.applied.rule.grace_seconds


def _held_by(ender: EndCause, keep: Keep | None, at: int, *, is_paused: bool) -> tuple[Holder, ...]:
    holding = {
        Holder.KEEP: keep is not None and keep.holds(at),
        Holder.PAUSE: is_paused,
    }
    return tuple(one for one, holds in holding.items() if holds and one in HELD_BY[ender])
