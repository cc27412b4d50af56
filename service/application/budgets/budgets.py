"""Budgets as callers set and read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import structlog

from service.application.answers import Answers
from service.application.budgets.admission import held_amounts, rooms_of
from service.application.costs.costs import CostQuestion, CostService
from service.application.idempotency import Remember, write_once
from service.application.retries import run_with_retries
from service.domain.budgets.alerts import EXCEEDED, Alert, deletes_at, describe_silence
from service.domain.budgets.budget import (
    Budget,
    BudgetStanding,
    Forecast,
    HeldAmount,
    Payer,
    Scope,
    check_budget,
)
from service.domain.clock import MINUTE, Clock, to_rfc3339
from service.domain.errors import Conflict, NotFound, StaleVersion, StoreUnavailable
from service.domain.idempotency import RequestKey
from service.domain.ids import check_labels, new_id
from service.domain.notifications.notification import Notification, check_emails, check_webhook
from service.domain.time_window import Granularity, Window
from service.store.budgets import BudgetRefusal
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

__all__ = [
    "BudgetHistory",
    "BudgetService",
    "BudgetShare",
    "BudgetStatus",
    "CreatedBudget",
    "MessageReach",
]

T = TypeVar("T")

log = structlog.get_logger()

MAX_BUDGETS = 500
"""The daemon looks at each budget every half minute, and some of them call a webhook."""

LATEST = 20
"""Refusals and messages that are shown for one budget."""

UNPRICED_SHOWN = 20
"""Nodes and reservations without a price whose names are shown for one budget."""

_AT_ONCE = 50
"""Budgets whose holds are read in one statement."""

_KEPT_HOLDS = 10

_HARMLESS = frozenset({"name", "webhook", "secret", "emails"})
"""Fields that can change without repeating alerts."""


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget and how it stands; `standing` is None while the budget does not count. `alerts` are
    those that have fired in its period, `deletes_at` is when its nodes are deleted. `warnings` say
    who is not notified before."""

    budget: Budget
    standing: BudgetStanding | None
    alerts: tuple[Alert, ...] = ()
    deletes_at: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetHistory:
    """One budget with its last refusals and messages, the latest first."""

    shown: BudgetStatus
    refusals: Sequence[BudgetRefusal]
    notifications: Sequence[Notification]


