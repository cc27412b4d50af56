"""The page of budgets: the limit of each, what is spent and held, and the refused requests."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.budgets.budgets import BudgetHistory, BudgetStatus
from service.application.services import Services
from service.dashboard.actions.budgets import describe_period
from service.dashboard.kit.figures import (
    MINUS,
    Moment,
    format_count,
    format_duration,
    format_money,
    format_remainder,
    to_moment,
    utc_date,
)
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import Budget, BudgetStanding, Measure, OnExceeded, Period
from service.domain.costs.forecast import Method, find_crossing

SHOWN = 100
"""The most budgets on the page; the command line lists all."""

REFUSALS = 3
"""The most refusals that are shown of each budget."""

NAMED = 3
"""The most nodes without a known price that one sentence names."""

WIDTH = 1_000
"""Units of a bar."""

CAP = 800
"""The units of a bar that are the amount. The same for each budget, so that bars compare; the rest
of the width is for what exceeds the amount."""


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
    WIDTH. `cut` is True if the bar would be longer than WIDTH."""

    spent: int
    held: int
    cap: int
    marks: tuple[ThresholdMark, ...]
    cut: bool

    @property
    def over(self) -> int:
        """The spent part beyond the amount."""
        return max(0, self.spent - self.cap)


@dataclass(frozen=True, slots=True)
class Outlook:
    """When the forecast exceeds the amount of a budget, as of `now`; both in UTC seconds.
    `is_run_rate` says that there are fewer than seven days of history."""

    at: int
    now: int
    is_run_rate: bool

    @property
    def verdict(self) -> tuple[str, str]:
        """The sign and the words: quiet for a run-rate."""
        then = to_moment(self.at)
        is_today = utc_date(self.at) == utc_date(self.now)
        when = (
            f"today at {then.clock[:5]} UTC" if is_today else f"on {then.date.rpartition(' ')[0]}"
        )
        if self.is_run_rate:
            return "still", f"at the run-rate so far, would exceed {when}"
        return "going", f"will exceed {when}, by the forecast"


