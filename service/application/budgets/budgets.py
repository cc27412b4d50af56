"""What callers may ask of budgets: to set them, and to see how they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import structlog

from service.application.answers import Answers
from service.application.budgets.admission import held, rooms_of
from service.application.costs.costs import CostQuestion, CostService
from service.application.retries import retrying
from service.domain.budgets.alerts import EXCEEDED, Alert, deletes_at, silence
from service.domain.budgets.budget import (
    Budget,
    BudgetStanding,
    Forecast,
    HeldAmount,
    Payer,
    Scope,
    check,
)
from service.domain.clock import MINUTE, Clock, rfc3339
from service.domain.errors import Conflict, StaleVersion, StoreUnavailable
from service.domain.idempotency import RequestKey
from service.domain.ids import check_labels, new_id
from service.domain.notifications.notification import Notification, check_emails, check_webhook
from service.domain.time_window import Granularity, Window
from service.store.budgets import BudgetRefusal
from service.store.pricebook import PriceShelf
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
"""Each of them is looked at every half minute, and some of them tell by webhook."""

LATEST = 20
"""Refusals and messages that are shown of one budget."""

UNPRICED_SHOWN = 20
"""Nodes and reservations of one budget without a price whose names are shown."""

_AT_ONCE = 50
"""Budgets whose holds are read in one statement."""

_KEPT_HOLDS = 10

_HARMLESS = frozenset({"name", "webhook", "secret", "emails"})
"""What can be changed without anything having to be told anew."""


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget and how it stands; None while it does not count. `alerts` are those that have fired
    in its period, `deletes_at` is when its nodes go. `warnings` say who is not told before."""

    budget: Budget
    standing: BudgetStanding | None
    alerts: tuple[Alert, ...] = ()
    deletes_at: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetHistory:
    """One budget with what it refused and what was told of it last, the latest first."""

    shown: BudgetStatus
    refusals: Sequence[BudgetRefusal]
    notifications: Sequence[Notification]


@dataclass(frozen=True, slots=True)
class CreatedBudget:
    """A new budget; `created` is False when the same key had asked for it before."""

    shown: BudgetStatus
    created: bool


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """A budget that somebody spends from: `left` is nano-dollars, and may be below 0; None where a
    price of one of its nodes is not known."""

    budget: Budget
    window: Window
    left: int | None


@dataclass(frozen=True, slots=True)
class MessageReach:
    """Where messages can get to: whether webhooks may lead to private addresses, and whether e-mail
    can be sent."""

    private_webhooks: bool = False
    mails: bool = False


