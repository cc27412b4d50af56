"""What is wrong with the database, in one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.domain.errors import StaleVersion, StoreUnavailable

_ADVICE = (
    ("no such table", "the database has no tables yet; run: tpu-steward migrate"),
    ("does not exist", "the database is not there or has no tables; run: tpu-steward migrate"),
    ("has no column", "the database is older than this program; run: tpu-steward migrate"),
    ("no such column", "the database is older than this program; run: tpu-steward migrate"),
    ("statement timeout", "the database took too long to answer; try again"),
    ("lock timeout", "others were writing there for too long; try again"),
    ("database is locked", "the database is locked by another program; try again"),
    ("readonly", "the database is read-only; check the permissions of its file and folder"),
    ("read-only", "the database is read-only; use the primary, not a replica"),
    ("file is not a database", "the database file is no SQLite database; name another one"),
    ("malformed", "the database file is damaged; bring back a copy of it"),
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
        raise StaleVersion("someone else wrote the same thing just now") from error
    except PoolTimeout as error:
        raise StoreUnavailable("all connections to the database are in use; try again") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") in _TWO_AT_ONCE:
            raise StaleVersion("two transactions wrote the same rows at once") from error
        advice = _advice(error)
        if advice is None:
            raise
        raise StoreUnavailable(advice) from error


def _advice(error: DBAPIError) -> str | None:
    cause = str(error.orig)
    for sign, advice in _ADVICE:
        if sign in cause:
            return advice
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return "the database does not answer; is it running, and is STEWARD_DATABASE_URL right?"
    return None
