"""Decides when the time to live or the end of a job ends a node, and what holds that back. Pure.

A keep holds both back, a pause of the cleanup only the time to live; see
`service.domain.lifecycle.precedence`. After a keep that has held a time to live back, the owner is
notified first, and has the grace of the idle policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.lifecycle.precedence import EndCause, Holder, decide_end
from service.domain.nodes.keep import (
    TTL_HELD,
    TTL_TOLD,
    is_on_notice,
    keep_of_node,
    waits_for_job_end,
)
from service.domain.nodes.node import Asked, Node

NOTICE = "notice that its time to live is over"

HELD_SECONDS = 60
"""Seconds between two polls of a node whose end is held back without a date."""


class ExpiryStep(StrEnum):
    """The action on the end of a node now."""

    HOLD = "hold"
    NOTICE = "notice"
    END = "end"


@dataclass(frozen=True, slots=True)
class Expiry:
    """The action now, with the reason of the strongest cause that applies.

    `held_by` is what holds the end back.
    """

    step: ExpiryStep
    reason: str
    held_by: tuple[Holder, ...] = ()


def out_of_time(node: Node, now: int) -> str:
    """Why the owner's time limits end the lifecycle of a node; empty if they do not."""
    if node.asked is Asked.ABSENT:
        return ""
    if node.ready_at is not None:
        over = node.deletes_at is not None and now >= node.deletes_at
        return "its time to live has expired" if over else ""
    limit, until = node.spec.max_wait_seconds, node.spec.valid_until
    if limit is not None and now - node.created_at >= limit:
        return f"it was not READY within {limit} seconds"
    if until is not None and now >= until:
        return "it was not READY by the time until which it was wanted"
    return ""


def expiry_of(node: Node, over: str, now: int, *, is_paused: bool) -> Expiry | None:
    """The action on the expiry of a node; None while nothing ends it.

    `over` is why its time is over (see `out_of_time`); empty if it
    is not. A node that was never READY ends in spite of any holder: there is nothing to keep.
    """
    if node.asked is Asked.ABSENT:
        return None
    if over and node.ready_at is None:
        return Expiry(ExpiryStep.END, over)
    reasons: dict[EndCause, str] = {}
    if waits_for_job_end(node):
        reasons[EndCause.JOB_END] = node.ends_after_keep
    if over:
        reasons[EndCause.TTL] = over
    if not reasons:
        return None
    keep = keep_of_node(node)
    is_kept = keep is not None and keep.is_active(now)
    holding = [*([Holder.KEEP] if is_kept else []), *([Holder.PAUSE] if is_paused else [])]
    decision = decide_end(reasons, holding)
    if decision.ender is None:
        held_by = sorted({holder for holders in decision.held.values() for holder in holders})
        return Expiry(ExpiryStep.HOLD, reasons[min(reasons)], tuple(held_by))
    # A keep has held the time to live back, and the owner was not notified yet.
    outlived = keep is not None and keep.until is not None and (node.deletes_at or 0) < keep.until
    was_kept = (node.ends_after_keep == TTL_HELD or outlived) and not is_on_notice(node)
    needs_notice = decision.ender is EndCause.TTL and was_kept
    step = ExpiryStep.NOTICE if needs_notice else ExpiryStep.END
    return Expiry(step, reasons[decision.ender])


def next_deadline(node: Node, now: int) -> int | None:
    """The next instant at which a time limit may end a node's lifecycle; None if there is none.

    An end that a keep or a pause holds back is checked again when that may be over.
    """
    if node.asked is Asked.ABSENT:
        return node.deletes_at
    if node.ready_at is None and not node.ends_after_keep:
        limit, until = node.spec.max_wait_seconds, node.spec.valid_until
        ends = (None if limit is None else node.created_at + limit, until)
        return min((end for end in ends if end is not None), default=None)
    at = now if node.ends_after_keep else node.deletes_at
    if at is None:
        return None
    keep = keep_of_node(node)
    if keep is not None and keep.is_active(max(at, now)):
        at = now if keep.until is None else max(at, keep.until)
    return at if at > now else now + HELD_SECONDS


def with_end_held(node: Node, expiry: Expiry, now: int) -> Node:
    """The node after a keep or a pause held its expiry back.

    A keep that outlives the time to live is recorded, because it may be gone at the next poll.
    """
    is_outlived = Holder.KEEP in expiry.held_by and not node.ends_after_keep
    marked = replace(node, ends_after_keep=TTL_HELD) if is_outlived else node
    return replace(marked, next_try_at=next_deadline(marked, now))


def with_notice(node: Node, now: int, grace: int) -> Node:
    """The node after its owner was notified of the expiry of its time to live.

    It stays for `grace` seconds more, and the owner is not notified again.
    """
    return replace(
        node,
        kept_until=now + grace,
        kept_because=NOTICE,
        ends_after_keep=TTL_TOLD,
        next_try_at=now + grace,
    )


def with_ended_job(node: Node, reason: str, now: int) -> Node | None:
    """The node after its job ended, if a keep delays its expiry; None if it ends now.

    A node that was never sent to the cloud is not kept.
    """
    keep = keep_of_node(node)
    if keep is None or not keep.is_active(now) or is_on_notice(node) or node.sent_at is None:
        return None
    marked = replace(node, ends_after_keep=reason)
    return replace(marked, next_try_at=next_deadline(marked, now))
