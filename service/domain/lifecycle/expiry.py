"""The end of a node by its time to live or with its job, and what holds that back. Pure.

A keep holds both back, a pause of the cleanup the time to live alone; see
`service.domain.lifecycle.precedence`. Once a keep ends that has held a time to live back, the owner
is told first, and has the grace of the idle policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.clock import rfc3339
from service.domain.lifecycle.lifecycle import deadline
from service.domain.lifecycle.precedence import EndCause, Holder, decide
from service.domain.nodes.keep import TTL_HELD, TTL_TOLD, is_on_notice, keep_of_node
from service.domain.nodes.node import Asked, Node

NOTICE = "notice that its time to live is over"


class ExpiryStep(StrEnum):
    """What is done about the end of a node now."""

    HOLD = "hold"
    NOTICE = "notice"
    END = "end"


@dataclass(frozen=True, slots=True)
class Expiry:
    """What is done now. `reason` is that of the strongest ender that applies, `also` has those of
    the others; `held_by` is what holds the end back."""

    turn: ExpiryStep
    reason: str
    also: tuple[str, ...] = ()
    held_by: tuple[Holder, ...] = ()

    @property
    def sentence(self) -> str:
        """The reason, with the others beside it."""
        return f"{self.reason} (also: {'; '.join(self.also)})" if self.also else self.reason


def waits_for_job_end(node: Node) -> bool:
    """Whether the job of the node has ended, and a keep alone has the node stay."""
    return node.ends_after_keep not in ("", TTL_HELD, TTL_TOLD)


def expiry_of(node: Node, over: str, now: int, *, is_paused: bool) -> Expiry | None:
    """What is done about the end of a node; None while nothing ends it.

    `over` is why its time is over (`service.domain.lifecycle.lifecycle.out_of_time`), empty where
    it is not. A node that was never READY is given up whatever holds: there is nothing to keep.
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
    decision = decide(reasons, _holders(node, now, is_paused=is_paused))
    if decision.ender is None:
        held_by = sorted({one for holders in decision.held.values() for one in holders})
        return Expiry(ExpiryStep.HOLD, *_told(reasons, min(reasons)), tuple(held_by))
    needs_notice = decision.ender is EndCause.TTL and _was_kept(node)
    turn = ExpiryStep.NOTICE if needs_notice else ExpiryStep.END
    return Expiry(turn, *_told(reasons, decision.ender))


def other_reasons(node: Node, over: str) -> str:
    """What would end a node as well that somebody stronger ends now, to be said beside the reason;
    empty where nothing would. `over` is as of `expiry_of`."""
    job_end = node.ends_after_keep if waits_for_job_end(node) else ""
    others = [reason for reason in (job_end, over) if reason]
    return f" (also: {'; '.join(others)})" if others else ""


def _told(reasons: Mapping[EndCause, str], first: EndCause) -> tuple[str, tuple[str, ...]]:
    others = tuple(reasons[ender] for ender in sorted(reasons) if ender is not first)
    return reasons[first], others


def _holders(node: Node, now: int, *, is_paused: bool) -> list[Holder]:
    keep = keep_of_node(node)
    is_kept = keep is not None and keep.holds(now)
    return [*([Holder.KEEP] if is_kept else []), *([Holder.PAUSE] if is_paused else [])]


def _was_kept(node: Node) -> bool:
    """Whether a keep has held the time to live back, and nobody was told of its end yet."""
    if is_on_notice(node):
        return False
    keep, over_at = keep_of_node(node), node.deletes_at
    outlived = keep is not None and keep.until is not None and (over_at or 0) < keep.until
    return node.ends_after_keep == TTL_HELD or outlived


def held(node: Node, expiry: Expiry, now: int) -> Node:
    """The node whose end is held back. That a keep outlived the time to live is remembered, as the
    keep may be gone at the next look."""
    is_outlived = Holder.KEEP in expiry.held_by and not node.ends_after_keep
    marked = replace(node, ends_after_keep=TTL_HELD) if is_outlived else node
    return replace(marked, next_try_at=deadline(marked, now))


def on_notice(node: Node, now: int, grace: int) -> Node:
    """The node once its owner was told that the time to live is over: it stays for `grace` seconds
    more, and nobody is told again."""
    return replace(
        node,
        kept_until=now + grace,
        kept_because=NOTICE,
        ends_after_keep=TTL_TOLD,
        next_try_at=now + grace,
    )


def after_job(node: Node, reason: str, now: int) -> Node | None:
    """The node of a job that has ended, where a keep has it stay; None where it goes now. What was
    never sent to the cloud is not kept."""
    keep = keep_of_node(node)
    if keep is None or not keep.holds(now) or is_on_notice(node) or node.sent_at is None:
        return None
    marked = replace(node, ends_after_keep=reason)
    return replace(marked, next_try_at=deadline(marked, now))


def keep_sentence(node: Node) -> str:
    """Until when a node is kept, and why; empty where nobody ever kept it."""
    keep = keep_of_node(node)
    if keep is None:
        return ""
    until = "an invalid date" if keep.until is None else rfc3339(keep.until)
    return f"it is kept until {until} ({keep.reason})"
