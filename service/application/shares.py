"""What an estimate would take of the caller's budgets."""

from __future__ import annotations

from collections.abc import Sequence

from service.application.budgets import BudgetService
from service.application.estimates import Caller, Share
from service.domain.budgets import Who
from service.domain.estimate import Offer
from service.domain.holds import hold_for


class BudgetShares:
    """Asks the budgets, of which the one with the least left decides."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets

    def share(self, caller: Caller, offer: Offer, now: int) -> Sequence[Share]:
        """What an offer would take of it, in its present period; nothing where none covers the
        caller, or a price is not known."""
        who = Who(caller.project, caller.team, caller.owner, "", caller.labels)
        found = self._budgets.share(who)
        if found is None:
            return ()
        budget, left = found.budget, found.left
        used = None if left is None else budget.amount - left
        cost = offer.cost_before(found.window.end)
        if cost is None:
            return ()
        held = hold_for(offer.cuts, offer.chips, offer.seconds).left(found.window, now)
        return (Share(budget.id, budget.name, budget.amount, used, cost, held),)
