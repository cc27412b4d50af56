"""Budgets: one row each, guarded by its version, and their refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, or_, select, update

from service.domain.budgets.budget import Budget, OnExceeded, Period, Scope, Threshold
from service.domain.clock import DAY
from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.notifications.notification import About
from service.store.json_columns import dumps, loads
from service.store.tables import alerts, budgets, notifications, refusals

_KEPT_SECONDS = 30 * DAY
"""How long a refusal is kept."""

_KEPT_REFUSALS = 1_000
"""Refusals that are kept of one budget: repeated requests must not fill the disk."""

_OURS = ("checked_at",)
_COLUMNS = [column for column in budgets.c if column.name not in _OURS]
_CAPPING = select(*_COLUMNS).where(budgets.c.on_exceeded != OnExceeded.NOTIFY)


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """A request that a budget had no room for."""

    at: int
    message: str


class Budgets:
    """Every budget, by id, and those that can refuse."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, budget: Budget) -> None:
        """Write a new budget. Raises Conflict if the name is taken."""
        self._check_name(budget)
        self._connection.execute(insert(budgets).values(**_to_row(budget), checked_at=0))

    def save(self, budget: Budget) -> Budget:
        """Write a changed budget; returns it with its new version. Raises StaleVersion if another
        transaction wrote it since it was read, Conflict if the name is taken."""
        self._check_name(budget)
        after = replace(budget, version=budget.version + 1)
        changed = self._connection.execute(
            update(budgets)
            .where(budgets.c.id == budget.id, budgets.c.version == budget.version)
            .values(**_to_row(after), checked_at=0)
        )
        if changed.rowcount != 1:
            raise StaleVersion(f"budget {budget.name!r} was changed by someone else just now")
        return after

    def delete(self, budget: Budget) -> None:
        """Delete a budget with its alerts, refusals and messages; unsent messages are not sent."""
        of_budget = (
            notifications.c.about_kind == About.BUDGET,
            notifications.c.about_id == budget.id,
        )
        self._connection.execute(delete(notifications).where(*of_budget))
        for table in (alerts, refusals):
            self._connection.execute(delete(table).where(table.c.budget_id == budget.id))
        self._connection.execute(delete(budgets).where(budgets.c.id == budget.id))

    def get(self, budget_id: str, *, locked: bool = False) -> Budget:
        """The budget, locked until the commit if `locked`; raises NotFound."""
        statement = select(*_COLUMNS).where(budgets.c.id == budget_id)
        if locked:
            statement = statement.with_for_update()
        row = self._connection.execute(statement).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no budget {budget_id[:80]!r}; GET /v1/budgets lists them")
        return _from_row(row)

    def list_all(self) -> Sequence[Budget]:
        """All budgets, by name."""
        rows = self._connection.execute(select(*_COLUMNS).order_by(budgets.c.name))
        return list(map(_from_row, rows.mappings()))

    def list_capping(self) -> Sequence[Budget]:
        """The budgets that can refuse."""
        return list(map(_from_row, self._connection.execute(_CAPPING).mappings()))

    def list_locked(self, ids: Sequence[str]) -> Sequence[Budget]:
        """Budgets by id, locked until the commit, so that only one transaction at a time checks
        their room. They are always locked in the same order, so that no two transactions
        deadlock."""
        statement = select(*_COLUMNS).where(budgets.c.id.in_(ids)).order_by(budgets.c.id)
        rows = self._connection.execute(statement.with_for_update())
        return list(map(_from_row, rows.mappings()))

    def list_unclaimed(self, now: int, period: int) -> set[str]:
        """The ids of budgets that no daemon has checked within the period."""
        due = select(budgets.c.id).where(budgets.c.checked_at <= now - period)
        return set(self._connection.execute(due).scalars())

    def claim(self, budget_id: str, now: int, period: int) -> bool:
        """Whether the caller is to check the budget now: no other daemon did within the period."""
        claimed = self._connection.execute(
            update(budgets)
            .where(budgets.c.id == budget_id, budgets.c.checked_at <= now - period)
            .values(checked_at=now)
        )
        return claimed.rowcount == 1

    def add_refusal(self, budget_id: str, refusal: BudgetRefusal) -> None:
        """Write a refusal."""
        mine = refusals.c.budget_id == budget_id
        newest = select(refusals.c.id).where(mine).order_by(refusals.c.id.desc())
        spare = newest.offset(_KEPT_REFUSALS - 1).limit(1).scalar_subquery()
        old = or_(refusals.c.at < refusal.at - _KEPT_SECONDS, refusals.c.id <= spare)
        self._connection.execute(delete(refusals).where(mine, old))
        self._connection.execute(
            insert(refusals).values(budget_id=budget_id, at=refusal.at, message=refusal.message)
        )

    def list_refusals(self, budget_id: str, limit: int) -> Sequence[BudgetRefusal]:
        """The last refusals, the latest first."""
        statement = (
            select(refusals.c.at, refusals.c.message)
            .where(refusals.c.budget_id == budget_id)
            .order_by(refusals.c.id.desc())
            .limit(limit)
        )
        return [BudgetRefusal(*row) for row in self._connection.execute(statement)]

    def _check_name(self, budget: Budget) -> None:
        statement = select(budgets.c.id).where(
            budgets.c.name == budget.name, budgets.c.id != budget.id
        )
        other = self._connection.execute(statement).scalar_one_or_none()
        if other is not None:
            raise Conflict(
                f"a budget named {budget.name!r} already exists; use another name, or"
                " change that budget",
                field="name",
                budget_id=other,
            )


def _to_row(budget: Budget) -> dict[str, Any]:
    scope = budget.scope
    key, value = scope.label or (None, None)
    return {
        "id": budget.id,
        "name": budget.name,
        "project": scope.project,
        "team": scope.team,
        "owner": scope.owner,
        "job": scope.job,
        "label_key": key,
        "label_value": value,
        "amount": budget.amount,
        "period": budget.period,
        "tz": budget.tz,
        "created_at": budget.created_at,
        "thresholds": dumps(budget.thresholds),
        "on_exceeded": budget.on_exceeded,
        "start": budget.start,
        "end": budget.end,
        "burn_rate": budget.burn_rate,
        "grace_seconds": budget.grace_seconds,
        "webhook": budget.webhook,
        "secret": budget.secret,
        "emails": dumps(budget.emails),
        "version": budget.version,
    }


def _from_row(row: RowMapping) -> Budget:
    label = None if row["label_key"] is None else (row["label_key"], row["label_value"])
    return Budget(
        id=row["id"],
        name=row["name"],
        scope=Scope(row["project"], row["team"], row["owner"], row["job"], label),
        amount=row["amount"],
        period=Period(row["period"]),
        tz=row["tz"],
        created_at=row["created_at"],
        thresholds=loads(row["thresholds"], tuple[Threshold, ...]),
        on_exceeded=OnExceeded(row["on_exceeded"]),
        start=row["start"],
        end=row["end"],
        burn_rate=row["burn_rate"],
        grace_seconds=row["grace_seconds"],
        webhook=row["webhook"],
        secret=row["secret"],
        emails=loads(row["emails"], tuple[str, ...]),
        version=row["version"],
    )