@dataclass(frozen=True, slots=True)
class BudgetEvent:
    """An alert or a refusal, and its time."""

    at: Moment
    words: str


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget in words. `bar` is None while the budget is not active. `left_name` names the
    figure `left`. `deletes_at` is the time at which nodes are deleted; `verdict` ends before it."""

    id: str
    name: str
    scope: str
    terms: str
    tone: str
    verdict: str
    deletes_at: Moment | None
    percent: str
    spent: str
    amount: str
    held: str
    left: str
    left_name: str
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
    summary: str
    left_out: int
    as_of: Moment


def build_budgets_page(services: Services) -> BudgetsPage:
    """The page as of now: exceeded budgets first, then those that will exceed, then the others. The
    budgets that are closest to their amount come first in each part."""
    now = services.health.read_fleet().as_of
    budgets = services.budgets.list_all()
    found = [
        (detail, find_outlook(services, detail.shown))
        for detail in services.budgets.list_histories(budgets[:SHOWN])
    ]
    found.sort(key=lambda pair: rank_budget(pair[0].shown, pair[1]))
    exceeded = sum(is_exceeded(detail.shown) for detail, _ in found)
    ahead = sum(outlook is not None for _, outlook in found)
    return BudgetsPage(
        rows=tuple(_build_row(detail, outlook, now) for detail, outlook in found),
        summary=f"{format_count(len(found), 'budget')}: {exceeded:,} exceeded, {ahead:,} more"
        " by the forecast",
        left_out=max(0, len(budgets) - SHOWN),
        as_of=to_moment(now),
    )


def find_outlook(services: Services, shown: BudgetStatus) -> Outlook | None:
    """When the forecast exceeds the amount. None if the amount is exceeded already, or if the
    forecast stays below."""
    budget, standing = shown.budget, shown.standing
    if standing is None or standing.forecast is None:
        return None
    if standing.spent > budget.amount or standing.forecast <= budget.amount:
        return None
    found = services.forecasts.forecast_window(budget.scope.cost_filter, standing.window, budget.tz)
    at = find_crossing(found, budget.amount)
    return None if at is None else Outlook(at, standing.as_of, found.method is Method.RUN_RATE)


def rank_budget(shown: BudgetStatus, outlook: Outlook | None) -> tuple[bool, bool, int, str]:
    """The key of the order of budgets: exceeded ones first, then those that the forecast exceeds,
    then those that are closest to their amount."""
    return not is_exceeded(shown), outlook is None, -used_millionths(shown), shown.budget.name


def is_exceeded(shown: BudgetStatus) -> bool:
    """Whether more is spent than the amount."""
    return shown.standing is not None and shown.standing.spent > shown.budget.amount


def used_millionths(shown: BudgetStatus) -> int:
    """Millionths of the amount that are spent or held; -1 if the budget is not active."""
    standing = shown.standing
    if standing is None:
        return -1
    return (standing.spent + standing.held.known) * 1_000_000 // shown.budget.amount


def _build_row(detail: BudgetHistory, outlook: Outlook | None, now: int) -> BudgetRow:
    budget, standing = detail.shown.budget, detail.shown.standing
    tone, verdict = describe_state(detail.shown, outlook)
    held = left = left_name = forecast = ""
    if standing is not None:
        known, has_unpriced = standing.held.known, bool(standing.held.unpriced)
        held = ("at least " if has_unpriced else "") + format_money(known)
        is_over = standing.spent + known > budget.amount
        bound = "" if not has_unpriced else "at least " if is_over else "at most "
        left = bound + format_remainder(budget.amount, standing.spent, known).removeprefix(MINUS)
        left_name = "At worst over by" if is_over else "Left at worst"
        if standing.spent > budget.amount:
            left = format_remainder(budget.amount, standing.spent).removeprefix(MINUS)
            left_name = "Over by"
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
        deletes_at=None if detail.shown.deletes_at is None else to_moment(detail.shown.deletes_at),
        percent="" if standing is None else f"{standing.spent * 100 // budget.amount:,} %",
        spent="" if standing is None else format_money(standing.spent),
        amount=format_money(budget.amount),
        held=held,
        left=left,
        left_name=left_name,
        forecast=forecast,
        rest="" if standing is None else format_duration(standing.window.end - now),
        ends=None if standing is None else to_moment(standing.window.end),
        resets=budget.period is not Period.CUSTOM,
        bar=None if standing is None else build_bar(budget, standing, detail.shown.alerts),
        thresholds=_describe_thresholds(budget),
        alerts=tuple(
            BudgetEvent(to_moment(alert.fired_at or 0), _describe_alert(alert))
            for alert in sorted(detail.shown.alerts, key=lambda alert: alert.fired_at or 0)
        ),
        refusals=tuple(
            BudgetEvent(to_moment(refusal.at), refusal.message)
            for refusal in detail.refusals[:REFUSALS]
        ),
        trouble=tuple(dict.fromkeys(errors)),
        warnings=(*_list_warnings(standing), *detail.shown.warnings),
    )


def build_bar(budget: Budget, standing: BudgetStanding, fired: tuple[Alert, ...]) -> BudgetBar:
    """The bar of a budget in whole units, which ends at WIDTH. Thresholds of the forecast, and
    those beyond WIDTH, have no mark."""
    kinds = {alert.kind for alert in fired}
    marks = [
        ThresholdMark(at, f"{threshold.percent} %", f"{threshold.of}:{threshold.percent}" in kinds)
        for threshold in budget.thresholds
        if threshold.of is Measure.ACTUAL and (at := threshold.percent * CAP // 100) <= WIDTH
    ]
    used = (standing.spent + standing.held.known) * CAP // budget.amount
    spent = min(WIDTH, max(0, standing.spent * CAP // budget.amount))
    return BudgetBar(spent, max(0, min(WIDTH, used) - spent), CAP, tuple(marks), cut=used > WIDTH)


def _describe_thresholds(budget: Budget) -> str:
    """What alerts, as in `50 % or 80 % is spent, and when the forecast reaches 100 %`."""
    spent, forecast = (
        " or ".join(
            f"{threshold.percent} %" for threshold in budget.thresholds if threshold.of is measure
        )
        for measure in (Measure.ACTUAL, Measure.FORECAST)
    )
    parts = [
        f"{spent} is spent" if spent else "",
        f"the forecast reaches {forecast}" if forecast else "",
    ]
    return ", and when ".join(filter(None, parts))


def _describe_terms(budget: Budget) -> str:
    actions = {
        OnExceeded.NOTIFY: "notifies only",
        OnExceeded.REFUSE: "refuses new nodes when exceeded",
        OnExceeded.DELETE: "refuses when exceeded, deletes"
        f" {format_duration(budget.grace_seconds)} after more is spent",
    }
    zone = "" if budget.tz == "UTC" else f" in {budget.tz}"
    return f"{describe_period(budget)}{zone}, {actions[budget.on_exceeded]}"


def describe_state(shown: BudgetStatus, outlook: Outlook | None = None) -> tuple[str, str]:
    """The sign and the words for the state of a budget, whose forecast is described by `outlook`.
    Where nodes are deleted, the time `deletes_at` follows the words."""
    standing, budget = shown.standing, shown.budget
    if standing is None:
        return "still", "not active now"
    full = standing.spent + standing.held.known >= budget.amount
    refuses = budget.can_refuse and bool(standing.held.unpriced)
    cases = (
        (shown.deletes_at is not None, "trouble", "exceeded; nodes are deleted"),
        (standing.spent > budget.amount, "trouble", "exceeded"),
        (refuses, "trouble", f"refuses new nodes: {_describe_unpriced(standing)}"),
        (budget.can_refuse and full, "going", "everything is spent or held"),
        (outlook is not None, *(("", "") if outlook is None else outlook.verdict)),
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
        return "the whole amount was spent"
    if not colon:
        return alert.kind.replace("_", " ")
    return (
        f"the forecast reached {percent} %" if of == Measure.FORECAST else f"{percent} % was spent"
    )
