"""Looks at every budget, has people told once of what it comes to, and has nodes deleted that
nobody may pay for any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from service.domain.budgets.admission import rate_of
from service.domain.budgets.alerts import EXCEEDED, PACES, Alert, changes, deletes_at
from service.domain.budgets.budget import Budget, BudgetBooks, BudgetStanding, OnExceeded
from service.domain.clock import Clock, rfc3339
from service.domain.errors import LeaseLost, NotFound, StaleVersion, StoreUnavailable
from service.domain.event import Event
from service.domain.ids import new_id
from service.domain.lease import Lease
from service.domain.lifecycle.expiry import keep_sentence, other_reasons
from service.domain.lifecycle.lifecycle import out_of_time
from service.domain.money import dollars, usd
from service.domain.nodes.keep import asked_keep
from service.domain.nodes.node import Asked, Node
from service.domain.notifications.notification import Channel, Notification, body_of
from service.domain.time_window import Window
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

PERIOD_SECONDS = 30
"""A budget is of no project: of all daemons that see it, one looks at it in so many seconds."""

NAME = "the budget controller"
KIND = "budget"
"""Of the events by which a node is told that it goes."""


class BudgetController:
    """Running twice tells nobody twice: that something was told is written with the message."""

    name = "budgets"

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock, books: BudgetBooks) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._books = books
        self._priced: dict[str, int] = {}

    def tick(self, lease: Lease) -> None:
        """Delete what is due in the project, and then look at those that nobody has looked at: so
        no node goes by what was written a moment ago."""
        self._raise_holds(lease)
        with self._units.reading() as unit:
            budgets = unit.budgets.all()
        for budget in budgets:
            if budget.on_exceeded is OnExceeded.DELETE:
                self._isolated(self._delete_due, budget, lease)
        with self._units.reading() as unit:
            due = unit.budgets.unclaimed(self._clock(), PERIOD_SECONDS)
        for budget in (one for one in budgets if one.id in due):
            with self._units(lease) as unit:
                mine = unit.budgets.claim(budget.id, self._clock(), PERIOD_SECONDS)
            if mine:
                self._isolated(self._look, budget, lease)

    def _isolated(
        self, work: Callable[[Budget, Lease], None], budget: Budget, lease: Lease
    ) -> None:
        try:
            work(budget, lease)
        except (LeaseLost, StoreUnavailable):
            raise  # nothing else would fare better
        except Exception:  # one that is poisoned must not keep the others from their turn
            log.exception("budget.failed", budget=budget.name)

    def _look(self, budget: Budget, lease: Lease) -> None:
        standing = self._books.standing(budget)
        if standing is None:
            return
        paces = (0, 0) if budget.burn_rate is None else self._paces(budget, standing.as_of)
        with self._units(lease) as unit:
            if not _is_as_it_was(unit, budget):
                return
            for alert, message in changes(budget, standing, paces, unit.alerts.of(budget.id)):
                unit.alerts.keep(budget.id, alert)
                if message:
                    log.warning("budget.alert", budget=budget.name, kind=alert.kind, told=message)
                    self._tell(unit, budget, standing, alert, message)

    def _paces(self, budget: Budget, now: int) -> tuple[int, int]:
        short, long = (
            self._books.spent(budget.scope, Window(now - seconds, now)) for seconds in PACES
        )
        return short, long

    def _tell(
        self, unit: Unit, budget: Budget, standing: BudgetStanding, alert: Alert, message: str
    ) -> None:
        """Put the messages into the outbox, and warn on every node that is to go."""
        now = standing.as_of
        goes_at = deletes_at(budget, alert) if alert.kind == EXCEEDED else None
        channels = {Channel.WEBHOOK: budget.webhook, Channel.MAIL: budget.emails}
        for channel, told in channels.items():
            if told:
                message_id = new_id()
                facts = _facts(budget, standing, alert, goes_at)
                body = body_of({"id": message_id, "message": message, **facts})
                subject = f"[TPU Steward] {budget.name}: {alert.kind.replace('_', ' ')}"
                unit.notifications.add(
                    Notification(message_id, budget.id, channel, subject, body, now, now)
                )
        if goes_at is not None:
            for node in _deletable(unit, budget):
                _warn(unit, budget, node, message, now)

    def _delete_due(self, budget: Budget, lease: Lease) -> None:
        """Ask for the end of its nodes once the grace is over and it is still so.

        One that came to cost it money later, as one that was adopted did, is told of itself, and
        has a grace of its own.
        """
        now = self._clock()
        window = budget.window(now)
        fired_at = None if window is None else self._due_since(budget, window, now)
        if window is None or fired_at is None:
            return
        spent = self._books.spent(budget.scope, window)
        if spent <= budget.amount:
            return
        with self._units.reading() as unit:
            due = [one for one in _deletable(unit, budget) if one.spec.project == lease.project]
            told = {one.id: _warned_at(unit, budget, one, fired_at) for one in due}
        reason = (
            f"the budget {budget.name!r} is exceeded:"
            f" {dollars(spent)} of {dollars(budget.amount)} spent"
        )
        for node in due:
            since = told[node.id]
            if since is None:
                self._warn_late(budget, node, reason, lease)
            elif since + budget.grace_seconds <= now:
                self._ask_for_end(budget, node, f"{reason}, told at {rfc3339(since)}", lease)

    def _due_since(self, budget: Budget, window: Window, now: int) -> int | None:
        """When more was spent than the budget allows, where its nodes are to go by now; None where
        they are not, not yet, or something has to come first.

        Every message of it was tried once: nobody is told afterwards. And the audit log was heard
        in every project that counts: what was lost while nobody looked is charged to the upper
        bound until then.
        """
        with self._units.reading() as unit:
            alert = unit.alerts.of(budget.id).get(EXCEEDED)
            at = deletes_at(budget, alert)
            if alert is None or at is None or alert.period != window.start:
                return None
            fired_at = at - budget.grace_seconds
            if now < at or now == fired_at or unit.notifications.any_untried(budget.id, fired_at):
                return None
            unheard = unit.leases.unheard(budget.scope.project)
        if unheard:
            log.warning("budget.waits_for_the_log", budget=budget.name, projects=list(unheard))
            return None
        return fired_at

    def _warn_late(self, budget: Budget, node: Node, reason: str, lease: Lease) -> None:
        with self._units(lease) as unit:
            if _is_as_it_was(unit, budget):
                _warn(unit, budget, node, reason, self._clock())

    def _ask_for_end(self, budget: Budget, node: Node, reason: str, lease: Lease) -> None:
        """The same wish as anybody's: the lifecycle does the deleting."""
        now = self._clock()
        try:
            with self._units(lease) as unit:
                unit.nodes.lock(node.id)  # before any budget, as all do who change a node
                if not _is_as_it_was(unit, budget):
                    return
                message = f"deletion requested: {reason}"
                message += other_reasons(node, out_of_time(node, now))
                if asked_keep(node, now) is not None:
                    message += f"; {keep_sentence(node)}, and that does not stop the budget"
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
        """A price that has risen since makes what is set aside more; never less, as part of what
        was used at the old one may not be posted yet."""
        with self._units.reading() as unit:
            count, book = unit.prices.count(), self._prices.book(unit)
            if self._priced.get(lease.project) == count:
                return
            found = {hold.node_id: hold for hold in unit.holds.placed(lease.project)}
            nodes = unit.nodes.many(found)
        now = self._clock()
        for node_id, hold in found.items():
            rate = rate_of(nodes[node_id].spec, book, now).hourly
            if rate is not None and rate > (hold.rate or 0):
                with self._units(lease) as unit:
                    unit.holds.raise_rate(node_id, rate)
        self._priced[lease.project] = count


