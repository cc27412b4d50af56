"""The page of budgets: what may be spent, what is, what is set aside, and what was refused."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.budgets.budgets import BudgetHistory, BudgetStatus
from service.application.services import Services
from service.dashboard.kit.figures import Moment, count, duration, moment, money
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import Budget, BudgetStanding, Measure, OnExceeded

SHOWN = 100
"""Budgets on the page; the command line lists all."""

REFUSALS = 3
"""Refusals that are shown of each."""

NAMED = 3
"""Nodes without a known price that are named in one sentence."""

WIDTH = 1_000
"""Units that a bar is drawn in: all of it is the amount, or what is spent and held beyond it."""


@dataclass(frozen=True, slots=True)
class ThresholdMark:
    """A threshold on a bar: where, and what it is."""

    at: int
    name: str
    fired: bool


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """What is spent, and behind it what is held, in parts of WIDTH; `cap` is where the amount
    is."""

    spent: int
    held: int
    cap: int
    marks: tuple[ThresholdMark, ...]


@dataclass(frozen=True, slots=True)
class BudgetEvent:
    """Something that happened, and when."""

    at: Moment
    words: str


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget in words. `bar` is None while it does not count."""

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


def budgets_of(services: Services) -> BudgetsPage:
    """The page as of now, those that are nearest to their cap first."""
    now = services.health.fleet().as_of
    budgets = services.budgets.all()
    details = sorted(
        services.budgets.details(budgets[:SHOWN]),
        key=lambda one: (-_fullness(one.shown), one.shown.budget.name),
    )
    return BudgetsPage(
        rows=tuple(_row(one, now) for one in details),
        left_out=max(0, len(budgets) - SHOWN),
        as_of=moment(now),
    )


def _fullness(shown: BudgetStatus) -> int:
    """Millionths of the amount that are spent or held."""
    standing = shown.standing
    if standing is None:
        return -1
    return (standing.spent + standing.held.known) * 1_000_000 // shown.budget.amount


def _row(detail: BudgetHistory, now: int) -> BudgetRow:
    budget, standing = detail.shown.budget, detail.shown.standing
    tone, verdict = _verdict(detail.shown)
    return BudgetRow(
        id=budget.id,
        name=budget.name,
        scope=budget.scope.words,
        terms=_terms(budget),
        tone=tone,
        verdict=verdict,
        percent="" if standing is None else f"{standing.spent * 100 // budget.amount} %",
        spent="" if standing is None else money(standing.spent),
        amount=money(budget.amount),
        held=_held(standing),
        left=_left(budget, standing),
        forecast=_forecast(standing),
        rest="" if standing is None else duration(standing.window.end - now),
        ends=None if standing is None else moment(standing.window.end),
        bar=None if standing is None else bar_of(budget, standing, detail.shown.alerts),
        thresholds=", ".join(
            f"{one.percent} %" + (" of the forecast" if one.of is Measure.FORECAST else "")
            for one in budget.thresholds
        ),
        alerts=tuple(
            BudgetEvent(moment(one.fired_at or 0), _name(one)) for one in detail.shown.alerts
        ),
        refusals=tuple(
            BudgetEvent(moment(one.at), one.message) for one in detail.refusals[:REFUSALS]
        ),
        trouble=tuple(
            dict.fromkeys(
                f"{one.channel}: {one.last_error}" for one in detail.notifications if one.last_error
            )
        ),
        warnings=(*_notes(standing), *detail.shown.warnings),
    )


def bar_of(budget: Budget, standing: BudgetStanding, fired: tuple[Alert, ...]) -> BudgetBar:
    """The bar in whole units, so that its parts never come to more than it."""
    held = standing.held.known
    whole = max(budget.amount, standing.spent + held)
    kinds = {one.kind for one in fired}
    marks = [
        ThresholdMark(
            min(WIDTH, one.percent * budget.amount * WIDTH // (100 * whole)),
            f"{one.percent} %",
            f"{one.of}:{one.percent}" in kinds,
        )
        for one in budget.thresholds
        if one.of is Measure.ACTUAL and one.percent * budget.amount <= 100 * whole
    ]
    spent = standing.spent * WIDTH // whole
    return BudgetBar(
        spent,
        (standing.spent + held) * WIDTH // whole - spent,
        budget.amount * WIDTH // whole,
        tuple(marks),
    )


def _terms(budget: Budget) -> str:
    actions = {
        OnExceeded.NOTIFY: "notifies only",
        OnExceeded.REFUSE: "refuses new nodes when exceeded",
        OnExceeded.DELETE: f"refuses when exceeded, deletes {duration(budget.grace_seconds)} after"
        " more is spent",
    }
    zone = "" if budget.tz == "UTC" else f" in {budget.tz}"
    return f"each {budget.period}{zone}, {actions[budget.on_exceeded]}".replace(
        "each custom", "once"
    )


def _verdict(shown: BudgetStatus) -> tuple[str, str]:
    """The sign and the words for how it stands."""
    standing, budget = shown.standing, shown.budget
    if standing is None:
        return "still", "not active now"
    full = standing.spent + standing.held.known >= budget.amount
    refuses = budget.caps and bool(standing.held.unpriced)
    goes = "" if shown.deletes_at is None else moment(shown.deletes_at).full
    cases = (
        (bool(goes), "trouble", f"exceeded; nodes are deleted at {goes}"),
        (standing.spent > budget.amount, "trouble", "exceeded"),
        (refuses, "trouble", f"refuses new nodes: {_unpriced(standing)}"),
        (budget.caps and full, "going", "everything is spent or held"),
        (bool(shown.alerts), "coming", count(len(shown.alerts), "alert")),
    )
    return next(((tone, said) for so, tone, said in cases if so), ("up", "in order"))


def _held(standing: BudgetStanding | None) -> str:
    if standing is None:
        return ""
    return ("at least " if standing.held.unpriced else "") + money(standing.held.known)


def _left(budget: Budget, standing: BudgetStanding | None) -> str:
    if standing is None:
        return ""
    left = money(budget.amount - standing.spent - standing.held.known)
    return ("at most " if standing.held.unpriced else "") + left


def _unpriced(standing: BudgetStanding) -> str:
    """Which nodes and reservations have no known price; empty where all have one."""
    number = len(standing.held.unpriced)
    if not number:
        return ""
    names = ", ".join(standing.unpriced[:NAMED])
    more = number - len(standing.unpriced[:NAMED])
    return f"no price is known for {names}" + (f" and {more} more" if more else "")


def _notes(standing: BudgetStanding | None) -> tuple[str, ...]:
    """What is in none of the figures."""
    if standing is None:
        return ()
    used = standing.unpriced_seconds
    spent = f"{duration(used)} of usage with unknown price is not in the spend" if used else ""
    return tuple(filter(None, (_unpriced(standing), spent)))


def _forecast(standing: BudgetStanding | None) -> str:
    if standing is None:
        return ""
    return "no forecast" if standing.forecast is None else money(standing.forecast)


def _name(alert: Alert) -> str:
    of, colon, percent = alert.kind.partition(":")
    if alert.kind == EXCEEDED:
        return "the whole amount"
    if not colon:
        return alert.kind.replace("_", " ")
    return f"{percent} %" + (" of the forecast" if of == Measure.FORECAST else "")
