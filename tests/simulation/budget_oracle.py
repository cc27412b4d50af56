"""What the daemons do about budgets, and what must hold of it.

Each change is told, by one message with one id, and none is lost; nodes go only from the budget's
own scope, after that was said and the grace is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, select

from service.application.budgets.admission import rooms_of
from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostService
from service.controllers.base import Controller
from service.controllers.budgets.budgets import BudgetController
from service.controllers.notifications import NotificationController
from service.domain.budgets.budget import Budget, BudgetStanding, Scope
from service.domain.clock import to_rfc3339
from service.domain.lease import Lease
from service.domain.money import format_usd, parse_usd
from service.domain.nodes.node import Node
from service.domain.notifications.notification import Channel, Notification
from service.domain.time_window import Window
from service.store.pricebook import PriceBookCache
from service.store.tables import budgets
from service.store.unit import Unit, Units
from tests.simulation.admission_oracle import AdmissionOracle, span_at
from tests.simulation.allocation_oracle import counts
from tests.simulation.allowance import Books
from tests.simulation.budget_actor import BudgetActor
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints, SeamedUnits
from tests.simulation.invariants import Invariants
from tests.simulation.webhook import Postman, Webhook

BUDGET_SECONDS, DELIVERY_SECONDS = 120, 60
LONG = 1_200
"""Seconds: near to where a period begins or ends, nothing can be said of what daemons will do."""
CLOSELY = 5
"""Of so many looks, one is held against the paper in any case."""
HYSTERESIS = 5
"""Percent of the amount below its threshold that an alert has to fall to be told anew."""
Written = Callable[[list[Node], Lease | None, list[Notification]], None]
Key = tuple[str, str, int, int]
"""A budget, what is told of it, the beginning of its period, and how often it was set anew."""


class WatchedUnits(SeamedUnits):
    """Units of work of a daemon of which the messages that they write are known."""

    def __init__(self, engine: Engine, seams: CrashPoints, saved: Written) -> None:
        super().__init__(engine, seams, lambda nodes, lease: saved(nodes, lease, self._told))
        self._told: list[Notification] = []

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._told = []
        with super().__call__(lease) as unit:
            add = unit.notifications.add

            def adding(notification: Notification) -> None:
                add(notification)
                self._told.append(notification)

            unit.notifications.add = adding  # type: ignore[method-assign]
            yield unit


@dataclass
class Spied:
    """What a daemon is told of budgets, with somebody who listens."""

    service: BudgetService
    heard: Callable[[Budget, BudgetStanding], None]

    def sum_spent(self, scope: Scope, window: Window) -> int:
        return self.service.sum_spent(scope, window)

    def find_standing(self, budget: Budget) -> BudgetStanding | None:
        standing = self.service.find_standing(budget)
        if standing is not None:
            self.heard(budget, standing)
        return standing


@dataclass
class BudgetOracle:
    """The staff that each daemon has for budgets, and who looks over its shoulder."""

    agenda: Agenda
    engine: Engine
    treasurer: BudgetActor
    judge: AdmissionOracle
    hook: Webhook
    truth: Invariants
    told: dict[Key, list[str]] = field(default_factory=dict)
    """The ids of the messages that were written of each change."""
    written: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By id of a message: its budget, and when it was written."""
    deleted: set[str] = field(default_factory=set)
    """The nodes whose end was asked for by a budget."""
    _lowest: dict[Key, int] = field(default_factory=dict)
    """What was spent at the least since it was told."""
    _looks: int = 0

    def staff(self, seams: CrashPoints) -> Sequence[tuple[int, Controller]]:
        """The controllers of a daemon that begins, by their period in seconds."""
        units = WatchedUnits(self.engine, seams, self._saved)
        prices, clock = PriceBookCache(), self.agenda.seconds
        plain = Units(self.engine)
        books = Spied(
            BudgetService(plain, prices, clock, CostService(plain, prices, clock)), self.looked
        )
        messengers = {Channel.WEBHOOK: Postman(self.hook, seams, self._outside)}
        return (
            (BUDGET_SECONDS, BudgetController(units, prices, clock, books)),
            (DELIVERY_SECONDS, NotificationController(units, messengers, clock)),
        )

    def looked(self, budget: Budget, standing: BudgetStanding) -> None:
        """A daemon has looked at a budget: what it saw is so."""
        for key in self._lowest:
            if key[0] == budget.id:
                self._lowest[key] = min(self._lowest[key], standing.spent)
        self._looks += 1
        if self._looks % CLOSELY == 0:
            self.check_standing(budget, standing)

    def check_standing(self, budget: Budget, standing: BudgetStanding) -> None:
        """What is said to be spent and to lie ahead is what it is on paper."""
        span = span_at(budget, standing.as_of)
        if span is None or (span.start, span.end) != (standing.window.start, standing.window.end):
            raise self.truth.wrong(f"{budget.name} counts in {span}, not in {standing.window}")
        books = self._books()
        if books.dirty:
            return
        spent = self.judge.allowance.spent(books, span)
        if spent != standing.spent:
            raise self.truth.wrong(
                f"{budget.name} is told to have spent {standing.spent}, not {spent}"
            )
        bounds = self.judge.allowance.held(books, span)
        if not bounds.hold(standing.held.total):
            raise self.truth.wrong(f"{budget.name} holds {standing.held.total}, not {bounds}")
        self._check_room(budget)

    def at_rest(self, service: BudgetService) -> None:
        """When all nodes have ended: nothing is set aside any more, and everybody was told."""
        for budget in self.treasurer.standing.values():
            shown = service.get(budget.id).shown
            if shown.standing is not None:
                self.check_standing(budget, shown.standing)
                held = shown.standing.held.total, self._check_room(budget)
                if any(held):
                    raise self.truth.wrong(f"{budget.name} holds {held} for what is gone")
                self._check_told(budget, shown.standing)
        for told, (budget_id, _) in self.written.items():
            if budget_id in self.treasurer.standing and told not in self.hook.got:
                raise self.truth.wrong(f"nobody was told what the message {told} says")

    def overdrawn(self) -> list[Budget]:
        """The budgets of which more was spent than they allow, and that have nodes deleted."""
        return [
            message for message in self.treasurer.standing.values() if self._is_overdrawn(message)
        ]

    def check_gone(self, overdrawn: list[Budget]) -> None:
        """Their nodes, but for those that cost nothing, were asked to go, unless somebody has set
        the budget anew meanwhile."""
        books, payers = self._books(), self.judge.allowance.payers
        same = (
            message for message in overdrawn if self.treasurer.standing.get(message.id) == message
        )
        for budget in filter(self._is_overdrawn, same):
            for node in books.nodes.values():
                runs = not node.has_ended and node.asked != "absent" and node.state != "STOPPED"
                if runs and counts(budget.scope, payers.now(node.id)):
                    raise self.truth.wrong(
                        f"{node.id} is {node.state}, and {budget.name} is exceeded"
                    )

    def _is_overdrawn(self, budget: Budget) -> bool:
        now, books = self.agenda.seconds(), self._books()
        span = span_at(budget, now)
        if budget.on_exceeded != "delete" or span is None or books.dirty:
            return False
        spent = self.judge.allowance.spent(books, span)
        return span.start + LONG < now < span.end - LONG and spent > budget.amount

    def is_quiet(self, units: Units) -> bool:
        """Whether all that was written was sent, and every budget looked at since it was set."""
        with self.engine.connect() as connection:
            anew = connection.execute(select(budgets.c.id).where(budgets.c.checked_at == 0)).all()
        with units.reading() as unit:
            return not anew and not unit.notifications.list_due(2**40, 1)

    def _check_room(self, budget: Budget) -> int | None:
        """An admission sees what was spent and is set aside; answers the latter."""
        now, books = self.agenda.seconds(), self._books()
        span = span_at(budget, now)
        with self.judge.units.reading() as unit:
            rooms = rooms_of(unit, [budget], PriceBookCache().get_book(unit), now)
        if span is None or not rooms:
            return 0
        bounds = self.judge.allowance.taken(books, span)
        spent, held = rooms[0].spent, rooms[0].held.total
        if not books.dirty and not bounds.hold(None if held is None else spent + held):
            raise self.truth.wrong(f"{budget.name}: {spent} spent, {held} set aside, not {bounds}")
        return held

    def _check_told(self, budget: Budget, standing: BudgetStanding) -> None:
        wanted = {
            f"actual:{threshold.percent}": threshold.percent * budget.amount <= standing.spent * 100
            for threshold in budget.thresholds
        }
        wanted["exceeded"] = standing.spent > budget.amount
        for kind, reached in wanted.items():
            if reached and not self.told.get(self._key(budget, kind, standing.window.start)):
                raise self.truth.wrong(f"nobody was told of {budget.name}: {kind}")

    def _saved(self, nodes: list[Node], lease: Lease | None, told: list[Notification]) -> None:
        self.truth.committed(nodes, lease)
        for message in told:
            self._check_message(message)
        for node in nodes:
            if node.asked == "absent":
                self._check_deletion(node)

    def _check_message(self, one: Notification) -> None:
        """It is true, and news."""
        said, now = json.loads(one.body), self.agenda.seconds()
        budget = self.treasurer.standing.get(one.about_id)
        span = None if budget is None else span_at(budget, now)
        if budget is None or span is None:
            raise self.truth.wrong(f"a budget is told of that is none: {one.body}")
        if one.id in self.written or said["id"] != one.id or said["at"] != to_rfc3339(now):
            raise self.truth.wrong(f"a message at {now} says {one.body}")
        books = self._books()
        spent = self.judge.allowance.spent(books, span)
        if not books.dirty and said["spent"] != format_usd(spent):
            raise self.truth.wrong(
                f"{spent} was spent of {budget.name}, and it is told: {one.body}"
            )
        kind = said["alert"]
        share = 100 if kind == "exceeded" else int(kind.partition(":")[2] or 0)
        if parse_usd(said["spent"]) * 100 < share * budget.amount:
            raise self.truth.wrong(f"{budget.name} is not so far yet: {one.body}")
        key = self._key(budget, kind, span.start)
        if self.told.get(key) and not self._came_back(key, budget, share):
            raise self.truth.wrong(f"the same was told before: {one.body}")
        self.told.setdefault(key, []).append(one.id)
        self.written[one.id], self._lowest[key] = (budget.id, now), parse_usd(said["spent"])

    def _came_back(self, key: Key, budget: Budget, share: int) -> bool:
        """Whether it was less in between, so that it is news once more."""
        return not share or self._lowest[key] * 100 < (share - HYSTERESIS) * budget.amount

    def _check_deletion(self, node: Node) -> None:
        """Some budget has it deleted that may, and said so in time."""
        payer, now = self.judge.allowance.payers.now(node.id), self.agenda.seconds()
        self.deleted.add(node.id)
        if node.state == "STOPPED" and self._is_to_stay_so(node):
            raise self.truth.wrong(f"{node.id} costs nothing, and is deleted")
        books = self._books()
        for budget in self.treasurer.standing.values():
            span = span_at(budget, now)
            if budget.on_exceeded != "delete" or span is None or not counts(budget.scope, payer):
                continue
            told = self.told.get(self._key(budget, "exceeded", span.start), [])
            in_time = any(
                self.written[message][1] + budget.grace_seconds <= now for message in told
            )
            spent = self.judge.allowance.spent(books, span)
            if in_time and (spent > budget.amount or books.dirty) and self._warned(node, budget):
                return
        raise self.truth.wrong(f"no budget may delete {node.id} of {payer}: {node.delete_reason}")

    def _is_to_stay_so(self, node: Node) -> bool:
        """Whether the last that was said of it is that it should stop."""
        with self.judge.units.reading() as unit:
            said = [event.message for event in unit.events.list_by_kind(node.id, "asked", 0)]
        orders = [message for message in said if message in {"stop requested", "start requested"}]
        return orders[-1:] == ["stop requested"]

    def _warned(self, node: Node, budget: Budget) -> bool:
        """Whether the node's own story said so, for as long as the grace."""
        with self.judge.units.reading() as unit:
            said = unit.events.list_by_kind(node.id, "budget", 0)
        latest = self.agenda.seconds() - budget.grace_seconds
        return any(
            message.facts.get("budget_id") == budget.id and message.at <= latest for message in said
        )

    def _key(self, budget: Budget, kind: str, start: int) -> Key:
        return budget.id, kind, start, self.treasurer.words[budget.id]

    def _books(self) -> Books:
        with self.judge.units.reading() as unit:
            return Books(unit, self.judge.allowance.admitted)

    def _outside(self, verb: str) -> None:
        pool: Any = self.engine.pool
        assert pool.checkedout() == 0, f"{verb} was called inside a transaction"
