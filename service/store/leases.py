"""Leases: which daemon may act for a project now, by the database's own clock."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    Float,
    bindparam,
    case,
    false,
    func,
    literal,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.errors import LeaseLost
from service.domain.lease import Lease
from service.store.tables import leases, log_releases

_PRECISELY: dict[str, ColumnElement[float]] = {
    "sqlite": literal_column("(julianday('now') - 2440587.5) * 86400.0", Float),
    "postgresql": literal_column(
        "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)", Float
    ),
}
_NOW: dict[str, ColumnElement[int]] = {
    "sqlite": literal_column("CAST(strftime('%s', 'now') AS INTEGER)", BigInteger),
    "postgresql": literal_column(
        "CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)", BigInteger
    ),
}


_HELD = (
    select(leases.c.epoch)
    .where(leases.c.project == bindparam("project"), leases.c.holder == bindparam("holder"))
    .where(leases.c.epoch == bindparam("epoch"))
    .with_for_update(read=True, key_share=True)
)
"""The weakest row lock of PostgreSQL. Only a change of a key waits for it. The epoch is part of a
key, so another daemon takes over only after everything begun under the lease is committed. A
renewal changes no key, and waits for no writer."""

LONGEST_PAUSE = "10s"
"""PostgreSQL ends a transaction that locks a lease and in which no statement comes for this long. A
daemon that hangs within one would keep the lease for as long as it hangs. SQLite cannot do that:
there, a hanging writer keeps all others from writing."""

_LIMIT: dict[str, tuple[ColumnElement[str], ...]] = {
    "sqlite": (),
    "postgresql": (
        func.set_config("idle_in_transaction_session_timeout", bindparam("pause"), true()),
    ),
}
"""A further column of each statement that locks a lease. It sets the limit for this transaction, so
that it costs no round trip."""

_HELD_ON = {dialect: _HELD.add_columns(*limit) for dialect, limit in _LIMIT.items()}


_SHORT_WAIT = select(func.set_config("lock_timeout", "1s", true()), *_LIMIT["postgresql"])
"""A daemon that takes over a lease waits only briefly for the writers of the previous daemon, and
tries again: it has other leases to renew meanwhile."""

GAP_SECONDS = 60
"""A project whose lease nobody held for longer than this counts as held from now on only."""


def _renewed_values(dialect: str) -> dict[str, ColumnElement[int]]:
    """The changes in the row of a renewed lease."""
    looked_at = bindparam("looked", type_=BigInteger)
    return {
        "expires_at": _NOW[dialect] + bindparam("ttl", type_=BigInteger),
        "held_since": case(
            (leases.c.expires_at < _NOW[dialect] - GAP_SECONDS, _NOW[dialect]),
            else_=leases.c.held_since,
        ),
        "looked_at": case((leases.c.looked_at < looked_at, looked_at), else_=leases.c.looked_at),
    }


def _build_take(dialect: str) -> Executable:
    """Takes a lease that nobody holds; returns its epoch, and no row while another daemon holds
    it."""
    insert = sqlite_insert if dialect == "sqlite" else postgresql_insert
    return (
        insert(leases)
        .values(
            project=bindparam("of"),
            holder=bindparam("taker"),
            epoch=literal_column("1"),
            expires_at=_NOW[dialect] + bindparam("ttl", type_=BigInteger),
            looked_at=bindparam("looked", type_=BigInteger),
            held_since=_NOW[dialect],
        )
        .on_conflict_do_update(
            index_elements=["project"],
            set_={
                "holder": bindparam("taker"),
                "epoch": leases.c.epoch + 1,
                **_renewed_values(dialect),
            },
            where=leases.c.expires_at < _NOW[dialect],
        )
        .returning(leases.c.epoch)
    )


_RENEW: dict[str, Executable] = {
    dialect: update(leases)
    .where((leases.c.project == bindparam("of")) & (leases.c.holder == bindparam("taker")))
    .values(_renewed_values(dialect))
    .returning(leases.c.epoch, *_LIMIT[dialect])
    for dialect in _NOW
}
"""Renews a lease; returns its epoch, and no row if another daemon holds it."""
_TAKE = {dialect: _build_take(dialect) for dialect in _NOW}
_CLOCK = {dialect: select(precisely) for dialect, precisely in _PRECISELY.items()}
_TAKEN = {
    dialect: select(leases.c.project).where(
        leases.c.project.in_(bindparam("projects", expanding=True)), leases.c.expires_at >= now
    )
    for dialect, now in _NOW.items()
}
_LOOKED_AT = select(leases.c.looked_at).where(leases.c.project == bindparam("project"))


class Leases:
    """Take, renew, check and release leases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._now = _NOW[connection.dialect.name]
        self._limit = {"pause": LONGEST_PAUSE} if _LIMIT[connection.dialect.name] else {}

    def take(self, project: str, holder: str, ttl: int, looked_at: int = 0) -> Lease | None:
        """The lease, taken or renewed for `ttl` seconds; None while another daemon holds it.

        `looked_at` is when the holder last saw the whole project. It outlives the holder, so that
        the next holder knows since when nothing was seen.
        """
        renewed = self.renew(project, holder, ttl, looked_at)
        if renewed is not None:
            return renewed
        if (
            self._connection.dialect.name == "postgresql"
        ):  # transactions under the old lease may be slow
            self._connection.execute(_SHORT_WAIT, self._limit)
        wanted = {"of": project, "taker": holder, "ttl": ttl, "looked": looked_at}
        statement = _TAKE[self._connection.dialect.name]
        epoch = self._connection.execute(statement, wanted).scalar_one_or_none()
        return None if epoch is None else Lease(project, holder, epoch)

    def renew(self, project: str, holder: str, ttl: int, looked_at: int = 0) -> Lease | None:
        """The lease for `ttl` more seconds; None if another daemon holds it."""
        wanted = {"of": project, "taker": holder, "ttl": ttl, "looked": looked_at}
        statement = _RENEW[self._connection.dialect.name]
        epoch = self._connection.execute(statement, wanted | self._limit).scalar_one_or_none()
        return None if epoch is None else Lease(project, holder, epoch)

    def list_free(self, projects: Sequence[str]) -> Sequence[str]:
        """The projects whose lease nobody holds now."""
        if not projects:
            return []
        statement = _TAKEN[self._connection.dialect.name]
        taken = set(self._connection.execute(statement, {"projects": projects}).scalars())
        return [project for project in projects if project not in taken]

    def check_held(self, lease: Lease) -> None:
        """Raise LeaseLost unless the lease is still held as given; locks the lease until the
        commit."""
        wanted: dict[str, object] = {
            "project": lease.project,
            "holder": lease.holder,
            "epoch": lease.epoch,
            **self._limit,
        }
        statement = _HELD_ON[self._connection.dialect.name]
        if self._connection.execute(statement, wanted).first() is None:
            raise LeaseLost(f"another daemon acts for project {lease.project} now")

    def is_held(self, lease: Lease) -> bool:
        """Whether the lease is held as given, now. Nothing is locked."""
        found = select(leases.c.epoch).where(
            leases.c.project == lease.project, leases.c.holder == lease.holder
        )
        return self._connection.execute(found).scalar_one_or_none() == lease.epoch

    def read_clock(self) -> float:
        """The time of the database's clock, in UTC seconds with fractions."""
        return self._connection.execute(_CLOCK[self._connection.dialect.name]).scalar_one()

    def looked_at(self, project: str) -> int:
        """When the whole of the project was last looked at; 0 if never."""
        found = self._connection.execute(_LOOKED_AT, {"project": project})
        return found.scalar_one_or_none() or 0

    def held_since(self, project: str) -> int:
        """Since when the lease has been held, by any holder, with no gap of more than a minute. By
        the database's clock; 0 if it was never held."""
        statement = select(leases.c.held_since).where(leases.c.project == project)
        return self._connection.execute(statement).scalar_one_or_none() or 0

    def read_sight(self, project: str) -> tuple[int, str]:
        """(time of the last look at the whole project, holder). The holder is "" once the lease has
        expired; (0, "") if there is no row."""
        statement = select(
            leases.c.looked_at, case((leases.c.expires_at < self._now, ""), else_=leases.c.holder)
        ).where(leases.c.project == project)
        row = self._connection.execute(statement).one_or_none()
        return (0, "") if row is None else (row[0], row[1])

    def save_log_release(self, lease: Lease, *, releases_deletions: bool) -> None:
        """Record whether budget deletions wait no longer for the audit log of the project, for the
        holder of this lease. Nothing is recorded for a lease that is held no more."""
        held = select(leases.c.project, literal(lease.epoch if releases_deletions else 0)).where(
            leases.c.project == lease.project,
            leases.c.holder == lease.holder,
            leases.c.epoch == lease.epoch,
        )
        insert = sqlite_insert if self._connection.dialect.name == "sqlite" else postgresql_insert
        statement = insert(log_releases).from_select(["project", "epoch"], held)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["project"], set_={"epoch": statement.excluded.epoch}
            )
        )

    def list_waiting_for_log(self, project: str | None = None) -> Sequence[str]:
        """The projects with a holder whose budget deletions still wait for the audit log; one
        project alone if it is named."""
        statement = (
            select(leases.c.project)
            .outerjoin(log_releases, log_releases.c.project == leases.c.project)
            .where(leases.c.expires_at >= self._now)
            .where(func.coalesce(log_releases.c.epoch, 0) != leases.c.epoch)
            .order_by(leases.c.project)
        )
        if project is not None:
            statement = statement.where(leases.c.project == project)
        return self._connection.execute(statement).scalars().all()

    def try_to_write(self) -> None:
        """Write nothing, as a write: a read-only database raises an error."""
        self._connection.execute(update(leases).where(false()).values(expires_at=0))

    def release(self, lease: Lease) -> None:
        """Let the next daemon take the lease at once."""
        self._connection.execute(
            update(leases)
            .where(leases.c.project == lease.project, leases.c.holder == lease.holder)
            .values(expires_at=self._now - 1)
            .returning(leases.c.epoch, *_LIMIT[self._connection.dialect.name]),
            self._limit,
        )
