"""Response models of budgets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from service.api.http.schemas import (
    LABEL,
    Page,
    Time,
    Usd,
    View,
    schema_extra,
    time_or_none,
    usd_or_none,
    whole_pattern,
)
from service.application.budgets.budgets import BudgetHistory, BudgetStatus
from service.domain.budgets.alerts import Alert
from service.domain.budgets.budget import MAX_PERCENT, Budget, Measure, OnExceeded, Period, Scope
from service.domain.clock import to_rfc3339
from service.domain.money import format_usd
from service.domain.notifications.notification import Channel, Notification, origin_of
from service.store.budgets import BudgetRefusal


class ScopeView(View):
    """Whose spend counts; what is null does not matter."""

    project: str | None
    team: str | None = Field(examples=["vision"])
    owner: str | None
    job: str | None
    label: Annotated[str, schema_extra(pattern=whole_pattern(LABEL))] | None = Field(
        description="`key:value`.", examples=["run:17"]
    )

    @classmethod
    def from_scope(cls, scope: Scope) -> ScopeView:
        """The view of a scope."""
        label = None if scope.label is None else ":".join(scope.label)
        return cls(
            project=scope.project, team=scope.team, owner=scope.owner, job=scope.job, label=label
        )


class ThresholdView(View):
    """A share of the amount at which an alert is sent."""

    percent: Annotated[int, schema_extra(minimum=1, maximum=MAX_PERCENT)] = Field(examples=[80])
    of: Measure


class AlertView(View):
    """An alert of this period."""

    kind: str = Field(
        description="`exceeded`, `burn_rate`, or a threshold.", examples=["actual:80"]
    )
    fired_at: Time

    @classmethod
    def from_alert(cls, alert: Alert) -> AlertView:
        """The view of an alert that has fired."""
        return cls(kind=alert.kind, fired_at=to_rfc3339(alert.fired_at or 0))


class BudgetView(View):
    """A budget; what stands from `starts_at` on is null while it does not count."""

    id: str = Field(examples=["01a2b3c4-0000-7000-8000-000000000000"])
    name: str = Field(examples=["vision in November"])
    scope: ScopeView
    amount: Usd
    currency: str = Field(examples=["USD"])
    period: Period
    tz: str = Field(examples=["Europe/Berlin"])
    start: Time | None
    end: Time | None
    thresholds: tuple[ThresholdView, ...]
    on_exceeded: OnExceeded
    burn_rate: int | None
    grace_seconds: int
    webhook: str = Field(
        description="Its host; the rest may be secret.", examples=["https://hooks.example.com/..."]
    )
    emails: tuple[str, ...]
    created_at: Time
    version: int
    starts_at: Time | None = Field(description="Of the present period.")
    ends_at: Time | None
    spent: Usd | None = Field(description="In the present period up to now, exactly.")
    held: Usd | None = Field(
        description="What its nodes may still cost in it; null where a price is not known."
    )
    held_known: Usd | None = Field(
        description="The part of `held` whose prices are known; the same as `held` where all are."
    )
    left: Usd | None = Field(
        description="What is neither spent nor held; may be below 0. Null where a price is not"
        " known."
    )
    left_at_most: Usd | None = Field(
        description="What is neither spent nor held as far as prices are known."
    )
    unpriced_nodes: int | None = Field(
        description="Number of nodes and reservations whose price is not known. They are not in"
        " `held_known`, and they make `held` and `left` null.",
        examples=[0],
    )
    unpriced: tuple[str, ...] = Field(
        description="Names of these nodes and reservations, 20 at most.", examples=[["v6e-1f3a"]]
    )
    unpriced_seconds: int | None = Field(
        description="Seconds of use in the period at a price that is not known; `spent` does not"
        " contain them.",
        examples=[0],
    )
    percent: Annotated[int, schema_extra(minimum=0)] | None = Field(
        description="Of the amount that is spent.", examples=[64]
    )
    forecast: Usd | None = Field(
        description="What is expected at the end of the period, as of the last full minute (five"
        " minutes with 500 running nodes or more); null where nothing forecasts."
    )
    alerts: tuple[AlertView, ...]
    deletes_at: Time | None = Field(description="When its nodes are deleted, if they are.")
    as_of: Time | None
    warnings: tuple[str, ...] = Field(
        description="Who is not told before it has nodes deleted.", examples=[[]]
    )

    @classmethod
    def from_status(cls, shown: BudgetStatus) -> BudgetView:
        """The view of a budget."""
        return cls(
            **_settings_fields(shown.budget), **_standing_fields(shown), warnings=shown.warnings
        )


class BudgetPage(Page):
    """A page of budgets, by name."""

    budgets: tuple[BudgetView, ...]


class RefusalView(View):
    """A node that it had no room for."""

    at: Time
    message: str

    @classmethod
    def from_refusal(cls, refusal: BudgetRefusal) -> RefusalView:
        """The view of a refusal."""
        return cls(at=to_rfc3339(refusal.at), message=refusal.message)


class NotificationView(View):
    """A message, and whether it was delivered."""

    id: str
    channel: Channel
    subject: str
    created_at: Time
    tries: int
    sent_at: Time | None
    next_try_at: Time | None = Field(description="Null once it was sent or given up.")
    last_error: str = Field(
        description="Why it was not sent; or, once it was, whom it did not reach.", examples=[""]
    )

    @classmethod
    def from_notification(cls, notification: Notification) -> NotificationView:
        """The view of a message."""
        return cls(
            id=notification.id,
            channel=notification.channel,
            subject=notification.subject,
            created_at=to_rfc3339(notification.created_at),
            tries=notification.tries,
            sent_at=time_or_none(notification.sent_at),
            next_try_at=time_or_none(notification.next_try_at),
            last_error=notification.last_error,
        )


class BudgetDetail(BudgetView):
    """A budget in full, the latest refusals and messages first."""

    refusals: tuple[RefusalView, ...]
    notifications: tuple[NotificationView, ...]

    @classmethod
    def from_history(cls, detail: BudgetHistory) -> BudgetDetail:
        """The view of a budget in full."""
        return cls(
            **_settings_fields(detail.shown.budget),
            **_standing_fields(detail.shown),
            warnings=detail.shown.warnings,
            refusals=tuple(map(RefusalView.from_refusal, detail.refusals)),
            notifications=tuple(map(NotificationView.from_notification, detail.notifications)),
        )


def _settings_fields(budget: Budget) -> dict[str, Any]:
    return {
        "id": budget.id,
        "name": budget.name,
        "scope": ScopeView.from_scope(budget.scope),
        "amount": format_usd(budget.amount),
        "currency": "USD",
        "period": budget.period,
        "tz": budget.tz,
        "start": time_or_none(budget.start),
        "end": time_or_none(budget.end),
        "thresholds": tuple(ThresholdView(percent=t.percent, of=t.of) for t in budget.thresholds),
        "on_exceeded": budget.on_exceeded,
        "burn_rate": budget.burn_rate,
        "grace_seconds": budget.grace_seconds,
        "webhook": origin_of(budget.webhook),
        "emails": budget.emails,
        "created_at": to_rfc3339(budget.created_at),
        "version": budget.version,
    }


_OF_PERIOD = (
    *("starts_at", "ends_at", "spent", "held", "held_known", "left", "left_at_most", "percent"),
    *("unpriced_nodes", "unpriced_seconds", "forecast", "deletes_at", "as_of"),
)
"""The fields that are null while a budget is not active."""


def _standing_fields(shown: BudgetStatus) -> dict[str, Any]:
    standing, amount = shown.standing, shown.budget.amount
    alerts = tuple(map(AlertView.from_alert, shown.alerts))
    if standing is None:
        return {**dict.fromkeys(_OF_PERIOD), "unpriced": (), "alerts": alerts}
    held = standing.held.total
    at_most = amount - standing.spent - standing.held.known
    return {
        "starts_at": to_rfc3339(standing.window.start),
        "ends_at": to_rfc3339(standing.window.end),
        "spent": format_usd(standing.spent),
        "held": usd_or_none(held),
        "held_known": format_usd(standing.held.known),
        "left": None if held is None else format_usd(at_most),
        "left_at_most": format_usd(at_most),
        "unpriced_nodes": len(standing.held.unpriced),
        "unpriced": standing.unpriced,
        "unpriced_seconds": standing.unpriced_seconds,
        "percent": standing.spent * 100 // amount,
        "forecast": usd_or_none(standing.forecast),
        "alerts": alerts,
        "deletes_at": time_or_none(shown.deletes_at),
        "as_of": to_rfc3339(standing.as_of),
    }
