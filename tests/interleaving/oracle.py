"""What must hold of each commit, whoever makes it, and of what is left in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

from service.controllers.budgets.budgets import KIND
from service.domain.event import Event
from service.domain.jobs.job import Attempt
from service.domain.lease import Lease
from service.domain.money import format_dollars
from service.domain.nodes.node import Node
from service.domain.notifications.notification import About, Notification
from service.store.unit import Unit
from tests.simulation.invariants import Violation

if TYPE_CHECKING:
    from tests.interleaving.run import Run

_TWICE = """select node_id, at, message from events where kind in ('state', 'ended', 'denied')
    group by node_id, at, kind, message having count(*) > 1"""
_ENDED_TWICE = """select node_id, incarnation from cleanup_history where action = 'delete'
    group by node_id, incarnation having count(*) > 1"""


class Oracle:
    """Watches units of work; what it finds is told to the stage, as the service may catch what is
    raised within."""

    def __init__(self, life: Run) -> None:
        self._life = life
        self._ends: dict[str, Attempt] = {}
        """By id of an attempt: as it was when its end was committed."""
        self._alerts: set[tuple[object, ...]] = set()

    def watch(self, unit: Unit, lease: Lease | None) -> Callable[[], None]:
        """Watch a unit of work; the answer is to be called after its commit."""
        seen: list[Any] = []
        for repository, name in (
            (unit.nodes, "save"),
            (unit.jobs, "save"),
            (unit.jobs, "save_attempt"),
            (unit.jobs, "add_attempt"),
            (unit.usage, "save"),
            (unit.events, "add"),
            (unit.notifications, "add"),
            (unit.cleanups, "save"),
            (unit.cleanups, "add_end"),
        ):
            _spy_on(repository, name, seen)
        alerts: list[tuple[object, ...]] = []
        _spy_on_messages(unit, alerts)
        return lambda: self._committed(seen, alerts, lease)

    def wrong(self, what: str) -> None:
        """Note a violation."""
        self._life.stage.violations.append(what)

    def _committed(
        self, seen: list[Any], alerts: Iterable[tuple[object, ...]], lease: Lease | None
    ) -> None:
        for line in seen:
            if lease is not None:
                self._check_project(line, lease)
            match line:
                case Attempt():
                    self._check_attempt(line)
                case Event():
                    self._check_budget(line)
                case _:
                    pass
        for alert in alerts:
            if alert in self._alerts:
                self.wrong(f"the same was told twice of a budget: {alert}")
            self._alerts.add(alert)

    def _check_project(self, one: Any, lease: Lease) -> None:
        project = one.spec.project if isinstance(one, Node) else getattr(one, "project", None)
        if isinstance(one, Event) and one.kind != KIND:  # a budget is of no project
            project = self._project_of(one.node_id)
        if project is not None and project != lease.project:
            self.wrong(f"{one} was written under the lease of {lease.project}")

    def _project_of(self, node_id: str) -> str | None:
        found = self._life.ground.ask("select project from nodes where id = %s", node_id)
        return None if not found else str(found[0][0])

    def _check_attempt(self, attempt: Attempt) -> None:
        before = self._ends.get(attempt.id)
        if before is not None and (before.reason, before.ended_at) != (
            attempt.reason,
            attempt.ended_at,
        ):
            self.wrong(f"{attempt.id} had ended as {before.reason}, and is {attempt.reason} now")
        if attempt.ended:
            self._ends.setdefault(attempt.id, attempt)

    def _check_budget(self, event: Event) -> None:
        """A budget that has a node deleted is there, and allows so much as it is said to."""
        budget_id = event.facts.get("budget_id")
        if event.kind != "asked" or budget_id is None:
            return
        asked = "select amount, on_exceeded from budgets where id = %s"
        found = self._life.ground.ask(asked, budget_id)
        if not found or found[0][1] != "delete" or format_dollars(found[0][0]) not in event.message:
            self.wrong(f"{event.message}, when the budget was {found or 'taken away'}")

    def at_rest(self) -> None:
        """What the rows say in the end."""
        for told in self._life.ground.ask(_TWICE):
            raise Violation(f"told twice of a node: {told}")
        for ended in self._life.ground.ask(_ENDED_TWICE):
            raise Violation(f"ended twice for its idleness: {ended}")


def _spy_on(repository: Any, name: str, seen: list[Any]) -> None:
    method = getattr(repository, name)

    @wraps(method)
    def noting(*written: Any) -> Any:
        answer = method(*written)
        seen.extend(written if answer is None else [answer])
        return answer

    setattr(repository, name, noting)


def _spy_on_messages(unit: Unit, alerts: list[tuple[object, ...]]) -> None:
    """Note each alert of a budget, with how often the budget was set anew before it."""
    add = unit.notifications.add

    def adding(notification: Notification) -> None:
        add(notification)
        if notification.about_kind is About.BUDGET:
            said = json.loads(notification.body)
            budget = unit.budgets.get(notification.about_id)
            start = said["budget"]["starts_at"]
            alerts.append((budget.id, said["alert"], start, budget.version, notification.channel))

    unit.notifications.add = adding  # type: ignore[method-assign]
