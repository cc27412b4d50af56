"""Decides when a budget alert fires: once each time its condition becomes true. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.domain.budgets.budget import Budget, BudgetStanding, Measure, OnExceeded
from service.domain.clock import HOUR, to_rfc3339
from service.domain.money import format_cents

HYSTERESIS = 5
"""Percentage points by which the spend must fall below a threshold before it can fire again."""

EXCEEDED = "exceeded"
BURN_RATE = "burn_rate"
PACES = (HOUR, 6 * HOUR)
"""Two windows in seconds. The spend must be too fast in both: in the short one, because the alert
is about now, and in the long one, because a short peak is no alert."""


@dataclass(frozen=True, slots=True)
class Alert:
    """The alert of one cause in the period that begins at `period`.

    `fired_at` is None while the alert is armed. `kind` is `exceeded`, `burn_rate`, or a threshold
    as in `actual:80`.
    """

    kind: str
    period: int
    fired_at: int | None = None


@dataclass(frozen=True, slots=True)
class _Cause:
    """A cause of an alert: `reached` if it is true now, `left` if it is clearly false."""

    kind: str
    reached: bool
    left: bool
    message: str


def find_changes(
    budget: Budget, standing: BudgetStanding, paces: tuple[int, int], known: Mapping[str, Alert]
) -> list[tuple[Alert, str]]:
    """The budget alerts that changed, each with its message. The message is empty if the alert is
    only armed again.

    `paces` are the nano-dollars that were spent in each of PACES. A second call with the stored
    changes returns nothing.
    """
    found: list[tuple[Alert, str]] = []
    for cause in _list_causes(budget, standing, paces):
        before = known.get(cause.kind, Alert(cause.kind, standing.window.start))
        fired = before.fired_at if before.period == standing.window.start else None
        armed = Alert(cause.kind, standing.window.start, fired)
        if fired is None and cause.reached:
            found.append((replace(armed, fired_at=standing.as_of), cause.message))
        elif fired is not None and cause.left:
            found.append((replace(armed, fired_at=None), ""))
        elif before.fired_at is not None and fired is None:
            found.append((armed, ""))
    return found


def deletes_at(budget: Budget, exceeded: Alert | None) -> int | None:
    """When the alert of an exceeded budget deletes its nodes; None if they are not deleted."""
    if budget.on_exceeded is not OnExceeded.DELETE or exceeded is None:
        return None
    return None if exceeded.fired_at is None else exceeded.fired_at + budget.grace_seconds


def describe_silence(budget: Budget, *, mails: bool) -> str:
    """A warning if some or all recipients get no budget alert before nodes are deleted. Empty if
    all get one.

    `mails` says whether e-mail is configured.
    """
    if budget.on_exceeded is not OnExceeded.DELETE:
        return ""
    if not budget.webhook and not budget.emails:
        return (
            "no recipient is notified before its nodes are deleted: add a webhook (--webhook)"
            " or an address (--email)"
        )
    if budget.emails and not mails:
        who = "nobody at its addresses" if budget.webhook else "nobody"
        return (
            f"{who} is told before its nodes are deleted: STEWARD_SMTP_URL is not set, and without"
            " it no e-mail is sent"
        )
    return ""


def _list_causes(
    budget: Budget, standing: BudgetStanding, paces: tuple[int, int]
) -> Iterator[_Cause]:
    amount = budget.amount
    for threshold in budget.thresholds:
        is_actual, percent = threshold.of is Measure.ACTUAL, threshold.percent
        value = standing.spent if is_actual else standing.forecast
        if value is None:
            continue
        what = "spent" if is_actual else "expected by the end of the period"
        yield _Cause(
            f"{threshold.of}:{percent}",
            value * 100 >= percent * amount,
            value * 100 < (percent - HYSTERESIS) * amount,
            f"{percent} % of the budget {budget.name!r} is reached:"
            f" {format_cents(value)} of {format_cents(amount)} {what}",
        )
    if budget.burn_rate is not None:
        # The pace of each window relative to the even pace, in whole numbers.
        times, length = budget.burn_rate, standing.window.end - standing.window.start
        pairs = [
            (spent * length * 100, amount * seconds)
            for spent, seconds in zip(paces, PACES, strict=True)
        ]
        yield _Cause(
            BURN_RATE,
            all(spent > times * 100 * even for spent, even in pairs),
            any(spent < (times * 100 - HYSTERESIS) * even for spent, even in pairs),
            f"the budget {budget.name!r} is being spent more than {times} times as fast as it"
            f" lasts: {format_cents(paces[0])} in the last hour",
        )
    then = ""
    match budget.on_exceeded:
        case OnExceeded.NOTIFY:
            pass
        case OnExceeded.REFUSE:
            then = "; new nodes are refused, those that run go on"
        case OnExceeded.DELETE:
            at = to_rfc3339(standing.as_of + budget.grace_seconds)
            then = f"; new nodes are refused, and those of {budget.scope.words} are deleted at {at}"
    yield _Cause(
        EXCEEDED,
        standing.spent > amount,
        standing.spent * 100 < (100 - HYSTERESIS) * amount,
        f"the budget {budget.name!r} is exceeded:"
        f" {format_cents(standing.spent)} of {format_cents(amount)} spent{then}",
    )
