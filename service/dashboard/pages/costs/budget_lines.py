"""Budgets in one line each, for the first page."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.budgets.budgets import BudgetStatus
from service.application.services import Services
from service.dashboard.kit.figures import format_money
from service.dashboard.pages.costs.budgets import (
    BudgetBar,
    Outlook,
    build_bar,
    describe_state,
    find_outlook,
    used_millionths,
)
from service.domain.budgets.budget import Period, Scope

MOST = 40
"""The most budgets that are read for the first page, the largest amounts first."""


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget: its name, `$12.00 of $100.00, 12 %`, `12 % of $100.00`, its state, and its bar.
    `is_whole` says that it is the monthly budget of everything, `amount` is in nano-dollars."""

    id: str
    name: str
    of_amount: str
    share: str
    tone: str
    verdict: str
    bar: BudgetBar
    is_whole: bool
    amount: int


def list_budget_lines(services: Services) -> tuple[BudgetLine, ...]:
    """The active budgets, those closest to their amount first."""
    budgets = sorted(services.budgets.list_all(), key=lambda budget: (-budget.amount, budget.name))
    shown = services.budgets.list_statuses(budgets[:MOST])
    active = sorted(
        (one for one in shown if one.standing is not None),
        key=lambda one: (-used_millionths(one), one.budget.name),
    )
    return tuple(_build_line(one, find_outlook(services, one)) for one in active)


def _build_line(shown: BudgetStatus, outlook: Outlook | None) -> BudgetLine:
    budget, standing = shown.budget, shown.standing
    assert standing is not None
    tone, verdict = describe_state(shown, outlook)
    percent = standing.spent * 100 // budget.amount
    return BudgetLine(
        budget.id,
        budget.name,
        f"{format_money(standing.spent)} of {format_money(budget.amount)}, {percent:,} %",
        f"{percent:,} % of {format_money(budget.amount)}",
        tone,
        verdict,
        build_bar(budget, standing, shown.alerts),
        budget.scope == Scope() and budget.period is Period.MONTH,
        budget.amount,
    )
