"""Describes errors of the database in one line that says what to do."""

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
"""Advice by SQLite's error name, or the name of its group, and by PostgreSQL's SQLSTATE."""

_BUSY = (
    "the database took too long to answer; try again",
    "other writers blocked the database for too long; retry",
    "the database is locked by another program; retry",
    "a transaction paused for too long, and the database ended it; retry",
)

_ADVICE = (
    ("no such table", "the database has no tables yet; run: tpu-steward migrate"),
    ("does not exist", "the database is not there or has no tables; run: tpu-steward migrate"),
    ("has no column", "the database is older than this program; run: tpu-steward migrate"),
    ("no such column", "the database is older than this program; run: tpu-steward migrate"),
    ("statement timeout", _BUSY[0]),
    ("lock timeout", _BUSY[1]),
    ("database is locked", _BUSY[2]),
    ("idle-in-transaction", _BUSY[3]),
    ("readonly", "the database is read-only; check the permissions of its file and folder"),
    ("read-only", _READ_ONLY),
    ("file is not a database", _NO_DATABASE),
    ("malformed", _DAMAGED),
    ("unable to open", "the database file cannot be opened; check that its folder exists"),
)


_TWO_AT_ONCE = {"40001", "40P01"}
"""PostgreSQL aborted one of several transactions: they deadlocked, or rows that it had read were
changed meanwhile."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate the errors of the database driver.

    A row that another transaction wrote first is StaleVersion, a database that cannot be used is
    StoreUnavailable. Errors in the program pass unchanged.
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
        advice = _find_advice(error)
        if advice is None:
            raise
        raise StoreUnavailable(advice) from error


def is_busy(error: StoreUnavailable) -> bool:
    """Whether the database works, and only other writers were faster."""
    return str(error) in _BUSY


def _find_advice(error: DBAPIError) -> str | None:
    """What to do about an error; None if it is an error in the program."""
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        found = _BY_CODE.get(state)
    else:
        name = getattr(error.orig, "sqlite_errorname", None) or ""
        kind = "_".join(name.split("_")[:2])  # SQLITE_IOERR_WRITE is one of SQLITE_IOERR
        found = _BY_CODE.get(name) or _BY_CODE.get(kind)
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
