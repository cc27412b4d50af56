"""What the probe finds out about a database, and says in plain words."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event, text

from service.domain.errors import StoreUnavailable
from service.store import probe as probing
from service.store.database_errors import translate_errors
from service.store.engine import make_engine
from service.store.probe import BUSY_SECONDS, DatabaseProbe
from service.store.unit import Units
from tests import factories
from tests.databases import fresh_database


def address_of(engine):
    return engine.url.render_as_string(hide_password=False)


class Hand:
    """A monotonic clock that stands still."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def hand():
    return Hand()


@pytest.fixture
def probe(engine, hand):
    made = DatabaseProbe(address_of(engine), hand)
    yield made
    made.close()


@pytest.fixture
def file(tmp_path):
    """A SQLite database that nobody has open, with all of it in one file."""
    with fresh_database("sqlite", tmp_path) as address:
        path = Path(address.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
        yield path


def refusal(probe):
    with pytest.raises(StoreUnavailable) as refused:
        probe.check_usable([])
    assert "\n" not in str(refused.value)
    return str(refused.value)


def refusal_of(address):
    probe = DatabaseProbe(address)
    try:
        return refusal(probe)
    finally:
        probe.close()


def test_a_database_that_works_is_written_again_and_again(probe, units):
    for _ in range(3):
        assert probe.check_usable([]) == []
    with units() as unit:
        unit.nodes.add(factories.node())


def test_projects_without_a_daemon_are_named(probe, units):
    assert probe.check_usable(["lab", "other"]) == ["lab", "other"]
    with units() as unit:
        unit.leases.take("other", "one", 30)
    assert probe.check_usable(["lab", "other"]) == ["lab"]
    with units() as unit:
        unit.leases.take("lab", "one", -1)
    assert probe.check_usable(["lab", "other"]) == ["lab"], "its lease has run out"


def test_a_pool_that_requests_have_used_up_does_not_hold_the_probe_up(probe, engine):
    taken = [engine.connect() for _ in range(engine.pool.size())]
    assert probe.check_usable([]) == []
    for connection in taken:
        connection.close()


def _hold(engine, connection):
    """Write what the probe writes, and do not commit."""
    if engine.dialect.name == "postgresql":
        connection.execute(text(probing._TOUCH))


def test_a_database_that_others_write_for_a_while_is_ready(probe, engine, hand):
    with engine.connect() as connection:
        with connection.begin():
            _hold(engine, connection)
            assert probe.check_usable([]) == []
            hand.seconds += BUSY_SECONDS
            assert "retry" in refusal(probe)
        assert probe.check_usable([]) == []


def test_a_database_that_may_only_be_read_says_so(probe, engine):
    if engine.dialect.name == "sqlite":
        address = f"sqlite:///file:{engine.url.database}?mode=ro&uri=true"
        assert "read-only" in refusal_of(address)
        return
    with engine.begin() as connection:
        name = engine.url.database
        connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only=on'))
    assert "read-only" in refusal(probe)
    assert "default_transaction_read_only" in refusal(probe)


def test_a_file_whose_beginning_is_overwritten_is_damaged(file):
    with file.open("r+b") as damaged:
        damaged.write(b"\0" * 64)
    assert "the database file is damaged" in refusal_of(f"sqlite:///{file}")


def test_a_file_whose_pages_are_overwritten_is_damaged(file):
    with file.open("r+b") as damaged:
        damaged.seek(4_096)
        damaged.write(b"\x17" * (file.stat().st_size - 4_096))
    said = refusal_of(f"sqlite:///{file}")
    assert said == "the database file is damaged; restore a backup"


def test_damage_is_seen_though_requests_have_the_file_open(file):
    engine, probe = make_engine(f"sqlite:///{file}"), DatabaseProbe(f"sqlite:///{file}")
    with Units(engine).reading() as unit:
        unit.prices.count_rows()
    with file.open("r+b") as damaged:
        damaged.write(b"\0" * 64)
    assert "the database file is damaged" in refusal(probe)
    engine.dispose()
    probe.close()


FULL = "the disk of the database is full; free space on it"


def test_a_full_sqlite_database_is_a_full_disk_for_requests_too(file):
    engine = make_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def stay_small(connection, _record):
        connection.execute("pragma max_page_count=1")

    with (
        pytest.raises(StoreUnavailable) as refused,
        translate_errors(),
        engine.begin() as connection,
    ):
        connection.execute(text("create table large (one text)"))
    assert str(refused.value) == FULL
    engine.dispose()


def test_a_full_postgresql_is_a_full_disk_for_requests_too(tmp_path):
    raising = "do $$ begin raise exception 'no space left' using errcode = '53100'; end $$"
    with fresh_database("postgresql", tmp_path) as address:
        engine = make_engine(address)
        with (
            pytest.raises(StoreUnavailable) as refused,
            translate_errors(),
            engine.begin() as connection,
        ):
            connection.execute(text(raising))
        engine.dispose()
    assert str(refused.value) == FULL


_SMALL = """
import resource, sys
from service.domain.errors import StoreUnavailable
from service.store.probe import DatabaseProbe
probe = DatabaseProbe(sys.argv[1])
probe.check_usable([])
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
try:
    probe.check_usable([])
except StoreUnavailable as error:
    print(error)
"""


@pytest.mark.deep
def test_a_disk_that_takes_no_more_is_told_as_such(file):
    """No file of this process may grow, as on a disk that is full."""
    ran = subprocess.run(
        [sys.executable, "-c", _SMALL, f"sqlite:///{file}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.startswith("the disk of the database cannot be read or written; it may be")
    assert ran.stderr == ""
