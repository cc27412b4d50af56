"""Alerts of budgets, and the outbox of messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update

from service.domain.budgets.alerts import Alert
from service.domain.clock import DAY
from service.domain.idle.policy import Recipient
from service.domain.notifications.notification import About, Channel, Notification
from service.store.json_columns import dumps, loads
from service.store.tables import alerts, notifications

_KEPT_SECONDS = 90 * DAY
_COLUMNS = [notifications.c[field.name] for field in fields(Notification)]


class Alerts:
    """One row for each kind of alert of each budget."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_by_budget(self, budget_id: str) -> Mapping[str, Alert]:
        """The alerts of a budget by kind."""
        statement = (
            select(alerts.c.kind, alerts.c.period, alerts.c.fired_at)
            .where(alerts.c.budget_id == budget_id)
            .order_by(alerts.c.kind)
        )
        return {row.kind: Alert(*row) for row in self._connection.execute(statement)}

    def find_by_budgets(self, budget_ids: Collection[str]) -> Mapping[str, Mapping[str, Alert]]:
        """The alerts of several budgets by kind, by budget. Budgets without an alert are left
        out."""
        statement = (
            select(alerts.c.budget_id, alerts.c.kind, alerts.c.period, alerts.c.fired_at)
            .where(alerts.c.budget_id.in_(budget_ids))
            .order_by(alerts.c.kind)
        )
        found: dict[str, dict[str, Alert]] = {}
        for budget_id, *alert in self._connection.execute(statement):
            found.setdefault(budget_id, {})[alert[0]] = Alert(*alert)
        return found

    def find_by_kind(self, kind: str) -> Mapping[str, Alert]:
        """The alerts of one kind, by budget."""
        statement = select(alerts.c.budget_id, alerts.c.period, alerts.c.fired_at).where(
            alerts.c.kind == kind
        )
        return {
            row.budget_id: Alert(kind, row.period, row.fired_at)
            for row in self._connection.execute(statement)
        }

    def save(self, budget_id: str, alert: Alert) -> None:
        """Write the state of an alert."""
        values = {"period": alert.period, "fired_at": alert.fired_at}
        same = (alerts.c.budget_id == budget_id, alerts.c.kind == alert.kind)
        changed = update(alerts).where(*same).values(**values)
        if self._connection.execute(changed).rowcount == 0:
            row = {"budget_id": budget_id, "kind": alert.kind, **values}
            self._connection.execute(insert(alerts).values(**row))

    def delete_all(self, budget_id: str) -> None:
        """Delete all alerts of a budget, so that each may fire again."""
        self._connection.execute(delete(alerts).where(alerts.c.budget_id == budget_id))


class Notifications:
    """The outbox: written with the alert, then sent until delivery succeeds or its time is over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, notification: Notification) -> None:
        """Write a message to be sent."""
        old = notifications.c.created_at < notification.created_at - _KEPT_SECONDS
        done = notifications.c.next_try_at.is_(None)
        about = _is_about(notification.about_kind, notification.about_id)
        self._connection.execute(delete(notifications).where(*about, old, done))
        self._connection.execute(insert(notifications).values(**_to_row(notification)))

    def list_due(self, now: int, limit: int) -> Sequence[Notification]:
        """The messages to be sent by now, the longest waiting first."""
        statement = (
            select(*_COLUMNS)
            .where(notifications.c.next_try_at <= now)
            .order_by(notifications.c.next_try_at, notifications.c.id)
            .limit(limit)
        )
        return list(map(_from_row, self._connection.execute(statement).mappings()))

    def claim(self, notification: Notification, until: int) -> Notification | None:
        """Claim a message for sending until `until`. None if another sender has claimed it."""
        same = (
            notifications.c.id == notification.id,
            notifications.c.next_try_at == notification.next_try_at,
        )
        claimed = self._connection.execute(
            update(notifications).where(*same).values(next_try_at=until)
        )
        return replace(notification, next_try_at=until) if claimed.rowcount == 1 else None

    def save(self, notification: Notification) -> None:
        """Write the outcome of a try."""
        self._connection.execute(
            update(notifications)
            .where(notifications.c.id == notification.id)
            .values(**_to_row(notification))
        )

    def has_untried(self, about_id: str, at: int, kind: About = About.BUDGET) -> bool:
        """Whether a message about a budget, node or project that was written at an instant was
        never tried."""
        statement = select(notifications.c.id).where(
            *_is_about(kind, about_id),
            notifications.c.created_at == at,
            notifications.c.tries == 0,
            notifications.c.next_try_at.is_not(None),
        )
        return self._connection.execute(statement.limit(1)).first() is not None

    def list_untried(self, kind: About) -> Collection[tuple[str, int]]:
        """The subjects of messages that were never tried, each with the instant of writing."""
        statement = select(notifications.c.about_id, notifications.c.created_at).where(
            notifications.c.about_kind == kind,
            notifications.c.tries == 0,
            notifications.c.next_try_at.is_not(None),
        )
        return {(row.about_id, row.created_at) for row in self._connection.execute(statement)}

    def list_newest(
        self, about_id: str, limit: int, kind: About = About.BUDGET
    ) -> Sequence[Notification]:
        """The newest messages about a budget, node or project, the latest first."""
        statement = (
            select(*_COLUMNS)
            .where(*_is_about(kind, about_id))
            .order_by(notifications.c.created_at.desc(), notifications.c.id.desc())
            .limit(limit)
        )
        return list(map(_from_row, self._connection.execute(statement).mappings()))


def _is_about(kind: About, about_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return notifications.c.about_kind == kind, notifications.c.about_id == about_id


def _to_row(notification: Notification) -> dict[str, Any]:
    row = {field.name: getattr(notification, field.name) for field in fields(notification)}
    return row | {
        "recipient": "" if notification.recipient is None else dumps(notification.recipient)
    }


def _from_row(row: RowMapping) -> Notification:
    told = row["recipient"]
    typed = {
        "channel": Channel(row["channel"]),
        "about_kind": About(row["about_kind"]),
        "recipient": loads(told, Recipient) if told else None,
    }
    return Notification(**{**row, **typed})
