"""What an estimate would take of the caller's budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.application.budgets.budgets import BudgetService
from service.application.pricing.estimates import Caller, OfferShare
from service.domain.budgets.admission import hold_for
from service.domain.budgets.budget import Payer
from service.domain.pricing.estimate import PriceOffer


class BudgetShares:
    """Asks every budget that covers the caller: a node has to fit into all that refuse."""

    def __init__(self, budgets: BudgetService) -> None:
        self._budgets = budgets

    def share(self, caller: Caller, offer: PriceOffer, now: int) -> Sequence[OfferShare]:
        """What an offer would take of each in its present period, the tightest first; nothing of
        one for whose period a price is not known."""
        who = Payer(caller.project, caller.team, caller.owner, "", caller.labels)
        return sorted(self._each(who, offer, now), key=_room)

    def _each(self, who: Payer, offer: PriceOffer, now: int) -> Iterator[OfferShare]:
        hold = hold_for(offer.cuts, offer.chips, offer.seconds)
        for found in self._budgets.shares(who):
            budget, window = found.budget, found.window
            used = None if found.left is None else budget.amount - found.left
            cost = offer.cost_before(window.end)
            if cost is not None:
                held = hold.left(window, now)
                yield OfferShare(budget, window.end, used, cost, held)


def _room(share: OfferShare) -> tuple[bool, int, str]:
    """What nobody knows comes first, as it refuses whatever is asked for."""
    return share.room is not None, share.room or 0, share.budget.name
