"""Bugs that only show where two write at once; each is found by the stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import select, update

from service.domain.metering import Usage
from service.store import leases, usage
from service.store.costs import Costs
from service.store.unit import Unit

Planting = Callable[[], Any]


def _without_locks() -> Any:
    return patch.object(usage, "_locked", lambda statement, **_: statement)


def _over_anything(self: Any, before: Usage, values: Mapping[str, object]) -> None:
    table = usage.usage
    self._connection.execute(update(table).where(table.c.id == before.id).values(**values))


def an_update_is_lost_in_posting() -> Any:
    """What was read is written back, whatever others have written since."""
    stack = ExitStack()
    stack.enter_context(_without_locks())
    stack.enter_context(patch.object(usage.Usages, "_write", _over_anything))
    return stack


def a_newer_mark_is_overwritten() -> Any:
    """To have posted takes the mark away by which it is to be posted once more."""

    def posted(self: Any, interval: Usage, until: int, unpriced_seconds: int) -> Usage:
        told = {"posted_until": until, "unpriced_seconds": unpriced_seconds, "dirty": False}
        _over_anything(self, interval, told)
        after: Any = replace(interval, posted_until=until, dirty=False)
        return after  # type: ignore[no-any-return]

    stack = ExitStack()
    stack.enter_context(_without_locks())
    stack.enter_context(patch.object(usage.Usages, "posted", posted))
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
    table = leases.leases
    held = (
        select(table.c.epoch)
        .where(table.c.project == leases.bindparam("project"))
        .where(table.c.holder == leases.bindparam("holder"))
        .where(table.c.epoch == leases.bindparam("epoch"))
        .with_for_update(read=True)
    )
    return patch.object(leases, "_HELD", held)


def a_lease_is_not_held_until_the_commit() -> Any:
    """Whoever writes under a lease has looked whether it holds it, and no more."""
    table = leases.leases
    looked_at = (
        select(table.c.epoch)
        .where(table.c.project == leases.bindparam("project"))
        .where(table.c.holder == leases.bindparam("holder"))
        .where(table.c.epoch == leases.bindparam("epoch"))
    )
    return patch.object(leases, "_HELD", looked_at)


PLANTED: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        an_update_is_lost_in_posting,
        a_newer_mark_is_overwritten,
        locks_are_taken_in_another_order,
        a_renewal_waits_for_writers,
        a_lease_is_not_held_until_the_commit,
    )
}
