"""Keeps: no idleness, time to live or end of a job deletes a node that is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.application.budgets import admission
from service.application.nodes.nodes import change_node
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import Conflict
from service.domain.event import Event
from service.domain.idle.policy import Action, apply_policies
from service.domain.nodes.keep import (
    TTL_TOLD,
    Keep,
    asked_keep,
    cloud_ends_at,
    is_on_notice,
    keep_of,
    keep_of_node,
    keep_sentence,
    with_keep,
    without_keep,
)
from service.domain.nodes.node import Node
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

CALLER = "caller"


@dataclass(frozen=True, slots=True)
class KeptNode:
    """The node after a keep began or ended, and warnings for its owner."""

    node: Node
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeepOrder:
    """For how long a node is kept, and why: exactly one of `until` (UTC seconds) and
    `for_seconds`."""

    reason: str
    until: int | None = None
    for_seconds: int | None = None


class KeepService:
    """Each public method is one unit of work, without a call to the cloud."""

    def __init__(self, units: Units, prices: PriceBookCache, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def keep_node(
        self, node_id: str, order: KeepOrder, *, version: int | None = None, actor: str = ""
    ) -> KeptNode:
        """Keep a node. A longer keep stays as it is, and a warning says so. Raises Rejected for no
        reason, more than 30 days, the past, or beyond Google's own end of the node; Conflict for a
        node that is being deleted, BudgetExceeded if a budget has no room for the node beyond its
        time to live."""

        def write_and_record(unit: Unit, node: Node) -> KeptNode:
            now = self._clock()
            keep = keep_of(
                now,
                order.reason,
                until=order.until,
                for_seconds=order.for_seconds,
                ends_at=cloud_ends_at(node),
            )
            after = write_keep(unit, node, keep, self._prices, now)
            if after is node:
                return KeptNode(
                    node, (f"{keep_sentence(node)} already; a shorter keep has no effect",)
                )
            until = to_rfc3339(keep.until or now)
            message = f"kept until {until}: {keep.reason}"
            unit.events.add(Event(node.id, now, "asked", message, actor or CALLER))
            return KeptNode(after)

        return change_node(self._units, self._clock, node_id, version, write_and_record)

    def end_keep(self, node_id: str, *, version: int | None = None, actor: str = "") -> KeptNode:
        """End the keep of a node. The end that the keep held back follows: the end of a job at
        once, a time to live after a notice. Raises Conflict if the node is not kept."""

        def end_and_record(unit: Unit, node: Node) -> KeptNode:
            now = self._clock()
            keep = asked_keep(node, now)
            if keep is None:
                raise Conflict(_describe_not_kept(node, now))
            message = f"the keep until {to_rfc3339(keep.until or now)} ends"
            unit.events.add(Event(node.id, now, "asked", message, actor or CALLER))
            after = unit.nodes.save(replace(without_keep(node), next_try_at=now))
            admission.extend_hold(unit, after, now, self._prices, now)
            next_ends: tuple[str, ...] = ()
            if after.ends_after_keep:
                why = f"because only the keep prevented it: {after.ends_after_keep}"
                next_ends = (f"the node is deleted next, {why}",)
            elif after.deletes_at is not None and after.deletes_at <= now:
                next_ends = ("the node is deleted after a notice: its time to live has expired",)
            return KeptNode(after, next_ends)

        return change_node(self._units, self._clock, node_id, version, end_and_record)


def write_keep(unit: Unit, node: Node, keep: Keep, prices: PriceBookCache, now: int) -> Node:
    """Write a keep in the caller's unit of work; returns the same node if it is kept for as long
    already. The cost beyond its time to live is set aside: raises BudgetExceeded if a budget has no
    room for it, Conflict for a node that is being deleted."""
    after = with_keep(node, keep, now)
    if after is node:
        return node
    after = unit.nodes.save(after)
    policy = apply_policies(node.spec, node.team, unit.idle_policies.find_all(), Action.DELETE)
    assert keep.until is not None
    admission.extend_hold(unit, after, keep.until + policy.rule.grace_seconds, prices, now)
    return after


def _describe_not_kept(node: Node, now: int) -> str:
    if is_on_notice(node) and node.kept_until is not None:
        return (
            f"node {node.name} is not kept: {TTL_TOLD}, and it is deleted at"
            f" {to_rfc3339(node.kept_until)}"
        )
    keep = keep_of_node(node)
    if keep is not None and keep.is_active(now):
        return f"node {node.name} is kept by {keep.reason}; remove that label to end the keep"
    return f"node {node.name} is not kept"
