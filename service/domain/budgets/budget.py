"""Budgets: the limit of a scope's spend in a calendar period, and the action beyond it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from service.domain.clock import DATE, DAY, END_OF_TIME, parse_instant, to_rfc3339
from service.domain.errors import Rejected
from service.domain.metering.attribution import Attribution
from service.domain.money import MAX_NANOS
from service.domain.nodes.node import Node
from service.domain.time_window import Window, midnight_of, zone_of

CURRENCY = "USD"
MAX_PERCENT = 1_000
MAX_THRESHOLDS = 20
MAX_GRACE = 86_400
MAX_YEARS = 5
"""Maximum length of a custom period: each of its days is forecast."""

GRACE_SECONDS = 900
"""Default seconds between the notification of a deletion and the deletion."""


class Period(StrEnum):
    """How often a budget resets, at calendar boundaries of its time zone; `custom` is once."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    CUSTOM = "custom"


class OnExceeded(StrEnum):
    """What happens when the amount is exceeded. `refuse` grants no node that might jump it;
    `delete` does the same,
    and has the nodes deleted once more than that was spent all the same."""

    NOTIFY = "notify"
    REFUSE = "refuse"
    DELETE = "delete"


class Measure(StrEnum):
    """What a threshold is a share of: what was spent, or what is expected at the period's end."""

    ACTUAL = "actual"
    FORECAST = "forecast"


@dataclass(frozen=True, slots=True)
class Scope:
    """The spend that counts: all fields that are set must match. A label is (key, value)."""

    project: str | None = None
    team: str | None = None
    owner: str | None = None
    job: str | None = None
    label: tuple[str, str] | None = None

    @property
    def cost_filter(self) -> Mapping[str, tuple[str, ...]]:
        """The scope as a filter of costs: the accepted values by dimension."""
        said = {
            "project": self.project,
            "team": self.team,
            "owner": self.owner,
            "job": self.job,
        }
        found = {name: (value,) for name, value in said.items() if value is not None}
        if self.label is not None:
            found[f"label:{self.label[0]}"] = (self.label[1],)
        return found

    @property
    def words(self) -> str:
        """The scope in words: `team vision, label run=17`."""
        said = [f"{name} {value}" for name, (value,) in self.cost_filter.items() if ":" not in name]
        if self.label is not None:
            said.append(f"label {'='.join(self.label)}")
        return ", ".join(said) or "everything"

    def applies_to(self, who: Payer) -> bool:
        """Whether the spend of a payer counts."""
        pairs = (
            (self.project, who.project),
            (self.team, who.team),
            (self.owner, who.owner),
            (self.job, who.job),
        )
        plain = all(wanted in (None, said) for wanted, said in pairs)
        return plain and (self.label is None or who.labels.get(self.label[0]) == self.label[1])


@dataclass(frozen=True, slots=True)
class Payer:
    """The attribution of a node's cost."""

    project: str
    team: str
    owner: str
    job: str
    labels: Mapping[str, str]


def payer_under(node: Node, attribution: Attribution) -> Payer:
    """Return the payer of a node, to whom budgets apply, under one of its attributions."""
    return Payer(
        node.spec.project, attribution.team, attribution.owner, attribution.job, attribution.labels
    )


