"""The terms of a node that its owner can change: idle policy and time to live. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.idle.policy import check_own
from service.domain.lifecycle.expiry import next_deadline
from service.domain.nodes.keep import TTL_HELD, TTL_TOLD, cloud_ends_at, is_on_notice, without_keep
from service.domain.nodes.node import Asked, IdlePolicy, Node, NodeSpec


class Unset(Enum):
    """A field that a change leaves out, and so does not change; None has another meaning."""

    UNSAID = auto()


UNSAID = Unset.UNSAID


@dataclass(frozen=True, slots=True)
class TermsChange:
    """The changes to a node. With `idle` None the node inherits the policy of its team, its project
    or the default; with `ttl_seconds` None it lives until it is deleted."""

    idle: IdlePolicy | Unset | None = UNSAID
    ttl_seconds: int | Unset | None = UNSAID


def check_idle(spec: NodeSpec, least: int) -> None:
    """Raise Rejected for terms whose idle policy is not allowed for one of the node's possible
    types. `least` is the shortest idle time in seconds that signals can prove."""
    if spec.idle is not None:
        for hardware in spec.possible_hardware:
            check_own(spec.idle, spec.made_of(hardware), least)


def with_terms(node: Node, change: TermsChange, now: int, least: int) -> Node:
    """Return the node with other terms; the same node without a change.

    Raises Rejected for an idle policy that cannot hold, for a time to live that is over already,
    and for any new time to live of a flex-start node, which Google already has; Conflict for a node
    that is being deleted.
    """
    spec = node.spec
    if not isinstance(change.idle, Unset):
        spec = replace(spec, idle=change.idle)
    if not isinstance(change.ttl_seconds, Unset):
        spec = replace(spec, ttl_seconds=change.ttl_seconds)
    if spec == node.spec:
        return node
    if node.has_ended or node.asked is Asked.ABSENT:
        raise Conflict(
            f"node {node.name} is {node.state}: it was deleted, and a deletion cannot be undone"
        )
    if spec.idle != node.spec.idle:
        check_idle(spec, least)
    after = replace(node, spec=spec)
    return after if spec.ttl_seconds == node.spec.ttl_seconds else _with_ttl(after, node, now)


def _with_ttl(after: Node, before: Node, now: int) -> Node:
    if after.spec.provisioning_model is ProvisioningModel.FLEX_START:
        at = cloud_ends_at(before)
        when = f"{before.spec.ttl_seconds} s after its start" if at is None else to_rfc3339(at)
        raise Rejected(
            f"Google knows the time to live of this flex-start node, and deletes it {when}; it"
            " cannot be changed",
            field="ttl_seconds",
            ends_at=None if at is None else to_rfc3339(at),
        )
    if after.deletes_at is not None and after.deletes_at <= now:
        raise Rejected(
            f"that time to live was over at {to_rfc3339(after.deletes_at)}: it counts from the"
            " first READY; give a longer one, or delete the node",
            field="ttl_seconds",
        )
    if is_on_notice(after):
        after = without_keep(after)
    if after.ends_after_keep in (TTL_HELD, TTL_TOLD):
        after = replace(after, ends_after_keep="")
    times = (after.next_try_at, next_deadline(after, now))
    return replace(after, next_try_at=min((at for at in times if at is not None), default=None))


def terms_difference(before: Node, after: Node) -> str:
    """Return the changes of the terms as a text for the node's events."""
    words = []
    if before.spec.idle != after.spec.idle:
        new, old = _describe_policy(after.spec.idle), _describe_policy(before.spec.idle)
        words.append(f"idle policy {new}, was {old}")
    if before.spec.ttl_seconds != after.spec.ttl_seconds:
        new, old = _describe_ttl(after.spec.ttl_seconds), _describe_ttl(before.spec.ttl_seconds)
        words.append(f"time to live {new}, was {old}")
    return "; ".join(words)


def _describe_policy(own: IdlePolicy | None) -> str:
    if own is None:
        return "inherited"
    also = f", also {' and '.join(own.also)}" if own.also else ""
    return f"{own.action} after {own.after_seconds} s with {own.grace_seconds} s of grace{also}"


def _describe_ttl(seconds: int | None) -> str:
    return "none" if seconds is None else f"{seconds} s"
