"""A lab with budgets in it: the services and controllers that know of money, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from service.application.budgets.admission import rooms_of
from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostService
from service.application.nodes.nodes import NodeService
from service.controllers.budgets.budgets import BudgetController
from service.controllers.metering import MeteringController
from service.controllers.notifications import NotificationController
from service.controllers.recording.posting import post_usage
from service.domain.budgets.admission import OVERRUN_SECONDS, BudgetRoom
from service.domain.budgets.budget import Budget, OnExceeded
from service.domain.idle.policy import Recipient
from service.domain.nodes.node import Node, NodeState
from service.domain.notifications.notification import Channel, Notification
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.hands import HandClock
from tests.store.given import GivenPrices

HOOK = {"webhook": "https://hooks.example.com/x", "secret": "a secret of some length"}
"""Whom a budget tells."""

HOURLY = 9_600_000_000
"""What eight v5e chips cost an hour, in nano-dollars."""


def lasting(seconds: int) -> int:
    """The time to live for which just so many seconds are set aside."""
    return seconds - OVERRUN_SECONDS


class BudgetedLab:
    """Whoever asks for nodes here pays for them."""

    def __init__(
        self, units: Units, clock: HandClock, prices: PriceBookCache | None = None
    ) -> None:
        self.units = units
        self.clock = clock
        self.prices = GivenPrices() if prices is None else prices
        shared = units, self.prices, clock
        self.costs = CostService(*shared)
        self.nodes = NodeService(*shared, [factories.PROJECT])
        self.expected: int | None = None
        self.budgets = BudgetService(*shared, self.costs, lambda *_: self.expected)
        self.controller = BudgetController(*shared, self.budgets)
        self.metering = MeteringController(*shared)
        with units() as unit:
            lease = unit.leases.take(factories.PROJECT, "daemon", 3_600)
            assert lease is not None
            unit.leases.save_log_release(lease, releases_deletions=True)
        self.lease = lease

    def budget(self, **changes: Any) -> Budget:
        """A cap on the team vision, unless something else is said."""
        wanted = factories.budget(**({"on_exceeded": OnExceeded.REFUSE} | changes))
        return self.budgets.create(wanted).shown.budget

    def ask(self, **changes: Any) -> Node:
        """Someone asks for a node."""
        return self.nodes.request(factories.request(**changes)).node

    def up(self, node: Node) -> Node:
        """The node is READY from now on, and costs money."""
        now = self.clock()
        with self.units() as unit:
            node = unit.nodes.save(
                replace(
                    unit.nodes.get(node.id),
                    state=NodeState.READY,
                    ready_at=now,
                    sent_at=now,
                    attempt=1,
                )
            )
            usage = factories.usage(node_id=node.id, start=now, chips=node.spec.chips)
            usage = unit.usage.save(usage)
        return node

    def down(self, node: Node, state: NodeState = NodeState.DELETED) -> None:
        """The node costs nothing from now on; with DELETED, it has ended."""
        now = self.clock()
        ended: dict[str, Any] = {"ended_at": now} if state is NodeState.DELETED else {}
        with self.units() as unit:
            book = self.prices.get_book(unit)
            for usage in unit.usage.list_open_of(node.id):
                closed = unit.usage.save(replace(usage, end=now, end_lo=now, dirty=True))
                post_usage(unit, closed, book, now)
            unit.nodes.save(replace(unit.nodes.get(node.id), state=state, **ended))

    def room(self, budget: Budget) -> BudgetRoom:
        """What is spent and set aside, as admission sees it."""
        with self.units.reading() as unit:
            return rooms_of(unit, [budget], self.prices.get_book(unit), self.clock())[0]

    def held(self, budget: Budget) -> int:
        """What is set aside, where that can be told."""
        held = self.room(budget).held.total
        assert held is not None
        return held

    def tick(self, seconds: int = 60) -> None:
        """Time passes, and the budgets are looked at."""
        self.clock.pass_(seconds)
        self.metering.tick(self.lease)
        self.controller.tick(self.lease)

    def node(self, node: Node) -> Node:
        """It as it is now."""
        return self.nodes.get(node.id)


class Post:
    """Takes messages, or does not; `partly` is whom it does not reach."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, int]] = []
        self.errors: list[Exception] = []
        self.partly: str | None = None

    def send(self, one: Notification, to: Recipient, now: int) -> str | None:
        """Take it, unless there is an error to raise."""
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append((one.id, to.webhook, now))
        return self.partly


def deliver(budgeted: BudgetedLab, post: Post | None = None) -> None:
    """What waits to be told is sent, or tried."""
    messengers = {Channel.WEBHOOK: post or Post()}
    NotificationController(budgeted.units, messengers, budgeted.clock).tick(budgeted.lease)


def told(budgeted: BudgetedLab, budget: Budget) -> list[dict[str, Any]]:
    """The messages about a budget, the earliest first."""
    with budgeted.units.reading() as unit:
        found = unit.notifications.list_newest(budget.id, 100)
    return [json.loads(message.body) for message in reversed(found)]
