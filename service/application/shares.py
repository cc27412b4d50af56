"""What an estimate would take of the caller's budgets."""

from __future__ import annotations

from collections.abc import Sequence

from service.application.budgets import BudgetService
from service.application.estimates import Caller, Share
from service.domain.budgets import Who


class BudgetShares:
    """Asks the budgets, of which the one with the least left decides."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets

    def share(self, caller: Caller, cost: int, held: int | None) -> Sequence[Share]:
        """What a cost of so many nano-dollars would take of it, where `held` are set aside; nothing
        where none covers the caller."""
        who = Who(caller.project, caller.team, caller.owner, "", caller.labels)
        found = self._budgets.share(who)
        if found is None:
            return ()
        budget, left = found.budget, found.left
        used = None if left is None else budget.amount - left
        return (Share(budget.id, budget.name, budget.amount, used, cost, held),)