@dataclass(frozen=True, slots=True)
class CreatedBudget:
    """A new budget; `created` is False if a request with the same key created it before."""

    shown: BudgetStatus
    created: bool


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The rest of a budget that a payer spends from, in nano-dollars. `left` may be below 0;
    None if the price of one of its nodes is unknown."""

    budget: Budget
    window: Window
    left: int | None


@dataclass(frozen=True, slots=True)
class MessageReach:
    """Which messages can be delivered: whether webhooks may use private addresses, and whether
    e-mail can be sent."""

    private_webhooks: bool = False
    mails: bool = False


class BudgetService:
    """Budgets compare the costs so far plus the holds with their amounts."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        costs: CostService,
        forecast: Forecast | None = None,
        reach: MessageReach | None = None,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._costs = costs
        self._forecast = forecast
        self._reach = reach or MessageReach()
        self._holds = Answers(_KEPT_HOLDS)

    def create(self, wanted: Budget, key: RequestKey | None = None) -> CreatedBudget:
        """Create a budget; its id and creation time are set here. With a `key`, repeated requests
        create one budget. Raises Rejected for an invalid budget, Conflict if the name is taken, if
        there are too many budgets, or if the budget of the key was deleted since."""
        budget = replace(wanted, id=new_id(), created_at=self._clock(), version=1)
        self._check_budget(budget)

        def write_budget(unit: Unit, _: Remember) -> str:
            if len(unit.budgets.list_all()) >= MAX_BUDGETS:
                raise Conflict(f"there are {MAX_BUDGETS} budgets already; delete one first")
            unit.budgets.add(budget)
            return budget.id

        budget_id, created = write_once(self._units, "budgets", key, self._clock, write_budget)
        try:
            written = self._read_budget(budget_id)
        except NotFound:
            raise Conflict("the budget of this request was deleted; use another key") from None
        return CreatedBudget(self._read_status(written), created)

    def update_fields(
        self, budget_id: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> BudgetStatus:
        """Change some fields; alerts fire again if their cause still holds. Raises NotFound,
        Rejected, Conflict if the name is taken, or StaleVersion if `version` is not the current
        one."""

        def write_changes(unit: Unit) -> Budget:
            before = unit.budgets.get(budget_id, locked=True)
            _check_version(before, version)
            after = replace(before, **changes)
            if after == before:
                return before
            self._check_budget(after, before)
            if not changes.keys() <= _HARMLESS:
                unit.alerts.delete_all(budget_id)
            return unit.budgets.save(after)

        return self._read_status(self._retry_stale(write_changes, once=version is not None))

    def delete(self, budget_id: str, *, version: int | None = None) -> BudgetStatus:
        """Delete a budget; returns its last status. Raises NotFound, or StaleVersion."""
        shown = self._read_status(self._read_budget(budget_id))

        def delete_budget(unit: Unit) -> None:
            budget = unit.budgets.get(budget_id, locked=True)
            _check_version(budget, version)
            unit.budgets.delete(budget)

        self._retry_stale(delete_budget, once=version is not None)
        return shown

    def list_all(self) -> Sequence[Budget]:
        """Every budget, by name."""
        with self._units.reading() as unit:
            return unit.budgets.list_all()

    def count_active(self) -> int:
        """How many budgets have a current period."""
        now = self._clock()
        with self._units.reading() as unit:
            return sum(budget.window_at(now) is not None for budget in unit.budgets.list_all())

    def list_exceeded(self) -> frozenset[str]:
        """The ids of the budgets that were found exceeded in their current period."""
        now = self._clock()
        with self._units.reading() as unit:
            fired = unit.alerts.find_by_kind(EXCEEDED)
            return frozenset(
                budget.id
                for budget in unit.budgets.list_all()
                if (alert := fired.get(budget.id)) is not None
                and alert.fired_at is not None
                and (window := budget.window_at(now)) is not None
                and alert.period == window.start
            )

    def list_statuses(self, some: Sequence[Budget]) -> Sequence[BudgetStatus]:
        """The status of each of the budgets."""
        standings = self._list_standings(some)
        with self._units.reading() as unit:
            alerts = unit.alerts.find_by_budgets([budget.id for budget in some])
        statuses = []
        for budget, standing in zip(some, standings, strict=True):
            warnings = tuple(filter(None, [describe_silence(budget, mails=self._reach.mails)]))
            if standing is None:
                statuses.append(BudgetStatus(budget, None, warnings=warnings))
                continue
            of_period = {
                kind: alert
                for kind, alert in alerts.get(budget.id, {}).items()
                if alert.period == standing.window.start
            }
            fired = tuple(alert for alert in of_period.values() if alert.fired_at is not None)
            deletion_at = deletes_at(budget, of_period.get(EXCEEDED))
            statuses.append(BudgetStatus(budget, standing, fired, deletion_at, warnings))
        return statuses

    def list_histories(self, some: Sequence[Budget]) -> Sequence[BudgetHistory]:
        """Each of the budgets in full."""
        shown = self.list_statuses(some)
        with self._units.reading() as unit:
            return [
                BudgetHistory(
                    status,
                    unit.budgets.list_refusals(status.budget.id, LATEST),
                    unit.notifications.list_newest(status.budget.id, LATEST),
                )
                for status in shown
            ]

    def get(self, budget_id: str) -> BudgetHistory:
        """One budget in full; raises NotFound."""
        (found,) = self.list_histories([self._read_budget(budget_id)])
        return found

    def sum_spent(self, scope: Scope, window: Window) -> int:
        """Nano-dollars that were spent in a window up to now."""
        return self._costs.report(_spent_in(scope, window)).total

    def find_standing(self, budget: Budget) -> BudgetStanding | None:
        """How a budget stands now; None while it does not count."""
        (found,) = self._list_standings([budget])
        return found

    def _list_standings(self, some: Sequence[Budget]) -> list[BudgetStanding | None]:
        """How each of the budgets stands now; None while it does not count."""
        now = self._clock()
        windows = [budget.window_at(now) for budget in some]
        counting = [
            (budget, window)
            for budget, window in zip(some, windows, strict=True)
            if window is not None
        ]
        with self._units.reading() as unit:  # one snapshot: nothing is posted in between
            book, revision = self._prices.get_book(unit), unit.revisions.read_current()
            ahead: list[HeldAmount] = []
            for first in range(0, len(counting), _AT_ONCE):
                part = counting[first : first + _AT_ONCE]
                scopes = tuple(budget.scope for budget, _ in part)
                key = revision.books, revision.nodes, now // MINUTE, scopes
                holds = self._holds.get_or_make(key, partial(unit.holds.list_open, scopes))
                ahead += held_amounts(unit, part, holds, book, now)
            spent = [
                self._costs.report_in(unit, _spent_in(budget.scope, window), now)
                for budget, window in counting
            ]
            names = _name_unpriced(unit, ahead)
        standings = {
            budget.id: BudgetStanding(
                window,
                report.total,
                held,
                self._find_forecast(budget, window, now),
                now,
                report.unpriced_seconds,
                tuple(
                    sorted(
                        names.get(unpriced_id, unpriced_id)
                        for unpriced_id in held.unpriced[:UNPRICED_SHOWN]
                    )
                ),
            )
            for (budget, window), report, held in zip(counting, spent, ahead, strict=True)
        }
        return [standings.get(budget.id) for budget in some]

    def _find_forecast(self, budget: Budget, window: Window, now: int) -> int | None:
        """The forecast of a budget. None if the forecast fails: the amount spent is reported
        anyway."""
        if self._forecast is None:
            return None
        try:
            return self._forecast(budget, window, now)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("budget.forecast_failed", budget=budget.name)
            return None

    def list_shares(self, who: Payer) -> Sequence[BudgetShare]:
        """The rest of each budget that a payer spends from and that counts now, by name.
        Budgets count in different windows, so the budget with the least left need not be the first
        to refuse."""
        now = self._clock()
        with self._units.reading() as unit:
            covering = [
                budget for budget in unit.budgets.list_all() if budget.scope.applies_to(who)
            ]
            rooms = rooms_of(unit, covering, self._prices.get_book(unit), now)
        return [BudgetShare(room.budget, room.window, room.amount_left) for room in rooms]

    def _check_budget(self, budget: Budget, before: Budget | None = None) -> None:
        check_budget(budget)
        same = before is not None and before.webhook == budget.webhook
        private = same or self._reach.private_webhooks
        check_webhook(budget.webhook, budget.secret, allow_private=private)
        check_emails(budget.emails)
        if budget.scope.label is not None:
            check_labels(dict([budget.scope.label]))

    def _read_budget(self, budget_id: str) -> Budget:
        with self._units.reading() as unit:
            return unit.budgets.get(budget_id)

    def _read_status(self, budget: Budget) -> BudgetStatus:
        (found,) = self.list_statuses([budget])
        return found

    def _retry_stale(self, work: Callable[[Unit], T], *, once: bool = False) -> T:
        return run_with_retries(self._units, work, "the budget", once=once)


def _name_unpriced(unit: Unit, ahead: Sequence[HeldAmount]) -> Mapping[str, str]:
    """The names of the shown nodes and reservations whose price is unknown, by id."""
    ids = {unpriced_id for held in ahead for unpriced_id in held.unpriced[:UNPRICED_SHOWN]}
    if not ids:
        return {}
    nodes = {node_id: node.name for node_id, node in unit.nodes.find_many(ids).items()}
    bought = {
        reservation.id: reservation.name
        for reservation in unit.reservations.list_standing()
        if reservation.id in ids
    }
    return nodes | bought


def _spent_in(scope: Scope, window: Window) -> CostQuestion:
    said = f"{to_rfc3339(window.start)},{to_rfc3339(window.end)}"
    return CostQuestion(said, step=Granularity.ALL, only=scope.cost_filter)


def _check_version(budget: Budget, version: int | None) -> None:
    if version is not None and version != budget.version:
        raise StaleVersion(
            f"budget {budget.name!r} has changed since you read it", version=budget.version
        )
