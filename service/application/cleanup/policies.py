"""Idle policies as people write them, and the policy that applies to a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from service.application.budgets.budgets import MessageReach
from service.application.cleanup.cleanup import IdleMode
from service.application.nodes.node_policy import NodePolicy, read_node_policy
from service.application.projects import choose_projects
from service.application.retries import run_with_retries
from service.domain.clock import Clock
from service.domain.errors import Conflict, NotFound, Rejected, StaleVersion
from service.domain.idle.policy import (
    DEFAULT,
    SHIPPED,
    Policy,
    Recipient,
    Rule,
    check_rule,
    check_scope,
)
from service.domain.notifications.notification import check_recipient
from service.store.idle_fleet import read_subject
from service.store.node_ends import read_ends
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

T = TypeVar("T")

MAX_POLICIES = 1_000
"""Every tick reads all policies."""


class PolicyService:
    """Each method is one unit of work. A write checks the version that was read."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        projects: Sequence[str],
        mode: IdleMode,
        reach: MessageReach | None = None,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects
        self._mode = mode
        self._reach = reach or MessageReach()

    def list_all(self) -> Sequence[Policy]:
        """The default policy, then the others by scope."""
        with self._units.reading() as unit:
            known = unit.idle_policies.find_all()
            default = _get_or_shipped(unit, DEFAULT)
        return [default, *(policy for scope, policy in known.items() if scope != DEFAULT)]

    def get(self, scope: str) -> Policy:
        """The policy of a scope. The default scope has the shipped policy until it is changed.
        Raises Rejected for an invalid scope, NotFound if the scope has no policy."""
        check_scope(scope)
        with self._units.reading() as unit:
            return _get_or_shipped(unit, scope)

    def save(
        self,
        scope: str,
        rule: Rule,
        recipients: Sequence[Recipient] | None,
        *,
        version: int | None = None,
    ) -> Policy:
        """Write the policy of a scope; `recipients` None leaves the stored ones. A known webhook
        keeps its secret if none is given. Raises Rejected for an invalid policy, Conflict if there
        are too many, StaleVersion if `version` is not the current one."""
        check_scope(scope)
        kind, _, name = scope.partition(":")
        if kind == "project":
            choose_projects(name, self._projects)
        check_rule(rule, self._mode.times.least_idle)

        def write_policy(unit: Unit) -> Policy:
            known = unit.idle_policies.find_all()
            before = known.get(scope, Policy(scope, version=unit.idle_policies.read_version(scope)))
            _check_version(before, version)
            if scope not in known and len(known) >= MAX_POLICIES:
                raise Conflict(f"there are {MAX_POLICIES} policies; delete one first")
            notified = before.recipients
            if recipients is not None:
                secrets = {
                    recipient.webhook: recipient.secret
                    for recipient in notified
                    if recipient.webhook
                }
                notified = tuple(
                    replace(to, secret=to.secret or secrets.get(to.webhook, ""))
                    if to.webhook
                    else to
                    for to in recipients
                )
                self._check_recipients(notified, before.recipients)
            after = replace(before, rule=rule, recipients=notified, updated_at=self._clock())
            return unit.idle_policies.save(after)

        return self._retry_stale(write_policy, once=version is not None)

    def delete(self, scope: str, *, version: int | None = None) -> Policy:
        """Delete the policy of a scope, so that the scope inherits again; returns the policy.
        Raises NotFound, or StaleVersion."""
        check_scope(scope)

        def delete_policy(unit: Unit) -> Policy:
            policy = unit.idle_policies.get(scope)
            _check_version(policy, version)
            unit.idle_policies.delete(policy, self._clock())
            return policy

        return self._retry_stale(delete_policy, once=version is not None)

    def get_for_node(self, node_id: str) -> NodePolicy:
        """The policy that applies to a node; raises NotFound."""
        with self._units.reading() as unit:
            return read_node_policy(unit, unit.nodes.get(node_id), self._mode.ceiling)

    def get_with_ends(self, node_id: str) -> NodePolicy:
        """The policy that applies to a node, with everything that may end the node; raises
        NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
            subject = read_subject(unit, node, self._prices, self._mode.ceiling, now)
            found = read_node_policy(unit, node, self._mode.ceiling)
            return replace(found, ends=read_ends(unit, node, subject, now))

    def _check_recipients(self, notified: Sequence[Recipient], before: Sequence[Recipient]) -> None:
        known = {recipient.webhook for recipient in before}
        for number, recipient in enumerate(notified):
            private = self._reach.private_webhooks or recipient.webhook in known
            try:
                check_recipient(recipient, allow_private=private)
            except Rejected as error:
                field = str(error.facts["field"])
                where = f"recipients[{number}]" + ("" if field == "recipients" else f".{field}")
                raise Rejected(str(error), field=where) from None

    def _retry_stale(self, work: Callable[[Unit], T], *, once: bool) -> T:
        return run_with_retries(self._units, work, "the policy", once=once)


def _get_or_shipped(unit: Unit, scope: str) -> Policy:
    try:
        return unit.idle_policies.get(scope)
    except NotFound:
        if scope != DEFAULT:
            raise
    return replace(SHIPPED, version=unit.idle_policies.read_version(DEFAULT))


def _check_version(policy: Policy, version: int | None) -> None:
    if version is not None and version != policy.version:
        raise StaleVersion(
            f"the idle policy of {policy.scope} has changed since you read it",
            version=policy.version,
        )
