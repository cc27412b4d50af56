"""Routes of idle policies, and of the policy that applies to a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import Field

from service.api.http.deps import PoliciesDep, VersionDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Line, Page, PageQuery, Secret, Time, View, time_or_none
from service.application.nodes.node_policy import NodePolicy
from service.domain.clock import to_rfc3339
from service.domain.idle.ends import End
from service.domain.idle.policy import (
    MAX_SECONDS,
    Action,
    AppliedRule,
    Format,
    Policy,
    Recipient,
    Rule,
    Waste,
)
from service.domain.lifecycle.precedence import Holder
from service.domain.notifications.notification import MAX_URL, origin_of

router = Router(prefix="/v1", tags=["cleanup"])

MAX_RECIPIENTS = 20
_ETAG: dict[str, Any] = {
    "ETag": {"description": 'Its version, for If-Match: `"3"`.', "schema": {"type": "string"}}
}
Scope = Annotated[
    str,
    Path(
        max_length=300,
        description="`default`, `project:<project>` or `team:<team>`.",
        examples=["team:vision"],
    ),
]
Wait = Annotated[int, Field(strict=True, ge=0, le=MAX_SECONDS)]


class RecipientBody(Body):
    """Who is told: either a webhook or e-mail addresses."""

    webhook: Annotated[str, Field(max_length=MAX_URL)] | None = Field(
        default=None,
        description="The address to which messages are sent.",
        examples=["https://hooks.example.com/tpus"],
    )
    secret: Secret | None = Field(
        default=None,
        description="Signs the messages to the webhook. It is never shown again. A webhook"
        " that exists keeps its secret if none is given. Not needed for `slack`.",
        examples=["a long random text"],
    )
    format: Format = Field(default=Format.STEWARD, description="The body that the webhook gets.")
    emails: Annotated[tuple[Line, ...], Field(max_length=20)] = Field(default=(), examples=[[]])

    def to_recipient(self) -> Recipient:
        """The same in the words of the domain."""
        return Recipient(self.webhook or "", self.secret or "", self.format, self.emails)


class PolicyRequest(Body):
    """A policy. A field that is left out has its default; `recipients` that are left out stay."""

    idle_after_seconds: Wait = Field(
        default=3_600,
        description="Seconds a node must be quiet to be idle. The least value depends on how"
        " late signals arrive; a lower value is refused with the least one.",
        examples=[3_600],
    )
    grace_seconds: Wait = Field(
        default=900, description="Seconds between the notification and the action.", examples=[900]
    )
    action: Action = Field(
        default=Action.NOTIFY,
        description="What is done with an idle node, at most; STEWARD_IDLE_MODE may allow less.",
    )
    also: Annotated[tuple[Waste, ...], Field(max_length=len(Waste))] = Field(
        default=(),
        description="Nodes that look busy and do no work, and are stopped or deleted too.",
        examples=[["crash_loop"]],
    )
    recipients: Annotated[tuple[RecipientBody, ...], Field(max_length=MAX_RECIPIENTS)] | None = (
        Field(
            default=None,
            description="Who is told. Left out, the present ones stay; an empty list removes all.",
            examples=[[{"emails": ["ada@example.com"]}]],
        )
    )

    def to_rule(self) -> Rule:
        """The rule in terms of the domain."""
        return Rule(self.idle_after_seconds, self.grace_seconds, self.action, frozenset(self.also))

    def to_recipients(self) -> Sequence[Recipient] | None:
        """The recipients in terms of the domain. None keeps the present recipients."""
        if self.recipients is None:
            return None
        return [recipient.to_recipient() for recipient in self.recipients]


class RecipientView(View):
    """Who is told. Secrets are never shown."""

    webhook: str = Field(
        description="The host of the webhook; the rest may be secret. Empty for e-mail.",
        examples=["https://hooks.example.com/..."],
    )
    format: Format
    emails: tuple[str, ...] = Field(examples=[[]])

    @classmethod
    def from_recipient(cls, recipient: Recipient) -> RecipientView:
        """The view of a recipient."""
        return cls(
            webhook=origin_of(recipient.webhook), format=recipient.format, emails=recipient.emails
        )


class PolicyView(View):
    """What is done with idle nodes of a scope."""

    scope: str = Field(examples=["team:vision"])
    idle_after_seconds: int = Field(examples=[3_600])
    grace_seconds: int = Field(examples=[900])
    action: Action
    also: tuple[Waste, ...] = Field(examples=[[]])
    recipients: tuple[RecipientView, ...]
    version: int = Field(
        description="The ETag of the policy; 0 for the default that is shipped.", examples=[1]
    )
    updated_at: Time | None = Field(description="Null for the default that is shipped.")

    @classmethod
    def from_policy(cls, policy: Policy) -> PolicyView:
        """The view of a policy."""
        return cls(
            scope=policy.scope,
            idle_after_seconds=policy.rule.idle_after_seconds,
            grace_seconds=policy.rule.grace_seconds,
            action=policy.rule.action,
            also=tuple(sorted(policy.rule.also)),
            recipients=tuple(map(RecipientView.from_recipient, policy.recipients)),
            version=policy.version,
            updated_at=to_rfc3339(policy.updated_at) if policy.updated_at else None,
        )


class PolicyPage(Page):
    """A page of policies: the default, then by scope."""

    policies: tuple[PolicyView, ...]


class AppliedView(View):
    """The policy that applies to a node, where it comes from, and what is really done."""

    source: str = Field(description="`node`, or the scope of the policy.", examples=["default"])
    version: int = Field(
        description="The version of that policy; 0 for the node's own.", examples=[0]
    )
    idle_after_seconds: int = Field(examples=[3_600])
    grace_seconds: int = Field(examples=[900])
    action: Action = Field(description="The action of the policy.")
    also: tuple[Waste, ...] = Field(examples=[[]])
    applied_action: Action = Field(description="The action that is taken.")
    limits: tuple[str, ...] = Field(
        description="Why less is done than the policy says.",
        examples=[["STEWARD_IDLE_MODE is observe"]],
    )

    @classmethod
    def from_rule(cls, applied: AppliedRule) -> AppliedView:
        """The view of a rule that applies."""
        return cls(**_applied_fields(applied))


class EndView(View):
    """One way in which a node may end, and what holds it back."""

    rank: int = Field(
        description="1 is the highest rank. The highest rank that applies decides.", examples=[5]
    )
    ender: str = Field(description="google, job_end, budget, ttl or idle.", examples=["ttl"])
    reason: str = Field(examples=["its time to live of 3600 s"])
    at: Time | None = Field(description="Null if the time is not known.")
    held_by: tuple[Holder, ...] = Field(examples=[[]])

    @classmethod
    def from_end(cls, end: End) -> EndView:
        """The view of an end."""
        return cls(
            rank=end.ender,
            ender=end.ender.name.lower(),
            reason=end.reason,
            at=time_or_none(end.at),
            held_by=end.held_by,
        )


class NodePolicyView(AppliedView):
    """The policy that applies to a node, who is notified, and what may end it."""

    node_id: str
    recipients: tuple[RecipientView, ...]
    told_by: str = Field(
        description="The scope whose recipients are told; empty where no policy names any. An owner"
        " that is an e-mail address is told as well.",
        examples=["team:vision"],
    )
    ends: tuple[EndView, ...] = Field(
        description="What may end the node, other than people; highest rank first."
    )

    @classmethod
    def from_node_policy(cls, found: NodePolicy) -> NodePolicyView:
        """The view of the policy of a node."""
        return cls(
            **_applied_fields(found.applied),
            node_id=found.node.id,
            recipients=tuple(map(RecipientView.from_recipient, found.recipients)),
            told_by=found.applied.told_by,
            ends=tuple(map(EndView.from_end, found.ends)),
        )


def _applied_fields(applied: AppliedRule) -> dict[str, Any]:
    rule = applied.rule
    return {
        "source": applied.source,
        "version": applied.version,
        "idle_after_seconds": rule.idle_after_seconds,
        "grace_seconds": rule.grace_seconds,
        "action": rule.action,
        "also": tuple(sorted(rule.also)),
        "applied_action": applied.action,
        "limits": applied.limits,
    }


@router.get(
    "/cleanup/policies", operation_id="list_cleanup_policies", responses=may_answer(422, 503)
)
def list_policies(policies: PoliciesDep, query: Annotated[PageQuery, Query()]) -> PolicyPage:
    """List the default policy, then those of projects and teams by scope."""
    page, token = query.cut_page(policies.list_all())
    return PolicyPage(policies=tuple(map(PolicyView.from_policy, page)), next_page_token=token)


@router.get(
    "/cleanup/policies/{scope:path}",
    operation_id="get_cleanup_policy",
    responses={200: {"model": PolicyView, "headers": _ETAG}, **may_answer(404, 422)},
)
def get_policy(scope: Scope, policies: PoliciesDep, response: Response) -> PolicyView:
    """Get the policy of a scope. Without a `default` policy, the shipped default is answered."""
    return _answer_policy(policies.get(scope), response)


@router.put(
    "/cleanup/policies/{scope:path}",
    operation_id="set_cleanup_policy",
    responses={
        200: {"model": PolicyView, "headers": _ETAG},
        **may_answer(400, 409, 412, 413, 415, 422),
    },
)
def set_policy(
    scope: Scope,
    body: PolicyRequest,
    policies: PoliciesDep,
    version: VersionDep,
    response: Response,
) -> PolicyView:
    """Set the policy of a scope. It applies from the next check on. If it does more than the last
    notification of a node said, the node gets a new notification and the whole grace."""
    policy = policies.save(scope, body.to_rule(), body.to_recipients(), version=version)
    return _answer_policy(policy, response)


@router.delete(
    "/cleanup/policies/{scope:path}",
    operation_id="delete_cleanup_policy",
    responses=may_answer(404, 409, 412, 422),
)
def delete_policy(scope: Scope, policies: PoliciesDep, version: VersionDep) -> PolicyView:
    """Delete the policy of a scope. The scope inherits from then on. Answers the deleted policy."""
    return PolicyView.from_policy(policies.delete(scope, version=version))


@router.get(
    "/nodes/{node_id}/policy", operation_id="get_node_policy", responses=may_answer(404, 422)
)
def get_node_policy(node_id: Annotated[str, Path()], policies: PoliciesDep) -> NodePolicyView:
    """Get the idle policy that applies to a node, its source, the action that is taken, who is
    told, and everything that may end the node."""
    return NodePolicyView.from_node_policy(policies.get_with_ends(node_id))


def _answer_policy(policy: Policy, response: Response) -> PolicyView:
    response.headers["ETag"] = f'"{policy.version}"'
    return PolicyView.from_policy(policy)
