"""What was told to whom: the state of every alert, and the messages that are to be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from service.domain.alerts import Alert
from service.domain.clock import DAY
from service.domain.notification import Channel, Notification
from service.store.tables import alerts, notifications

_KEPT_SECONDS = 90 * DAY
_COLUMNS = [notifications.c[field.name] for field in fields(Notification)]


class Alerts:
    """One row for each cause of each budget."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, budget_id: str) -> Mapping[str, Alert]:
        """Those of a budget by their kind."""
        statement = (
            select(alerts.c.kind, alerts.c.period, alerts.c.fired_at)
            .where(alerts.c.budget_id == budget_id)
            .order_by(alerts.c.kind)
        )
        return {row.kind: Alert(*row) for row in self._connection.execute(statement)}

    def keep(self, budget_id: str, alert: Alert) -> None:
        """Write how one stands now."""
        values = {"period": alert.period, "fired_at": alert.fired_at}
        same = (alerts.c.budget_id == budget_id, alerts.c.kind == alert.kind)
        changed = update(alerts).where(*same).values(**values)
        if self._connection.execute(changed).rowcount == 0:
            row = {"budget_id": budget_id, "kind": alert.kind, **values}
            self._connection.execute(insert(alerts).values(**row))

    def forget(self, budget_id: str) -> None:
        """Have every cause of a budget be looked at as if for the first time."""
        self._connection.execute(delete(alerts).where(alerts.c.budget_id == budget_id))


class Notifications:
    """The outbox: written with the alert, sent afterwards, until it arrives or its day is over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, one: Notification) -> None:
        """Have it be sent."""
        old = notifications.c.created_at < one.created_at - _KEPT_SECONDS
        done = notifications.c.next_try_at.is_(None)
        of_budget = notifications.c.budget_id == one.budget_id
        self._connection.execute(delete(notifications).where(of_budget, old, done))
        self._connection.execute(insert(notifications).values(**asdict(one)))

    def due(self, now: int, limit: int) -> Sequence[Notification]:
        """What is to be sent by now, the longest waiting first."""
        statement = (
            select(*_COLUMNS)
            .where(notifications.c.next_try_at <= now)
            .order_by(notifications.c.next_try_at)
            .limit(limit)
        )
        return list(map(_read, self._connection.execute(statement).mappings()))

    def claim(self, one: Notification, until: int) -> Notification | None:
        """Take it for sending; nobody else does before `until`. None when someone else has."""
        same = (notifications.c.id == one.id, notifications.c.next_try_at == one.next_try_at)
        claimed = self._connection.execute(
            update(notifications).where(*same).values(next_try_at=until)
        )
        return replace(one, next_try_at=until) if claimed.rowcount == 1 else None

    def save(self, one: Notification) -> None:
        """Write what became of it."""
        self._connection.execute(
            update(notifications).where(notifications.c.id == one.id).values(**asdict(one))
        )

    def any_untried(self, budget_id: str, at: int) -> bool:
        """Whether a message that was written of a budget at an instant was never tried."""
        statement = select(notifications.c.id).where(
            notifications.c.budget_id == budget_id,
            notifications.c.created_at == at,
            notifications.c.tries == 0,
            notifications.c.next_try_at.is_not(None),
        )
        return self._connection.execute(statement.limit(1)).first() is not None

    def of(self, budget_id: str, limit: int) -> Sequence[Notification]:
        """What was told of a budget last, the latest first."""
        statement = (
            select(*_COLUMNS)
            .where(notifications.c.budget_id == budget_id)
            .order_by(notifications.c.created_at.desc(), notifications.c.id.desc())
            .limit(limit)
        )
        return list(map(_read, self._connection.execute(statement).mappings()))


def _read(row: RowMapping) -> Notification:
    return Notification(**{**row, "channel": Channel(row["channel"])})
