"""Bugs that only show where two write at once, and gross ones by which the oracles are tried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import bindparam, select, update

from service.application.cleanup import cleanup
from service.application.cleanup.cleanup import CleanupService
from service.controllers.budgets import budgets as budget_controller
from service.controllers.budgets.budgets import BudgetController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.jobs import jobs as job_controller
from service.controllers.notifications import NotificationController
from service.domain.budgets.budget import Budget
from service.domain.errors import Conflict
from service.domain.idle.links import Link
from service.domain.jobs import step as job_step
from service.domain.jobs.step import AttemptDecision, AttemptStep
from service.domain.metering.meter import Usage
from service.domain.notifications.notification import Notification
from service.store import jobs, leases, tables, usage
from service.store.costs import Costs
from service.store.links import Links
from service.store.nodes import Nodes
from service.store.notifications import Notifications
from service.store.tables import cleanup_links, notifications
from service.store.unit import Unit
from tests.planting import replace_function

Planting = Callable[[], Any]


def _without_locks() -> Any:
    return replace_function(usage, usage._with_lock, lambda statement, **_: statement)


def _over_anything(self: Any, before: Usage, values: Mapping[str, object]) -> None:
    table = tables.usage
    self._connection.execute(update(table).where(table.c.id == before.id).values(**values))


def an_update_is_lost_in_posting() -> Any:
    """What was read is written back, whatever others have written since."""
    stack = ExitStack()
    stack.enter_context(_without_locks())
    stack.enter_context(replace_function(usage.Usages, usage.Usages._write_row, _over_anything))
    return stack


def a_newer_mark_is_overwritten() -> Any:
    """To have posted takes the mark away by which it is to be posted once more."""

    def posted(self: Any, interval: Usage, until: int, unpriced_seconds: int) -> Usage:
        told = {"posted_until": until, "unpriced_seconds": unpriced_seconds, "dirty": False}
        _over_anything(self, interval, told)
        after: Any = replace(interval, posted_until=until, dirty=False)
        return after

    stack = ExitStack()
    stack.enter_context(_without_locks())
    stack.enter_context(patch.object(usage.Usages, "save_posted", posted))
    return stack


def locks_are_taken_in_another_order() -> Any:
    """Sums that many transactions write are written before the usage that they are of."""
    add = Costs.add

    def adding(self: Any, *more: Any) -> None:
        add(self, *more)
        self.flush()

    stack = ExitStack()
    stack.enter_context(_without_locks())
    stack.enter_context(patch.object(Unit, "at_the_end", lambda _, _rank, _of, work: work()))
    stack.enter_context(patch.object(Costs, "add", adding))
    return stack


def a_renewal_waits_for_writers() -> Any:
    """Whoever writes under a lease locks its row against the renewal."""
    table = tables.leases
    held = (
        select(table.c.epoch)
        .where(table.c.project == bindparam("project"))
        .where(table.c.holder == bindparam("holder"))
        .where(table.c.epoch == bindparam("epoch"))
        .with_for_update(read=True)
    )
    return patch.dict(leases._HELD_ON, {"postgresql": held})


def a_lease_is_not_held_until_the_commit() -> Any:
    """Whoever writes under a lease has looked whether it holds it, and no more."""
    table = tables.leases
    looked_at = (
        select(table.c.epoch)
        .where(table.c.project == bindparam("project"))
        .where(table.c.holder == bindparam("holder"))
        .where(table.c.epoch == bindparam("epoch"))
    )
    return patch.dict(leases._HELD_ON, {"postgresql": looked_at})


def a_job_is_saved_over_anything() -> Any:
    """A job and its attempts are written back as they were read, whoever has written since."""

    def unguarded(table: Any) -> Any:
        columns: dict[str, Any] = {column.name: bindparam(column.name) for column in table.columns}
        columns.pop("node_request", None)
        return update(table).where(table.c.id == bindparam("row_id")).values(columns)

    stack = ExitStack()
    stack.enter_context(patch.object(jobs, "_SAVE", unguarded(tables.jobs)))
    stack.enter_context(patch.object(jobs, "_SAVE_ATTEMPT", unguarded(tables.job_attempts)))
    return stack


def a_link_is_used_without_a_guard() -> Any:
    """Whether a link was used is looked at first, and then it is used."""

    def use(self: Links, link: Link, now: int) -> Link:
        table = cleanup_links
        found = update(table).where(table.c.token_hash == link.token_hash)
        self._connection.execute(found.values(used_at=now))
        return replace(link, used_at=now)

    return patch.object(Links, "mark_used", use)


def a_plan_is_not_checked_again() -> Any:
    """A plan that was shown is applied, whatever it would be by now."""
    return patch.object(cleanup, "check_fresh", lambda *_: None)


def a_message_is_claimed_without_a_guard() -> Any:
    """Whoever has read that a message is due sends it."""

    def claim(self: Notifications, one: Notification, until: int) -> Notification:
        found = update(notifications).where(notifications.c.id == one.id)
        self._connection.execute(found.values(next_try_at=until))
        return replace(one, next_try_at=until)

    return patch.object(Notifications, "claim", claim)


def a_budget_deletes_by_what_it_was() -> Any:
    """A budget that somebody has changed or taken away since it was read has nodes deleted."""
    here, asks = threading.local(), BudgetController._request_deletion
    is_as_it_was = budget_controller._is_unchanged

    def ask(self: BudgetController, *of: Any) -> None:
        here.asks = True
        try:
            asks(self, *of)
        finally:
            here.asks = False

    def always(unit: Unit, budget: Budget) -> bool:
        return getattr(here, "asks", False) or is_as_it_was(unit, budget)

    stack = ExitStack()
    stack.enter_context(replace_function(BudgetController, BudgetController._request_deletion, ask))
    stack.enter_context(
        replace_function(budget_controller, budget_controller._is_unchanged, always)
    )
    return stack


def projects_are_mixed_up() -> Any:
    """What is due in one project is worked on under the lease of another."""
    due = Nodes.list_due

    def due_anywhere(self: Nodes, project: str, now: int, limit: int) -> Any:
        other = {"lab": "other", "other": "lab"}[project]
        return [*due(self, project, now, limit), *due(self, other, now, limit)]

    return patch.object(Nodes, "list_due", due_anywhere)


def jobs_are_never_started() -> Any:
    """No attempt goes beyond the wait for its node."""
    decide = job_step.decide_step

    def waits(*of: Any) -> AttemptDecision:
        found = decide(*of)
        return AttemptDecision(AttemptStep.WAIT) if found.step is AttemptStep.BEGIN else found

    return patch.object(job_controller, "decide_step", waits)


def no_plan_is_ever_applied() -> Any:
    """Every plan is stale."""

    def refuse(*_: object) -> None:
        raise Conflict("the plan is stale")

    return patch.object(CleanupService, "apply_plan", refuse)


def nobody_is_told_of_a_budget() -> Any:
    """No budget is ever looked at."""
    return replace_function(BudgetController, BudgetController._check_budget, lambda *_: None)


def nothing_is_ever_sent() -> Any:
    """The outbox stays full."""
    return patch.object(NotificationController, "tick", lambda *_: None)


def a_controller_writes_without_a_lease() -> Any:
    """The units of the inventory are opened as callers open theirs."""
    tick = InventoryController.tick

    def unfenced(self: InventoryController, lease: Any) -> None:
        with self._units():
            tick(self, lease)

    return patch.object(InventoryController, "tick", unfenced)


def one_changed_node_ends_a_whole_look() -> Any:
    """What was seen of all nodes is dropped if somebody else changed one of them."""
    return replace_function(
        InventoryController, InventoryController._write_batch, InventoryController._write_together
    )


GROSS: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        jobs_are_never_started,
        no_plan_is_ever_applied,
        nobody_is_told_of_a_budget,
        nothing_is_ever_sent,
        a_controller_writes_without_a_lease,
    )
}
SUBTLE: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        an_update_is_lost_in_posting,
        a_newer_mark_is_overwritten,
        locks_are_taken_in_another_order,
        a_renewal_waits_for_writers,
        a_lease_is_not_held_until_the_commit,
        a_job_is_saved_over_anything,
        a_link_is_used_without_a_guard,
        a_plan_is_not_checked_again,
        a_message_is_claimed_without_a_guard,
        a_budget_deletes_by_what_it_was,
        one_changed_node_ends_a_whole_look,
        projects_are_mixed_up,
    )
}
PLANTED: Mapping[str, Planting] = {**GROSS, **SUBTLE}
