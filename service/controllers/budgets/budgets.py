"""Checks every budget, notifies people once of each alert, and requests the deletion of nodes when
a budget is exceeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from service.domain.budgets.admission import rate_of
from service.domain.budgets.alerts import EXCEEDED, PACES, Alert, deletes_at, find_changes
from service.domain.budgets.budget import Budget, BudgetBooks, BudgetStanding, OnExceeded
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import LeaseLost, NotFound, StaleVersion, StoreUnavailable
from service.domain.event import Event
from service.domain.idle.ends import describe_exceeded
from service.domain.ids import new_id
from service.domain.lease import Lease
from service.domain.lifecycle.precedence import describe_others
from service.domain.money import format_cents, format_usd
from service.domain.nodes.keep import describe_keep_end
from service.domain.nodes.node import Asked, Node
from service.domain.notifications.notification import Channel, Notification, body_of
from service.domain.time_window import Window
from service.store.node_ends import read_causes
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

PERIOD_SECONDS = 30
"""A budget is checked at most once in so many seconds, by one of all daemons: budgets belong to no
project, so all daemons see them."""

NAME = "the budget controller"
KIND = "budget"
"""Kind of the events that announce the deletion of a node."""


class BudgetController:
    """Running twice notifies nobody twice: an alert is stored together with its message."""

    name = "budgets"

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, books: BudgetBooks
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._books = books
        self._priced: dict[str, int] = {}

    def tick(self, lease: Lease) -> None:
        """Request the deletions that are due in the project, then check the unclaimed budgets.

        In this order, so that no deletion follows from an alert of the same tick.
        """
        self._raise_holds(lease)
        with self._units.reading() as unit:
            budgets = unit.budgets.list_all()
        for budget in budgets:
            if budget.on_exceeded is OnExceeded.DELETE:
                self._run_isolated(self._delete_due, budget, lease)
        with self._units.reading() as unit:
            due = unit.budgets.list_unclaimed(self._clock(), PERIOD_SECONDS)
        for budget in (known for known in budgets if known.id in due):
            with self._units(lease) as unit:
                is_claimed = unit.budgets.claim(budget.id, self._clock(), PERIOD_SECONDS)
            if is_claimed:
                self._run_isolated(self._check_budget, budget, lease)

    def _run_isolated(
        self, work: Callable[[Budget, Lease], None], budget: Budget, lease: Lease
    ) -> None:
        try:
            work(budget, lease)
        except (LeaseLost, StoreUnavailable):
            raise  # every other budget would fail too
        except Exception:  # one poisoned budget must not starve the others
            log.exception("budget.failed", budget=budget.name)

    def _check_budget(self, budget: Budget, lease: Lease) -> None:
        standing = self._books.find_standing(budget)
        if standing is None:
            return
        now, short, long = standing.as_of, 0, 0
        if budget.burn_rate is not None:
            short, long = (
                self._books.sum_spent(budget.scope, Window(now - seconds, now)) for seconds in PACES
            )
        with self._units(lease) as unit:
            if not _is_unchanged(unit, budget):
                return
            alerts = unit.alerts.find_by_budget(budget.id)
            for alert, message in find_changes(budget, standing, (short, long), alerts):
                unit.alerts.save(budget.id, alert)
                if message:
                    log.warning("budget.alert", budget=budget.name, kind=alert.kind, told=message)
                    self._add_messages(unit, budget, standing, alert, message)

    def _add_messages(
        self, unit: Unit, budget: Budget, standing: BudgetStanding, alert: Alert, message: str
    ) -> None:
        """Put the messages into the outbox, and announce the deletion on every affected node."""
        now = standing.as_of
        goes_at = deletes_at(budget, alert) if alert.kind == EXCEEDED else None
        facts: dict[str, object] = {
            "kind": f"budget.{alert.kind.partition(':')[0]}",
            "alert": alert.kind,
            "at": to_rfc3339(standing.as_of),
            "budget": {
                "id": budget.id,
                "name": budget.name,
                "scope": budget.scope.words,
                "amount": format_usd(budget.amount),
                "currency": "USD",
                "period": budget.period,
                "starts_at": to_rfc3339(standing.window.start),
                "ends_at": to_rfc3339(standing.window.end),
                "on_exceeded": budget.on_exceeded,
            },
            "spent": format_usd(standing.spent),
            "held": None if standing.held.total is None else format_usd(standing.held.total),
            "held_known": format_usd(standing.held.known),
            "forecast": None if standing.forecast is None else format_usd(standing.forecast),
            "deletes_at": None if goes_at is None else to_rfc3339(goes_at),
        }
        channels = {Channel.WEBHOOK: budget.webhook, Channel.MAIL: budget.emails}
        for channel, recipients in channels.items():
            if recipients:
                message_id = new_id()
                body = body_of({"id": message_id, "message": message, **facts})
                subject = f"[TPU Steward] {budget.name}: {alert.kind.replace('_', ' ')}"
                unit.notifications.add(
                    Notification(message_id, budget.id, channel, subject, body, now, now)
                )
        if goes_at is not None:
            for node in _list_deletable(unit, budget):
                _announce_deletion(unit, budget, node, message, now)

    def _delete_due(self, budget: Budget, lease: Lease) -> None:
        """Request the deletion of the budget's nodes once the grace is over and the budget is still
        exceeded.

        A node that the budget began to pay for later, such as an adopted node, gets its own
        announcement and its own grace.
        """
        now = self._clock()
        window = budget.window_at(now)
        fired_at = None if window is None else self._due_since(budget, window, now)
        if window is None or fired_at is None:
            return
        spent = self._books.sum_spent(budget.scope, window)
        if spent <= budget.amount:
            return
        with self._units.reading() as unit:
            due = [
                node for node in _list_deletable(unit, budget) if node.spec.project == lease.project
            ]
            announced = {node.id: _find_announcement(unit, budget, node, fired_at) for node in due}
        reason = (
            f"{describe_exceeded(budget.name)}:"
            f" {format_cents(spent)} of {format_cents(budget.amount)} spent"
        )
        for node in due:
            since = announced[node.id]
            if since is None:
                with self._units(lease) as unit:
                    if _is_unchanged(unit, budget):
                        _announce_deletion(unit, budget, node, reason, self._clock())
            elif since + budget.grace_seconds <= now:
                self._request_deletion(
                    budget, node, f"{reason}, told at {to_rfc3339(since)}", lease
                )

    def _due_since(self, budget: Budget, window: Window, now: int) -> int | None:
        """Time at which the budget was exceeded, if its nodes are due for deletion now. None if
        they are not due yet, or the deletion has to wait.

        The deletion waits until every message was tried once. It also waits until the audit log has
        answered in every project of the scope: usage that ended unobserved is charged at its upper
        bound until then.
        """
        with self._units.reading() as unit:
            alert = unit.alerts.find_by_budget(budget.id).get(EXCEEDED)
            at = deletes_at(budget, alert)
            if alert is None or at is None or alert.period != window.start:
                return None
            fired_at = at - budget.grace_seconds
            if now < at or now == fired_at or unit.notifications.has_untried(budget.id, fired_at):
                return None
            waiting = unit.leases.list_waiting_for_log(budget.scope.project)
        if waiting:
            log.warning("budget.waits_for_the_log", budget=budget.name, projects=list(waiting))
            return None
        return fired_at

    def _request_deletion(self, budget: Budget, node: Node, reason: str, lease: Lease) -> None:
        """Request the deletion as any caller does: the lifecycle controller deletes the node."""
        now = self._clock()
        try:
            with self._units(lease) as unit:
                unit.nodes.lock(node.id)  # before any budget, as every writer of a node does
                if not _is_unchanged(unit, budget):
                    return
                others = describe_others(read_causes(unit, node, now), reason)
                message = f"deletion requested: {reason}{others}"
                if keep := describe_keep_end(node, now, is_deletion=True):
                    message += f"; {keep}, because a keep does not stop a budget"
                facts = {"budget_id": budget.id}
                unit.events.add(Event(node.id, now, "asked", message, NAME, facts))
                unit.nodes.save(
                    replace(
                        node,
                        asked=Asked.ABSENT,
                        delete_requested_at=now,
                        delete_reason=reason,
                        alarmed_at=None,
                        tries=0,
                        next_try_at=now,
                    )
                )
        except StaleVersion as error:
            log.info("budget.overtaken", node_id=node.id, reason=str(error))

    def _raise_holds(self, lease: Lease) -> None:
        """Raise the holds of nodes whose price has risen. A hold never falls, because part of the
        usage at the old price may not be posted yet."""
        with self._units.reading() as unit:
            count, book = unit.prices.count_rows(), self._prices.get_book(unit)
            if self._priced.get(lease.project) == count:
                return
            found = {hold.node_id: hold for hold in unit.holds.list_placed(lease.project)}
            nodes = unit.nodes.find_many(found)
        now = self._clock()
        for node_id, hold in found.items():
            rate = rate_of(nodes[node_id].spec, book, now).hourly
            if rate is not None and rate > (hold.rate or 0):
                with self._units(lease) as unit:
                    unit.holds.raise_rate(node_id, rate)
        self._priced[lease.project] = count


def _is_unchanged(unit: Unit, budget: Budget) -> bool:
    """Whether the budget still exists in this version. Its row is locked until the commit."""
    try:
        return unit.budgets.get(budget.id, locked=True).version == budget.version
    except NotFound:
        return False


def _announce_deletion(unit: Unit, budget: Budget, node: Node, reason: str, now: int) -> None:
    """Record on the node when it will be deleted. No budget deletes a node without this
    event."""
    message = f"to be deleted at {to_rfc3339(now + budget.grace_seconds)}: {reason}"
    unit.events.add(Event(node.id, now, KIND, message, NAME, {"budget_id": budget.id}))


def _find_announcement(unit: Unit, budget: Budget, node: Node, since: int) -> int | None:
    """Time of the first announcement since the budget was exceeded; None if there is none."""
    events = unit.events.list_by_kind(node.id, KIND, since)
    return next((event.at for event in events if event.facts.get("budget_id") == budget.id), None)


def _list_deletable(unit: Unit, budget: Budget) -> Sequence[Node]:
    """The budget's nodes that cost money or will. They are read after their holds: another
    transaction may have requested the deletion of one in between."""
    found = unit.nodes.find_many(unit.holds.list_deletable(budget.scope)).values()
    return [node for node in found if node.asked is not Asked.ABSENT]