def _is_as_it_was(unit: Unit, budget: Budget) -> bool:
    """Whether nobody has changed it or taken it away; it is held until the commit."""
    try:
        return unit.budgets.get(budget.id, locked=True).version == budget.version
    except NotFound:
        return False


def _warn(unit: Unit, budget: Budget, node: Node, reason: str, now: int) -> None:
    """Say in a node's story when it goes; without that it never does."""
    told_of = f"to be deleted at {rfc3339(now + budget.grace_seconds)}: {reason}"
    unit.events.add(Event(node.id, now, KIND, told_of, NAME, {"budget_id": budget.id}))


def _warned_at(unit: Unit, budget: Budget, node: Node, since: int) -> int | None:
    """When it was first said, since the budget was exceeded; None where it was not."""
    said = unit.events.of_kind(node.id, KIND, since)
    return next((one.at for one in said if one.facts.get("budget_id") == budget.id), None)


def _deletable(unit: Unit, budget: Budget) -> Sequence[Node]:
    """Its nodes that cost money or will; what is stopped costs nothing and keeps its disk."""
    costly = [hold.node_id for hold, _, _ in unit.holds.open([budget.scope]) if not hold.stopped]
    return [one for one in unit.nodes.many(costly).values() if one.asked is not Asked.ABSENT]


def _facts(
    budget: Budget, standing: BudgetStanding, alert: Alert, goes_at: int | None
) -> dict[str, object]:
    return {
        "kind": f"budget.{alert.kind.partition(':')[0]}",
        "alert": alert.kind,
        "at": rfc3339(standing.as_of),
        "budget": {
            "id": budget.id,
            "name": budget.name,
            "scope": budget.scope.words,
            "amount": usd(budget.amount),
            "currency": "USD",
            "period": budget.period,
            "starts_at": rfc3339(standing.window.start),
            "ends_at": rfc3339(standing.window.end),
            "on_exceeded": budget.on_exceeded,
        },
        "spent": usd(standing.spent),
        "held": None if standing.held.total is None else usd(standing.held.total),
        "held_known": usd(standing.held.known),
        "forecast": None if standing.forecast is None else usd(standing.forecast),
        "deletes_at": None if goes_at is None else rfc3339(goes_at),
    }