@dataclass(frozen=True, slots=True)
class Threshold:
    """A share of the amount, in whole percent, at which recipients are notified."""

    percent: int
    of: Measure = Measure.ACTUAL


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in nano-dollars for each period.

    It is active in [start, end) only, if these are given. `burn_rate` is the multiple of the
    period's even pace that is too fast; None for no such alert. `webhook` and `emails` are
    notified, `secret` signs the webhook's body. `grace_seconds` lie between the notification and
    the deletion.
    """

    id: str
    name: str
    scope: Scope
    amount: int
    period: Period
    tz: str
    created_at: int
    thresholds: tuple[Threshold, ...] = ()
    on_exceeded: OnExceeded = OnExceeded.NOTIFY
    start: int | None = None
    end: int | None = None
    burn_rate: int | None = None
    grace_seconds: int = GRACE_SECONDS
    webhook: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    emails: tuple[str, ...] = ()
    version: int = 0

    @property
    def can_refuse(self) -> bool:
        """Whether the budget can refuse nodes."""
        return self.on_exceeded is not OnExceeded.NOTIFY

    def window_at(self, now: int) -> Window | None:
        """The period that contains `now`; None while the budget is not active."""
        first = self.created_at if self.start is None else self.start
        if self.period is Period.CUSTOM:
            assert self.end is not None
            whole = Window(first, self.end)
            return whole if whole.start <= now < whole.end else None
        if (self.start is not None and now < self.start) or (
            self.end is not None and now >= self.end
        ):
            return None
        whole = calendar_period(self.period, zone_of(self.tz), now)
        start = whole.start if self.start is None else max(whole.start, self.start)
        return Window(start, whole.end if self.end is None else min(whole.end, self.end))


class HeldAmount(NamedTuple):
    """The amount that the nodes and reservations of a budget may still cost, in nano-dollars.

    `unpriced` are the ids without a known price, which are not in `known`.
    """

    known: int
    unpriced: tuple[str, ...] = ()

    @property
    def total(self) -> int | None:
        """Nano-dollars of all holds; None if a price is unknown."""
        return None if self.unpriced else self.known


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """The state of a budget in `window` as of `as_of`; amounts are nano-dollars.

    `held` is the amount that its nodes may still cost. `forecast` is the expected spend of the
    window, as of the last full minute; None without a forecast. `unpriced_seconds` of usage have no
    known price and are not in `spent`. `unpriced` are the names of nodes and reservations without a
    known price.
    """

    window: Window
    spent: int
    held: HeldAmount
    forecast: int | None
    as_of: int
    unpriced_seconds: int = 0
    unpriced: tuple[str, ...] = ()


class BudgetBooks(Protocol):
    """Reads the exact spend, and the state of budgets."""

    def sum_spent(self, scope: Scope, window: Window) -> int:
        """Nano-dollars that were spent in a window up to now."""
        ...

    def find_standing(self, budget: Budget) -> BudgetStanding | None:
        """The state of a budget now; None while the budget is not active."""
        ...


Forecast = Callable[[Budget, Window, int], int | None]
"""The expected nano-dollars of a whole window as of an instant, including the amount already spent;
None if no forecast is possible."""


def calendar_period(period: Period, zone: ZoneInfo, now: int) -> Window:
    """The calendar period of a budget that contains `now`; a day may have 23 to 25 hours."""
    day = datetime.fromtimestamp(now, zone).date()
    first, following = day, day + timedelta(days=1)
    match period:
        case Period.DAY | Period.CUSTOM:
            pass
        case Period.WEEK:
            first = day - timedelta(days=day.weekday())
            following = first + timedelta(days=7)
        case Period.MONTH:
            first, following = _month_range(day, 1)
        case Period.QUARTER:
            first, following = _month_range(day, 3)
        case Period.YEAR:
            first, following = _month_range(day, 12)
    return Window(midnight_of(first, zone), midnight_of(following, zone))


def _month_range(day: date, length: int) -> tuple[date, date]:
    first = day.year * 12 + (day.month - 1) // length * length
    return _month_start(first), _month_start(first + length)


def _month_start(index: int) -> date:
    return date(index // 12, index % 12 + 1, 1)


def instant_of(text: str, tz: str, field: str) -> int:
    """Whole UTC seconds of a budget's start or end: an instant, or a date in its zone. Raises
    Rejected."""
    try:
        if re.fullmatch(DATE, text):
            found = midnight_of(date.fromisoformat(text), zone_of(tz))
        else:
            found = parse_instant(text)
    except (ValueError, OverflowError):
        raise Rejected(
            f"{text[:40]!r} is not a timestamp (RFC 3339); write it as 2026-11-01T00:00:00Z, or"
            " as a date",
            field=field,
        ) from None
    if not 0 <= found < END_OF_TIME:
        raise Rejected(f"{text[:40]!r} must be between 1970 and 2100", field=field)
    return found


def check_budget(budget: Budget) -> None:
    """Raise Rejected, with the field, for an invalid budget."""
    zone_of(budget.tz)
    if budget.amount <= 0:
        raise Rejected("the amount must be more than 0", field="amount")
    if budget.amount > MAX_NANOS:
        raise Rejected("the amount is more than can be stored", field="amount")
    _check_span(budget)
    _check_thresholds(budget.thresholds)
    if budget.burn_rate is not None and not 1 < budget.burn_rate <= 100:
        raise Rejected("burn_rate must be between 2 and 100 times", field="burn_rate")
    if not 0 <= budget.grace_seconds <= MAX_GRACE:
        raise Rejected(f"grace_seconds must be between 0 and {MAX_GRACE}", field="grace_seconds")


def check_currency(currency: str) -> None:
    """Raise Rejected for a budget in any currency but dollars: all prices are in dollars."""
    if currency != CURRENCY:
        raise Rejected(
            f"{currency[:20]!r} is not a currency of budgets; use {CURRENCY}",
            field="currency",
        )


def _check_span(budget: Budget) -> None:
    if budget.period is Period.CUSTOM and budget.end is None:
        raise Rejected(
            "a custom period needs an end; give one, or use day, week, month, quarter or year",
            field="end",
        )
    first = budget.start
    if first is None and budget.period is Period.CUSTOM:
        first = budget.created_at
    if first is not None and budget.end is not None and budget.end <= first:
        raise Rejected(
            f"the budget ends ({to_rfc3339(budget.end)}) before it starts ({to_rfc3339(first)})",
            field="end",
        )
    if budget.period is not Period.CUSTOM or budget.end is None or first is None:
        return
    if budget.end - first > MAX_YEARS * 366 * DAY:
        raise Rejected(
            f"a custom period is {MAX_YEARS} years long at most; use a repeating period such as"
            " year, or an earlier end",
            field="end",
        )


def _check_thresholds(thresholds: tuple[Threshold, ...]) -> None:
    if len(thresholds) > MAX_THRESHOLDS:
        raise Rejected(f"at most {MAX_THRESHOLDS} thresholds", field="thresholds")
    if len(set(thresholds)) < len(thresholds):
        raise Rejected("the same threshold is given twice", field="thresholds")
    for threshold in thresholds:
        if not 0 < threshold.percent <= MAX_PERCENT:
            raise Rejected(
                f"a threshold of {threshold.percent} % is out of range: 1 to {MAX_PERCENT}",
                field="thresholds",
            )
