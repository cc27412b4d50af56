"""The lab's treasurer: sets budgets of every kind, thinks better of them, and takes some away."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from service.application.budgets.budgets import BudgetService
from service.domain.budgets.budget import Budget, OnExceeded, Period, Scope, Threshold
from service.domain.clock import HOUR
from service.domain.money import NANOS
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Violation

SCOPES = (
    Scope(),
    Scope(project="lab"),
    Scope(project="elsewhere"),
    Scope(team="vision"),
    Scope(team="vision"),
    Scope(team="nlp"),
    Scope(owner="ada"),
    Scope(team="vision", owner="ada"),
    Scope(label=("run", "17")),
    Scope(team="vision", label=("run", "17")),
    Scope(job="sweep"),
)
ZONES = ("UTC", "UTC", "Australia/Sydney", "Australia/Adelaide", "Asia/Kolkata")
"""In two of them a day ends soon after the fleet begins to live, in one within an hour of UTC."""
LEAST, MOST = 0.5, 120.0
"""Dollars: some are passed within minutes, others hold a few nodes to the end of their day."""
GRACES = (0, 60, 300)
EARLY = 0.4
"""The share of those that are there before anybody asks for anything."""


@dataclass
class BudgetActor:
    """It has luck of its own."""

    agenda: Agenda
    service: BudgetService
    luck: Random
    count: int
    hours: float
    standing: dict[str, Budget] = field(default_factory=dict)
    """Those that are there, as they were last set."""
    words: dict[str, int] = field(default_factory=dict)
    """By budget: how often it was changed in a way after which all is told anew."""

    def begin(self) -> None:
        """Have them set before the fleet lives or in its first half, and some changed later."""
        for number in range(self.count):
            kind = self.luck.choice([*OnExceeded, OnExceeded.REFUSE])
            self.agenda.after(self._when(kind), partial(self._set, number, kind))

    def _when(self, kind: OnExceeded) -> float:
        """One that has nodes deleted is set when there are some, which it would have refused."""
        if kind is OnExceeded.DELETE:
            return self.luck.uniform(0.3, 0.9) * self.hours * HOUR
        return 0 if self.luck.random() < EARLY else self.luck.uniform(0, self.hours * HOUR / 2)

    def _set(self, number: int, kind: OnExceeded) -> None:
        wanted = self._draw(number, kind)
        made = self.service.create(wanted, key=None).shown.budget
        self.standing[made.id], self.words[made.id] = made, 0
        for _ in range(self.luck.choice([0, 1, 1, 2, 4])):
            when = self.luck.uniform(0, self.hours * HOUR)
            self.agenda.after(when, partial(self._change, made.id))
        if self.luck.random() < 0.1:
            when = self.luck.uniform(0, self.hours * HOUR)
            self.agenda.after(when, partial(self._remove, made.id))

    def _draw(self, number: int, kind: OnExceeded) -> Budget:
        now = self.agenda.seconds()
        period = self.luck.choice([Period.DAY, Period.DAY, Period.CUSTOM, *Period])
        ends = period is Period.CUSTOM or self.luck.random() < 0.2
        begins = self.luck.random() < 0.2
        start = now + self.luck.randint(-HOUR, HOUR) if begins else None
        end = now + self.luck.randint(HOUR + 60, 4 * HOUR) if ends else None
        return Budget(
            id="",
            name=f"budget-{number}",
            scope=self.luck.choice(SCOPES),
            amount=self._amount() // (20 if kind is OnExceeded.DELETE else 1),
            period=period,
            tz=self.luck.choice(ZONES),
            created_at=0,
            thresholds=tuple(map(Threshold, sorted(self.luck.sample([10, 50, 80, 100, 200], 2)))),
            on_exceeded=kind,
            start=start,
            end=end,
            burn_rate=self.luck.choice([None, None, 2, 10]),
            grace_seconds=self.luck.choice(GRACES),
            webhook=f"https://hooks.example.com/{number}",
            secret=f"the secret of budget {number}",
        )

    def _amount(self) -> int:
        dollars = LEAST * (MOST / LEAST) ** self.luck.random()
        return int(dollars * 1_000_000) * (NANOS // 1_000_000) + self.luck.randint(0, 999)

    def _change(self, budget_id: str) -> None:
        before = self.standing.get(budget_id)
        if before is None:
            return
        changes = self._drawn_changes(before)
        after = self.service.update_fields(budget_id, changes).budget
        said = {name: getattr(after, name) for name in changes}
        if said != changes:
            raise Violation(f"{before.name} was to be {changes}, and is {said}")
        self.standing[budget_id] = after
        if "name" not in changes and after.version != before.version:
            self.words[budget_id] += 1

    def _drawn_changes(self, before: Budget) -> dict[str, Any]:
        less = max(1, before.amount // self.luck.choice([2, 10, 100]))
        return self.luck.choice(
            [
                {"amount": less},
                {"amount": less},
                {"amount": before.amount * self.luck.choice([2, 10])},
                {"amount": self._amount()},
                {"on_exceeded": self.luck.choice(list(OnExceeded))},
                {"scope": self.luck.choice(SCOPES)},
                {"grace_seconds": self.luck.choice(GRACES)},
                {"name": f"{before.name}-x"},
            ]
        )

    def _remove(self, budget_id: str) -> None:
        self.service.delete(budget_id)
        del self.standing[budget_id]
