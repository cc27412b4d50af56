"""The page of budgets: the limit of each, what is spent and held, and the refused requests."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.budgets.budgets import BudgetHistory, BudgetStatus
from service.application.services import Services
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    format_remainder,
    to_moment,
)
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import Budget, BudgetStanding, Measure, OnExceeded, Period

SHOWN = 100
"""The most budgets on the page; the command line lists all."""

REFUSALS = 3
"""The most refusals that are shown of each budget."""

NAMED = 3
"""The most nodes without a known price that one sentence names."""

WIDTH = 1_000
"""Units of a bar: its whole width is the amount, or what is spent and held if that is more."""


@dataclass(frozen=True, slots=True)
class ThresholdMark:
    """A threshold on a bar: its position in parts of WIDTH, its name, and whether its alert
    fired."""

    at: int
    name: str
    fired: bool


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """The spent part, the held part behind it, and the position of the amount (`cap`), in parts of
    WIDTH."""

    spent: int
    held: int
    cap: int
    marks: tuple[ThresholdMark, ...]


@dataclass(frozen=True, slots=True)
class BudgetEvent:
    """An alert or a refusal, and its time."""

    at: Moment
    words: str


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget in words. `bar` is None while the budget is not active."""

    id: str
    name: str
    scope: str
    terms: str
    tone: str
    verdict: str
    percent: str
    spent: str
    amount: str
    held: str
    left: str
    forecast: str
    rest: str
    ends: Moment | None
    resets: bool
    bar: BudgetBar | None
    thresholds: str
    alerts: tuple[BudgetEvent, ...]
    refusals: tuple[BudgetEvent, ...]
    trouble: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BudgetsPage:
    """Everything on the page."""

    rows: tuple[BudgetRow, ...]
    left_out: int
    as_of: Moment


def build_budgets_page(services: Services) -> BudgetsPage:
    """The page as of now, the budgets that are closest to their amount first."""
    now = services.health.read_fleet().as_of
    budgets = services.budgets.list_all()
    details = sorted(
        services.budgets.list_histories(budgets[:SHOWN]),
        key=lambda detail: (-used_millionths(detail.shown), detail.shown.budget.name),
    )
    return BudgetsPage(
        rows=tuple(_build_row(detail, now) for detail in details),
        left_out=max(0, len(budgets) - SHOWN),
        as_of=to_moment(now),
    )


def used_millionths(shown: BudgetStatus) -> int:
    """Millionths of the amount that are spent or held; -1 if the budget is not active."""
    standing = shown.standing
    if standing is None:
        return -1
    return (standing.spent + standing.held.known) * 1_000_000 // shown.budget.amount


def _build_row(detail: BudgetHistory, now: int) -> BudgetRow:
    budget, standing = detail.shown.budget, detail.shown.standing
    tone, verdict = describe_state(detail.shown)
    held = left = forecast = ""
    if standing is not None:
        known, has_unpriced = standing.held.known, bool(standing.held.unpriced)
        held = ("at least " if has_unpriced else "") + format_money(known)
        left = ("at most " if has_unpriced else "") + format_remainder(
            budget.amount, standing.spent, known
        )
        forecast = "no forecast" if standing.forecast is None else format_money(standing.forecast)
    errors = (
        f"{notification.channel}: {notification.last_error}"
        for notification in detail.notifications
        if notification.last_error
    )
    return BudgetRow(
        id=budget.id,
        name=budget.name,
        scope=budget.scope.words,
        terms=_describe_terms(budget),
        tone=tone,
        verdict=verdict,
        percent="" if standing is None else f"{standing.spent * 100 // budget.amount} %",
        spent="" if standing is None else format_money(standing.spent),
        amount=format_money(budget.amount),
        held=held,
        left=left,
        forecast=forecast,
        rest="" if standing is None else format_duration(standing.window.end - now),
        ends=None if standing is None else to_moment(standing.window.end),
        resets=budget.period is not Period.CUSTOM,
        bar=None if standing is None else build_bar(budget, standing, detail.shown.alerts),
        thresholds=", ".join(
            f"{threshold.percent} %"
            + (" of the forecast" if threshold.of is Measure.FORECAST else "")
            for threshold in budget.thresholds
        ),
        alerts=tuple(
            BudgetEvent(to_moment(alert.fired_at or 0), _describe_alert(alert))
            for alert in detail.shown.alerts
        ),
        refusals=tuple(
            BudgetEvent(to_moment(refusal.at), refusal.message)
            for refusal in detail.refusals[:REFUSALS]
        ),
        trouble=tuple(dict.fromkeys(errors)),
        warnings=(*_list_warnings(standing), *detail.shown.warnings),
    )


