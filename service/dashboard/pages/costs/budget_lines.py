"""Budgets in one line each, for the first page."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.services import Services
from service.dashboard.kit.figures import Moment, format_money, to_moment
from service.dashboard.pages.costs.budgets import (
    BudgetBar,
    build_bar,
    describe_state,
    find_outlook,
    rank_budget,
)
from service.domain.budgets.budget import Period, Scope

MOST = 40
"""The most budgets that are read for the first page: those of everything and the exceeded ones
first, then the largest amounts."""


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget: its name, `$12.00 of $100.00, 12 %`, `12 % of $100.00`, its state, and its bar.
    The time `deletes_at`, if there is one, follows the verdict. `is_whole` says that it is the
    monthly budget of everything, `amount` is in nano-dollars."""

    id: str
    name: str
    of_amount: str
    share: str
    tone: str
    verdict: str
    deletes_at: Moment | None
    bar: BudgetBar
    is_whole: bool
    amount: int


def list_budget_lines(services: Services) -> tuple[BudgetLine, ...]:
    """The active budgets in the order of the page of budgets."""
    exceeded = services.budgets.list_exceeded()
    budgets = sorted(
        services.budgets.list_all(),
        key=lambda budget: (
            budget.scope != Scope(),
            budget.id not in exceeded,
            -budget.amount,
            budget.name,
        ),
    )
    shown = services.budgets.list_statuses(budgets[:MOST])
    active = [
        (status, find_outlook(services, status)) for status in shown if status.standing is not None
    ]
    active.sort(key=lambda pair: rank_budget(*pair))
    lines = []
    for status, outlook in active:
        budget, standing = status.budget, status.standing
        assert standing is not None
        tone, verdict = describe_state(status, outlook)
        percent = standing.spent * 100 // budget.amount
        lines.append(
            BudgetLine(
                budget.id,
                budget.name,
                f"{format_money(standing.spent)} of {format_money(budget.amount)}, {percent:,} %",
                f"{percent:,} % of {format_money(budget.amount)}",
                tone,
                verdict,
                None if status.deletes_at is None else to_moment(status.deletes_at),
                build_bar(budget, standing, status.alerts),
                budget.scope == Scope() and budget.period is Period.MONTH,
                budget.amount,
            )
        )
    return tuple(lines)
