"""A budget that deletes the nodes of one owner, whatever they do and whoever keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostService
from service.application.pricing.prices import PriceService
from service.controllers.base import Controller
from service.controllers.budgets.budgets import BudgetController
from service.domain.budgets.budget import Budget, OnExceeded, Period, Scope
from service.domain.money import NANOS
from service.domain.pricing.price_book import Price
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.cleanup.oracle import OwnersBudget

if TYPE_CHECKING:
    from tests.simulation.cleanup.run import Run

OWNER = "ada"
GRACE = 300
PERIOD_SECONDS = 60


@dataclass
class Treasury:
    """Prices from the first second on; the budget comes later, when it is exceeded already."""

    life: Run
    luck: Random

    def begin(self) -> None:
        shared = self.life.units, PriceBookCache(), self.life.agenda.seconds
        self._budgets = BudgetService(*shared, CostService(*shared))
        prices = PriceService(*shared)
        for model in ("on_demand", "spot"):
            per_hour = self.luck.randint(NANOS // 2, 2 * NANOS)
            prices.add(Price("", "v5e", model, "chip_hour", "us-west4", per_hour, 0, "a list"))
        self.life.agenda.after(self.luck.uniform(1_200, 3_600), self._set)

    def _set(self) -> None:
        wanted = Budget(
            id="",
            name="a cent",
            scope=Scope(owner=OWNER),
            amount=NANOS // 100,
            period=Period.MONTH,
            tz="UTC",
            created_at=0,
            on_exceeded=OnExceeded.DELETE,
            grace_seconds=GRACE,
        )
        made = self._budgets.create(wanted).shown.budget
        self.life.oracle.budget = OwnersBudget(OWNER, made.created_at, GRACE)

    def make_controllers(self, units: Units) -> Sequence[tuple[int, Controller]]:
        """What a daemon does about the budget, with its units of work."""
        plain, prices, clock = self.life.units, PriceBookCache(), self.life.agenda.seconds
        books: Any = BudgetService(plain, prices, clock, CostService(plain, prices, clock))
        return [(PERIOD_SECONDS, BudgetController(units, prices, clock, books))]