def build_bar(budget: Budget, standing: BudgetStanding, fired: tuple[Alert, ...]) -> BudgetBar:
    """The bar of a budget in whole units, whose parts never exceed it. Thresholds of the forecast
    have no mark."""
    held = standing.held.known
    whole = max(budget.amount, standing.spent + held)
    kinds = {alert.kind for alert in fired}
    marks = [
        ThresholdMark(
            min(WIDTH, threshold.percent * budget.amount * WIDTH // (100 * whole)),
            f"{threshold.percent} %",
            f"{threshold.of}:{threshold.percent}" in kinds,
        )
        for threshold in budget.thresholds
        if threshold.of is Measure.ACTUAL and threshold.percent * budget.amount <= 100 * whole
    ]
    spent = standing.spent * WIDTH // whole
    return BudgetBar(
        spent,
        (standing.spent + held) * WIDTH // whole - spent,
        budget.amount * WIDTH // whole,
        tuple(marks),
    )


def _describe_terms(budget: Budget) -> str:
    actions = {
        OnExceeded.NOTIFY: "notifies only",
        OnExceeded.REFUSE: "refuses new nodes when exceeded",
        OnExceeded.DELETE: "refuses when exceeded, deletes"
        f" {format_duration(budget.grace_seconds)} after more is spent",
    }
    zone = "" if budget.tz == "UTC" else f" in {budget.tz}"
    return f"each {budget.period}{zone}, {actions[budget.on_exceeded]}".replace(
        "each custom", "once"
    )


def describe_state(shown: BudgetStatus) -> tuple[str, str]:
    """The sign and the words for the state of a budget."""
    standing, budget = shown.standing, shown.budget
    if standing is None:
        return "still", "not active now"
    full = standing.spent + standing.held.known >= budget.amount
    refuses = budget.can_refuse and bool(standing.held.unpriced)
    goes = "" if shown.deletes_at is None else to_moment(shown.deletes_at).full
    cases = (
        (bool(goes), "trouble", f"exceeded; nodes are deleted at {goes}"),
        (standing.spent > budget.amount, "trouble", "exceeded"),
        (refuses, "trouble", f"refuses new nodes: {_describe_unpriced(standing)}"),
        (budget.can_refuse and full, "going", "everything is spent or held"),
        (bool(shown.alerts), "coming", format_count(len(shown.alerts), "alert")),
    )
    return next(((tone, said) for so, tone, said in cases if so), ("up", "in order"))


def _describe_unpriced(standing: BudgetStanding) -> str:
    """The nodes and reservations that have no known price; empty if all have one."""
    number = len(standing.held.unpriced)
    if not number:
        return ""
    names = ", ".join(standing.unpriced[:NAMED])
    more = number - len(standing.unpriced[:NAMED])
    return f"no price is known for {names}" + (f" and {more} more" if more else "")


def _list_warnings(standing: BudgetStanding | None) -> tuple[str, ...]:
    """Sentences about what the figures lack; none if the budget is not active."""
    if standing is None:
        return ()
    used = standing.unpriced_seconds
    spent = (
        f"{format_duration(used)} of usage with unknown price is not in the spend" if used else ""
    )
    return tuple(filter(None, (_describe_unpriced(standing), spent)))


def _describe_alert(alert: Alert) -> str:
    of, colon, percent = alert.kind.partition(":")
    if alert.kind == EXCEEDED:
        return "the whole amount"
    if not colon:
        return alert.kind.replace("_", " ")
    return f"{percent} %" + (" of the forecast" if of == Measure.FORECAST else "")
