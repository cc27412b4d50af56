"""What the node of an estimate would take of the caller's budgets."""

from __future__ import annotations

from collections.abc import Sequence

from service.application.budgets.budgets import BudgetService
from service.application.pricing.estimates import Caller, OfferShare
from service.domain.budgets.admission import hold_for
from service.domain.budgets.budget import Payer
from service.domain.pricing.estimate import PriceOffer


class BudgetShares:
    """Asks every budget that covers the caller; a node has to fit into each budget that refuses."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets

    def list_shares(self, caller: Caller, offer: PriceOffer, now: int) -> Sequence[OfferShare]:
        """What an offer would take of each budget in its current period, the tightest budget first.
        A budget is left out if a price in its period is unknown."""
        who = Payer(caller.project, caller.team, caller.owner, "", caller.labels)
        hold = hold_for(offer.cuts, offer.chips, offer.seconds)
        shares = []
        for found in self._budgets.list_shares(who):
            budget, window = found.budget, found.window
            used = None if found.left is None else budget.amount - found.left
            cost = offer.cost_before(window.end)
            if cost is not None:
                held = hold.remaining_cost(window, now)
                shares.append(OfferShare(budget, window.end, used, cost, held))
        # An unknown room comes first, because that budget refuses every request.
        return sorted(
            shares, key=lambda share: (share.room is not None, share.room or 0, share.budget.name)
        )
