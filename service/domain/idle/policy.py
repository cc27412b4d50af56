"""Idle policies: the action on an idle node, its idle time, and the scope of the rule. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from service.domain.errors import Rejected
from service.domain.nodes.node import IdlePolicy, NodeSpec
from service.domain.nodes.stop_rules import stop_obstacles

MAX_SECONDS = 30 * 86_400
"""The longest idle time of a policy: signals are kept for this long."""


class Action(StrEnum):
    """What is done with an idle node. Each includes those before it."""

    OBSERVE = "observe"
    NOTIFY = "notify"
    STOP = "stop"
    DELETE = "delete"

    @property
    def rank(self) -> int:
        """The place in the order observe, notify, stop, delete."""
        return _RANKS[self]

    def limited_to(self, ceiling: Action) -> Action:
        """Return the weaker of both actions."""
        return ceiling if ceiling.rank < self.rank else self


_RANKS = {action: rank for rank, action in enumerate(Action)}


class Waste(StrEnum):
    """A node that looks busy and does no work. It is idle, and deleted only where `also` says so
    (reference/jobs.md J10)."""

    CRASH_LOOP = "crash_loop"
    NO_PROGRESS = "no_progress"


class Format(StrEnum):
    """The body that a webhook gets."""

    STEWARD = "steward"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Recipient:
    """The recipient of a notice: a webhook with the secret that signs for it, or e-mail
    addresses."""

    webhook: str = ""
    secret: str = ""
    format: Format = Format.STEWARD
    emails: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """The action after a number of quiet seconds, with `grace_seconds` of notice."""

    idle_after_seconds: int = 3_600
    grace_seconds: int = 900
    action: Action = Action.NOTIFY
    also: frozenset[Waste] = frozenset()


DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Policy:
    """The rule of one scope: `default`, `project:<p>` or `team:<t>`. `version` is 0 before it was
    ever written."""

    scope: str
    rule: Rule = Rule()
    recipients: tuple[Recipient, ...] = ()
    version: int = 0
    updated_at: int = 0


SHIPPED = Policy(DEFAULT)
"""The policy where none is written: notify after an hour, delete nothing."""


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """The rule that holds for one node.

    `source` is `node` or the scope that it comes from, `version` that of its row. `action` is the
    effective action, `limits` say why it is weaker than the rule's own. `recipients` come from
    `told_by`, which is empty without recipients.
    """

    rule: Rule
    source: str
    version: int
    action: Action
    limits: tuple[str, ...]
    recipients: tuple[Recipient, ...]
    told_by: str

    @property
    def is_own(self) -> bool:
        """Whether the rule is the node's own, and not of a team, a project or the default."""
        return self.source == "node"


def check_scope(scope: str) -> None:
    """Raise Rejected for text that is not the scope of an idle policy."""
    kind, colon, name = scope.partition(":")
    is_named = kind in ("project", "team") and colon and name.strip() == name and name
    if scope != DEFAULT and not is_named:
        raise Rejected(
            f"{scope[:80]!r} is not a scope; write default, project:<project> or team:<team>",
            field="scope",
        )


def check_rule(rule: Rule, least: int, prefix: str = "") -> None:
    """Raise Rejected for a rule of an idle policy that cannot hold or contradicts itself. `least`
    is the shortest idle time in seconds that signals can prove."""
    if rule.idle_after_seconds < least:
        raise Rejected(
            f"{rule.idle_after_seconds} s is less than signals take to arrive;"
            f" the least is {least} s",
            field=f"{prefix}after_seconds" if prefix else "idle_after_seconds",
            least=least,
        )
    if rule.also and rule.action.rank < Action.STOP.rank:
        raise Rejected(
            f"also: {', '.join(sorted(rule.also))} needs the action stop or delete, and the action"
            f" is {rule.action}; leave out also, or change the action",
            field=f"{prefix}also",
        )


@lru_cache(maxsize=1_000)
def rule_of(own: IdlePolicy) -> Rule:
    """Return the rule of a node's own idle policy."""
    return Rule(
        own.after_seconds,
        own.grace_seconds,
        Action(own.action),
        frozenset(map(Waste, own.also)),
    )


def scopes_of(spec: NodeSpec, team: str) -> Sequence[str]:
    """Return the scopes whose idle policies may hold for a node, the nearest first."""
    return [*([f"team:{team}"] if team else []), f"project:{spec.project}", DEFAULT]


def apply_policies(
    spec: NodeSpec, team: str, policies: Mapping[str, Policy], ceiling: Action
) -> AppliedRule:
    """Return the rule of the idle policy that holds for a node. It is the node's own, else its
    team's, its project's, the default.

    Recipients are those of the policy that holds, else of the nearest policy with recipients: who
    is notified need not be who set the rule.
    """
    scopes = scopes_of(spec, team)
    known = [policies[scope] for scope in scopes if scope in policies]
    inherited = known[0] if known else SHIPPED
    rule = inherited.rule if spec.idle is None else rule_of(spec.idle)
    told = [policy for policy in known if policy.recipients]
    action, limits = _limit_action(rule.action, spec, ceiling, is_own=spec.idle is not None)
    return AppliedRule(
        rule=rule,
        source=inherited.scope if spec.idle is None else "node",
        version=inherited.version if spec.idle is None else 0,
        action=action,
        limits=limits,
        recipients=told[0].recipients if told else (),
        told_by=told[0].scope if told else "",
    )


def with_waste(found: AppliedRule, waste: Waste | None) -> AppliedRule:
    """Return the idle policy's rule for a node that looks busy and does no work. Recipients are
    notified, and a stronger action needs the rule's `also`."""
    if waste is None or waste in found.rule.also:
        return found
    action = found.action.limited_to(Action.NOTIFY)
    if action is found.action:
        return found
    limit = f"a node in {waste} is only notified; to have it deleted, set also: {waste}"
    return replace(found, action=action, limits=(*found.limits, limit))


def _limit_action(
    wanted: Action, spec: NodeSpec, ceiling: Action, *, is_own: bool
) -> tuple[Action, tuple[str, ...]]:
    """The effective action, and the reasons why it is weaker. A stop that the cloud cannot do never
    becomes a deletion: a deletion that the mode limits to a stop becomes a notice too. A node's own
    policy never asks for such a stop."""
    action, limits = wanted.limited_to(ceiling), []
    does_stop = Action.STOP in (wanted, action) and not (is_own and wanted is Action.STOP)
    if does_stop and (why := stop_obstacles(spec)):
        action = action.limited_to(Action.NOTIFY)
        limits.append(f"the cloud cannot stop this node: {'; '.join(why)}")
    if ceiling.rank < wanted.rank:
        limits.append(f"STEWARD_IDLE_MODE is {ceiling}")
    return action, tuple(limits)


def check_own(own: IdlePolicy, spec: NodeSpec, least: int) -> None:
    """Raise Rejected for an idle policy that a node may not have of its own."""
    check_rule(rule_of(own), least, "idle.")
    if own.action == Action.STOP and (why := stop_obstacles(spec)):
        raise Rejected(
            f"the cloud cannot stop this node: {'; '.join(why)};"
            " set the action to notify or delete",
            field="idle.action",
        )
