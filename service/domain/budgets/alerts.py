"""When somebody has to be told of a budget: once for each time it comes to that. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.domain.budgets.budget import Budget, BudgetStanding, Measure, OnExceeded
from service.domain.clock import HOUR, rfc3339
from service.domain.money import dollars

HYSTERESIS = 5
"""Percentage points below itself that a threshold has to be left by before it can fire anew."""

EXCEEDED = "exceeded"
BURN_RATE = "burn_rate"
PACES = (HOUR, 6 * HOUR)
"""Both of these last stretches, in seconds, have to be too fast: the one says that it is so now,
the other that it is not a moment's affair."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Where one cause stands in the period that begins at `period`: when it fired, None while it is
    armed. `kind` is `exceeded`, `burn_rate`, or a threshold as in `actual:80`."""

    kind: str
    period: int
    fired_at: int | None = None


@dataclass(frozen=True, slots=True)
class _Cause:
    """Something to tell of: whether it is so now, and whether it is clearly not."""

    kind: str
    reached: bool
    left: bool
    message: str


def changes(
    budget: Budget, standing: BudgetStanding, paces: tuple[int, int], known: Mapping[str, Alert]
) -> list[tuple[Alert, str]]:
    """The alerts that are not as they were, each with what to tell of it: empty where it is only
    armed anew. `paces` is what was spent in each of PACES.

    Whoever asks again, or asks as well, with what was written is answered nothing.
    """
    found: list[tuple[Alert, str]] = []
    for cause in _causes(budget, standing, paces):
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
    """When the nodes of a budget go because more was spent than it allows; None when they do
    not."""
    if budget.on_exceeded is not OnExceeded.DELETE or exceeded is None:
        return None
    return None if exceeded.fired_at is None else exceeded.fired_at + budget.grace_seconds


def silence(budget: Budget, *, mails: bool) -> str:
    """Who is not told before a budget has nodes deleted, for whoever sets it to read; empty where
    all are. `mails` is whether e-mail can be sent at all."""
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


def _causes(budget: Budget, standing: BudgetStanding, paces: tuple[int, int]) -> Iterator[_Cause]:
    amount = budget.amount
    for one in budget.thresholds:
        value = standing.spent if one.of is Measure.ACTUAL else standing.forecast
        if value is None:
            continue
        what = "spent" if one.of is Measure.ACTUAL else "expected by the end of the period"
        yield _Cause(
            f"{one.of}:{one.percent}",
            value * 100 >= one.percent * amount,
            value * 100 < (one.percent - HYSTERESIS) * amount,
            f"{one.percent} % of the budget {budget.name!r} is reached:"
            f" {dollars(value)} of {dollars(amount)} {what}",
        )
    if budget.burn_rate is not None:
        yield _burn_rate(budget, budget.burn_rate, standing, paces)
    yield _Cause(
        EXCEEDED,
        standing.spent > amount,
        standing.spent * 100 < (100 - HYSTERESIS) * amount,
        f"the budget {budget.name!r} is exceeded:"
        f" {dollars(standing.spent)} of {dollars(amount)} spent"
        f"{_consequence(budget, standing.as_of)}",
    )


def _burn_rate(
    budget: Budget, times: int, standing: BudgetStanding, paces: tuple[int, int]
) -> _Cause:
    """The pace of each stretch in shares of the even one, by whole numbers on both sides."""
    length = standing.window.end - standing.window.start
    pairs = [
        (spent * length * 100, budget.amount * seconds)
        for spent, seconds in zip(paces, PACES, strict=True)
    ]
    return _Cause(
        BURN_RATE,
        all(spent > times * 100 * even for spent, even in pairs),
        any(spent < (times * 100 - HYSTERESIS) * even for spent, even in pairs),
        f"the budget {budget.name!r} is being spent more than {times} times as fast as it lasts:"
        f" {dollars(paces[0])} in the last hour",
    )


def _consequence(budget: Budget, now: int) -> str:
    match budget.on_exceeded:
        case OnExceeded.NOTIFY:
            return ""
        case OnExceeded.REFUSE:
            return "; new nodes are refused, those that run go on"
        case OnExceeded.DELETE:
            at = rfc3339(now + budget.grace_seconds)
            return f"; new nodes are refused, and those of {budget.scope.words} are deleted at {at}"
