"""A lab with budgets: its treasurer, the desk at which callers are told no, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from sqlalchemy import Engine

from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostService
from service.controllers.base import Controller
from service.domain.clock import Clock
from service.domain.pricing.price_book import Price
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.admission_oracle import AdmissionOracle
from tests.simulation.allocation_oracle import AllocationOracle
from tests.simulation.allowance import Allowance
from tests.simulation.api_front import ApiFront
from tests.simulation.budget_actor import BudgetActor
from tests.simulation.budget_oracle import BUDGET_SECONDS, BudgetOracle
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints
from tests.simulation.invariants import Invariants
from tests.simulation.process import Process
from tests.simulation.rates import Rates
from tests.simulation.webhook import Webhook

A_GRACE = 1_000
"""Seconds within which daemons that nothing happens to have warned, waited and asked for the end of
what a budget may not pay for any more: the longest grace, and some looks."""
LONGEST_RETRY = 3_600


class BudgetLab:
    """What a run with budgets has beside the others."""

    def __init__(
        self,
        agenda: Agenda,
        engine: Engine,
        fortune: Rates,
        luck: Callable[[str], Random],
        entered: Sequence[Price],
        truth: Invariants,
        clock: Clock,
        projects: Sequence[str],
    ) -> None:
        self._agenda = agenda
        self._units = Units(engine)
        shared = self._units, PriceBookCache(), clock
        self.service = BudgetService(*shared, CostService(*shared))
        self.treasurer = BudgetActor(
            agenda, self.service, luck("treasurer"), fortune.budgets, fortune.hours
        )
        allowance = Allowance(AllocationOracle(), entered)
        self.judge = AdmissionOracle(agenda, self._units, truth, allowance, self.treasurer.standing)
        self.desk = ApiFront(agenda, engine, self.judge, luck("desk"), projects, clock)
        self.hook = Webhook(agenda, truth, luck("hook"), fortune.hook_failing)
        self.treasury = BudgetOracle(agenda, engine, self.treasurer, self.judge, self.hook, truth)
        self._fortune = fortune
        self._luck = luck
        self._seams: list[CrashPoints] = []

    def begin(self) -> None:
        """Budgets are set and changed from now on."""
        self.treasurer.begin()

    def staff(self, name: str) -> Callable[[Process], Sequence[tuple[int, Controller]]]:
        """Makes what the daemon of that name does about budgets, each time that it begins."""
        seams = CrashPoints(self._agenda, self._luck(f"treasury {name}"), self._fortune)
        self._seams.append(seams)
        return lambda process: self.treasury.staff(process.of(seams))

    def clear_up(self, away: float) -> None:
        """Nothing goes wrong any more; what has to go because of a budget goes now, once the
        daemons are there again, which are `away` for so many seconds."""
        self.desk.calm = self.hook.calm = True
        for seams in self._seams:
            seams.calm = True
        overdrawn = self.treasury.overdrawn()
        if overdrawn:
            self._agenda.pass_(away + A_GRACE)
            self.treasury.check_gone(overdrawn)

    def at_rest(self, away: float) -> None:
        """Once all nodes have ended, and the daemons are there again."""
        self._agenda.pass_(away + 4 * BUDGET_SECONDS)
        for _ in range(LONGEST_RETRY // 600):
            if self.treasury.is_quiet(self._units):
                break
            self._agenda.pass_(600)
        self.treasury.at_rest(self.service)
