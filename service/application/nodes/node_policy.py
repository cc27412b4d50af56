"""The idle policy that applies to a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.idle.ends import End
from service.domain.idle.policy import Action, AppliedRule, Recipient, apply_policies
from service.domain.nodes.keep import LABEL, keep_by_label
from service.domain.nodes.node import Node
from service.domain.notifications.node_messages import recipients_of
from service.store.unit import Unit


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The policy that applies to a node, its recipients (those of the policy, and the owner if that
    is an e-mail address), and everything that may end the node."""

    node: Node
    applied: AppliedRule
    recipients: Sequence[Recipient]
    ends: tuple[End, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: the node's own policy asks for more than is done, and why; the date in its keep
        label cannot be parsed."""
        found, keep = [], keep_by_label(self.node.labels)
        wanted, done = self.applied.rule.action, self.applied.action
        if self.applied.is_own and wanted is not done:
            limits = "; ".join(self.applied.limits)
            found.append(f"idle.action is {wanted}, and {done} is done: {limits}")
        if keep is not None and keep.is_unreadable:
            found.append(
                f"{keep.reason} cannot be read, so the node is kept until that is corrected: write"
                f" the date as in {LABEL}=2026-12-01"
            )
        return tuple(found)


def read_node_policy(unit: Unit, node: Node, ceiling: Action) -> NodePolicy:
    """The policy that applies to a node, if `ceiling` is the most that may be done."""
    found = apply_policies(node.spec, node.team, unit.idle_policies.find_all(), ceiling)
    return NodePolicy(node, found, recipients_of(found, node.owner))