class BudgetService:
    """What was spent is what the costs say; what is held is what may be added to that."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
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
        """Set a new budget; its id and the time are given here. With a `key`, the same wish told
        twice is one budget. Raises Rejected where it makes no sense, Conflict where the name is
        taken or there are too many."""
        budget = replace(wanted, id=new_id(), created_at=self._clock(), version=1)
        self._check(budget)

        def write(unit: Unit) -> tuple[Budget, bool]:
            if key is not None:
                known = unit.budgets.asked_before(key)
                if known is not None:
                    return known, False
            if len(unit.budgets.all()) >= MAX_BUDGETS:
                raise Conflict(f"there are {MAX_BUDGETS} budgets already; delete one first")
            unit.budgets.add(budget, key)
            return budget, True

        try:
            written, created = self._again(write)
        except Conflict:  # perhaps with the very same wish, which was written meanwhile
            known = None if key is None else self._asked_before(key)
            if known is None:
                raise
            written, created = known, False
        return CreatedBudget(self._show(written), created)

    def change(
        self, budget_id: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> BudgetStatus:
        """Set some fields anew; what was told before is told again where it is still so. Raises
        NotFound, Rejected, Conflict where the name is taken, or StaleVersion where `version` is not
        the present one."""

        def write(unit: Unit) -> Budget:
            before = unit.budgets.get(budget_id, locked=True)
            _check_version(before, version)
            after = replace(before, **changes)
            if after == before:
                return before
            self._check(after, before)
            if not changes.keys() <= _HARMLESS:
                unit.alerts.forget(budget_id)
            return unit.budgets.save(after)

        return self._show(self._again(write, once=version is not None))

    def remove(self, budget_id: str, *, version: int | None = None) -> BudgetStatus:
        """Take a budget away, and answer it as it was. Raises NotFound, or StaleVersion."""
        shown = self._show(self._get(budget_id))

        def write(unit: Unit) -> None:
            budget = unit.budgets.get(budget_id, locked=True)
            _check_version(budget, version)
            unit.budgets.remove(budget)

        self._again(write, once=version is not None)
        return shown

    def all(self) -> Sequence[Budget]:
        """Every budget, by name."""
        with self._units.reading() as unit:
            return unit.budgets.all()

    def shown(self, some: Sequence[Budget]) -> Sequence[BudgetStatus]:
        """How each of them stands."""
        standings = self._standings(some)
        with self._units.reading() as unit:
            return [
                self._shown(budget, standing, unit.alerts.of(budget.id))
                for budget, standing in zip(some, standings, strict=True)
            ]

    def details(self, some: Sequence[Budget]) -> Sequence[BudgetHistory]:
        """Each of them in full."""
        shown = self.shown(some)
        with self._units.reading() as unit:
            return [
                BudgetHistory(
                    one,
                    unit.budgets.refusals(one.budget.id, LATEST),
                    unit.notifications.of(one.budget.id, LATEST),
                )
                for one in shown
            ]

    def get(self, budget_id: str) -> BudgetHistory:
        """One budget in full; raises NotFound."""
        (found,) = self.details([self._get(budget_id)])
        return found

    def spent(self, scope: Scope, window: Window) -> int:
        """Nano-dollars that were spent in a window up to now."""
        return self._costs.report(_spent_in(scope, window)).total

    def standing(self, budget: Budget) -> BudgetStanding | None:
        """How a budget stands now; None while it does not count."""
        (found,) = self._standings([budget])
        return found

    def _standings(self, some: Sequence[Budget]) -> list[BudgetStanding | None]:
        """How each of some budgets stands now; None while it does not count."""
        now = self._clock()
        windows = [budget.window(now) for budget in some]
        counting = [
            (budget, window)
            for budget, window in zip(some, windows, strict=True)
            if window is not None
        ]
        with self._units.reading() as unit:  # both, so that nothing is posted in between
            ahead = self._held(unit, counting, now)
            spent = [
                self._costs.report_in(unit, _spent_in(budget.scope, window), now)
                for budget, window in counting
            ]
            names = _names(unit, ahead)
        standings = {
            budget.id: BudgetStanding(
                window,
                report.total,
                held,
                self._expected(budget, window, now),
                now,
                report.unpriced_seconds,
                tuple(sorted(names.get(one, one) for one in held.unpriced[:UNPRICED_SHOWN])),
            )
            for (budget, window), report, held in zip(counting, spent, ahead, strict=True)
        }
        return [standings.get(budget.id) for budget in some]

    def _held(
        self, unit: Unit, counting: Sequence[tuple[Budget, Window]], now: int
    ) -> list[HeldAmount]:
        book, revision = self._prices.book(unit), unit.revisions.now()
        found: list[HeldAmount] = []
        for first in range(0, len(counting), _AT_ONCE):
            some = counting[first : first + _AT_ONCE]
            scopes = tuple(budget.scope for budget, _ in some)
            key = revision.books, revision.nodes, now // MINUTE, scopes
            holds = self._holds.of(key, partial(unit.holds.open, scopes))
            found += held(unit, some, holds, book, now)
        return found

    def _expected(self, budget: Budget, window: Window, now: int) -> int | None:
        """The forecast; None also where it fails, as what was spent has to be told all the same."""
        if self._forecast is None:
            return None
        try:
            return self._forecast(budget, window, now)
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("budget.forecast_failed", budget=budget.name)
            return None

    def shares(self, who: Payer) -> Sequence[BudgetShare]:
        """What is left of each budget that somebody spends from and that counts now, by name: they
        count in windows of their own, so the one with the least left need not be the first to say
        no."""
        now = self._clock()
        with self._units.reading() as unit:
            covering = [one for one in unit.budgets.all() if one.scope.covers(who)]
            rooms = rooms_of(unit, covering, self._prices.book(unit), now)
        return [BudgetShare(room.budget, room.window, room.left) for room in rooms]

    def _check(self, budget: Budget, before: Budget | None = None) -> None:
        check(budget)
        same = before is not None and before.webhook == budget.webhook
        private = same or self._reach.private_webhooks
        check_webhook(budget.webhook, budget.secret, allow_private=private)
        check_emails(budget.emails)
        if budget.scope.label is not None:
            check_labels(dict([budget.scope.label]))

    def _asked_before(self, key: RequestKey) -> Budget | None:
        with self._units.reading() as unit:
            return unit.budgets.asked_before(key)

    def _get(self, budget_id: str) -> Budget:
        with self._units.reading() as unit:
            return unit.budgets.get(budget_id)

    def _show(self, budget: Budget) -> BudgetStatus:
        (found,) = self.shown([budget])
        return found

    def _shown(
        self, budget: Budget, standing: BudgetStanding | None, alerts: Mapping[str, Alert]
    ) -> BudgetStatus:
        warnings = tuple(filter(None, [silence(budget, mails=self._reach.mails)]))
        if standing is None:
            return BudgetStatus(budget, None, warnings=warnings)
        here = {k: one for k, one in alerts.items() if one.period == standing.window.start}
        fired = tuple(one for one in here.values() if one.fired_at is not None)
        return BudgetStatus(
            budget, standing, fired, deletes_at(budget, here.get(EXCEEDED)), warnings
        )

    def _again(self, work: Callable[[Unit], T], *, once: bool = False) -> T:
        return retrying(self._units, work, "the budget", once=once)


def _names(unit: Unit, ahead: Sequence[HeldAmount]) -> Mapping[str, str]:
    """The names of those nodes and reservations whose price is not known, by id, as far as they are
    shown."""
    ids = {one for held in ahead for one in held.unpriced[:UNPRICED_SHOWN]}
    if not ids:
        return {}
    nodes = {node_id: node.name for node_id, node in unit.nodes.many(ids).items()}
    bought = {one.id: one.name for one in unit.reservations.standing() if one.id in ids}
    return nodes | bought


def _spent_in(scope: Scope, window: Window) -> CostQuestion:
    said = f"{rfc3339(window.start)},{rfc3339(window.end)}"
    return CostQuestion(said, step=Granularity.ALL, only=scope.only)


def _check_version(budget: Budget, version: int | None) -> None:
    if version is not None and version != budget.version:
        raise StaleVersion(
            f"budget {budget.name!r} has changed since you read it", version=budget.version
        )
