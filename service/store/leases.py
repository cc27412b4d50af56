"""Leases: who may act for a project now, by the database's own clock."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    case,
    false,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.errors import LeaseLost
from service.domain.lease import Lease
from service.store.tables import leases

_NOW: dict[str, ColumnElement[int]] = {
    "sqlite": literal_column("CAST(strftime('%s', 'now') AS INTEGER)", BigInteger),
    "postgresql": literal_column(
        "CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)", BigInteger
    ),
}


class Leases:
    """Take, renew, check and release leases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._now = _NOW[connection.dialect.name]

    def take(self, project: str, holder: str, ttl: int, looked_at: int = 0) -> Lease | None:
        """The lease, taken or renewed for `ttl` seconds; None while someone else holds it.

        `looked_at` is when the holder last saw the whole project: it outlives the holder, so that
        the next one knows since when nothing was seen.
        """
        mine = leases.c.holder == holder
        insert = sqlite_insert if self._connection.dialect.name == "sqlite" else postgresql_insert
        statement = (
            insert(leases)
            .values(
                project=project,
                holder=holder,
                epoch=1,
                expires_at=self._now + ttl,
                looked_at=looked_at,
            )
            .on_conflict_do_update(
                index_elements=["project"],
                set_={
                    "holder": holder,
                    "epoch": case((mine, leases.c.epoch), else_=leases.c.epoch + 1),
                    "expires_at": self._now + ttl,
                    "looked_at": case(
                        (leases.c.looked_at < looked_at, looked_at), else_=leases.c.looked_at
                    ),
                },
                where=or_(mine, leases.c.expires_at < self._now),
            )
            .returning(leases.c.epoch)
        )
        epoch = self._connection.execute(statement).scalar_one_or_none()
        return None if epoch is None else Lease(project, holder, epoch)

    def check(self, lease: Lease) -> None:
        """Raise LeaseLost unless the lease is still held as given; hold it until the commit."""
        held = (
            select(leases.c.epoch)
            .where(leases.c.project == lease.project, leases.c.holder == lease.holder)
            .where(leases.c.epoch == lease.epoch)
            .with_for_update(read=True)
        )
        if self._connection.execute(held).first() is None:
            raise LeaseLost(f"another daemon acts for project {lease.project} now")

    def looked_at(self, project: str) -> int:
        """When the whole of the project was last looked at; 0 when never."""
        statement = select(leases.c.looked_at).where(leases.c.project == project)
        return self._connection.execute(statement).scalar_one_or_none() or 0

    def sight(self, project: str) -> tuple[int, str]:
        """(when the whole of the project was last looked at, who holds it); (0, "") when nobody."""
        statement = select(
            leases.c.looked_at, case((leases.c.expires_at < self._now, ""), else_=leases.c.holder)
        ).where(leases.c.project == project)
        row = self._connection.execute(statement).one_or_none()
        return (0, "") if row is None else (row[0], row[1])

    def try_to_write(self) -> None:
        """Write nothing, as a write: a database that can only be read says so."""
        self._connection.execute(update(leases).where(false()).values(expires_at=0))

    def release(self, lease: Lease) -> None:
        """Let the next one take it at once."""
        self._connection.execute(
            update(leases)
            .where(leases.c.project == lease.project, leases.c.holder == lease.holder)
            .values(expires_at=0)
        )
