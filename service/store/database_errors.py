"""What is wrong with the database, in one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.domain.errors import StaleVersion, StoreUnavailable

_DISK_FULL = "the disk of the database is full; free space on it"
_DAMAGED = "the database file is damaged; restore a backup"
_NO_DATABASE = (
    "the database file is damaged, or is no SQLite database; restore a backup, or name another file"
)
_READ_ONLY = "the database is read-only; use the primary, not a replica"
_DISK_BROKEN = (
    "the disk of the database cannot be read or written; it may be full or broken, and the log of"
    " the system says more"
)
_MOVED = "the database file was moved or deleted while it was in use; put it back, and restart"

_BY_CODE = {
    "SQLITE_FULL": _DISK_FULL,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _NO_DATABASE,
    "SQLITE_IOERR": _DISK_BROKEN,
    "SQLITE_READONLY_DBMOVED": _MOVED,
    "53100": _DISK_FULL,
    "58030": _DISK_BROKEN,
    "XX001": "the database is damaged; restore a backup",
    "XX002": "an index of the database is damaged; run in the database: REINDEX DATABASE",
    "25006": f"{_READ_ONLY}, and leave default_transaction_read_only off",
}
"""By the name of SQLite's error, or of the error that it is a kind of; by PostgreSQL's SQLSTATE."""

_BUSY = (
    "the database took too long to answer; try again",
    "other writers blocked the database for too long; retry",
    "the database is locked by another program; retry",
)

_ADVICE = (
    ("no such table", "the database has no tables yet; run: tpu-steward migrate"),
    ("does not exist", "the database is not there or has no tables; run: tpu-steward migrate"),
    ("has no column", "the database is older than this program; run: tpu-steward migrate"),
    ("no such column", "the database is older than this program; run: tpu-steward migrate"),
    ("statement timeout", _BUSY[0]),
    ("lock timeout", _BUSY[1]),
    ("database is locked", _BUSY[2]),
    ("readonly", "the database is read-only; check the permissions of its file and folder"),
    ("read-only", _READ_ONLY),
    ("file is not a database", _NO_DATABASE),
    ("malformed", _DAMAGED),
    ("unable to open", "the database file cannot be opened; check that its folder exists"),
)


_TWO_AT_ONCE = {"40001", "40P01"}
"""PostgreSQL gave up one of several transactions: they waited in a circle, or what it had read was
changed meanwhile."""


@contextmanager
def told_apart() -> Iterator[None]:
    """Turn what the database's driver raises into our words.

    A row that someone else wrote first is StaleVersion, a database that cannot be used is
    StoreUnavailable; errors in the program pass as they are.
    """
    try:
        yield
    except IntegrityError as error:
        raise StaleVersion("another transaction wrote the same data just now") from error
    except PoolTimeout as error:
        raise StoreUnavailable("all connections to the database are in use; try again") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") in _TWO_AT_ONCE:
            raise StaleVersion("two transactions wrote the same rows at once") from error
        advice = _advice(error)
        if advice is None:
            raise
        raise StoreUnavailable(advice) from error


def is_busy(error: StoreUnavailable) -> bool:
    """Whether the database works, and only others were faster."""
    return str(error) in _BUSY


def _advice(error: DBAPIError) -> str | None:
    found = _coded(error.orig)
    if found is not None:
        return found
    cause = str(error.orig)
    for sign, advice in _ADVICE:
        if sign in cause:
            return advice
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return (
            "the database does not answer; check that it runs, and that STEWARD_DATABASE_URL"
            " is right"
        )
    return None


def _coded(cause: object) -> str | None:
    """What the error's code says; None where that says nothing of its own."""
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return _BY_CODE.get(state)
    name = getattr(cause, "sqlite_errorname", None) or ""
    kind = "_".join(name.split("_")[:2])  # SQLITE_IOERR_WRITE is one of SQLITE_IOERR
    return _BY_CODE.get(name) or _BY_CODE.get(kind)
