"""Engines: which addresses are understood, and that a transaction is one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from service.domain.errors import Conflict, NotFound, StoreUnavailable
from service.store.database_errors import translate_errors
from service.store.engine import make_engine, parse_url, set_clock
from service.store.unit import Units
from tests import factories
from tests.hands import NOON
from tests.store import given

LIMITS = {
    "statement_timeout": "1min",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "5min",
}


NETWORK = {
    "connect_timeout": "5",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


@pytest.mark.parametrize(
    ("address", "driver"),
    [
        ("sqlite:///var/steward.db", "sqlite"),
        ("postgresql://user:secret@host/name", "postgresql+psycopg"),
        ("postgres://host/name", "postgresql+psycopg"),
        ("postgresql+psycopg://host/name", "postgresql+psycopg"),
    ],
)
def test_an_address_names_one_of_two_databases(address, driver):
    assert parse_url(address).drivername == driver


@pytest.mark.parametrize(
    "address",
    [
        "",
        "steward.db",
        "mysql://user:secret@host/name",
        "sqlite+aiosqlite:///x",
        "postgresql+pg8000://h/n",
    ],
)
def test_any_other_address_is_refused_in_one_line_without_its_password(address):
    with pytest.raises(StoreUnavailable) as refused:
        parse_url(address)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_folder_of_a_new_sqlite_file_is_made(tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path}/deep/er/steward.db")
    with engine.begin() as connection:
        connection.execute(text("SELECT 1"))
    engine.dispose()
    assert (tmp_path / "deep" / "er" / "steward.db").exists()


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _lavish():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_lavish")
def test_nobody_else_can_read_a_new_sqlite_file_or_what_lies_beside_it(tmp_path):
    folder = tmp_path / "var"
    engine = make_engine(f"sqlite:///{folder}/steward.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE secrets (one TEXT)"))
        modes = {path.name: _mode(path) for path in folder.iterdir()}
    engine.dispose()
    assert modes == dict.fromkeys(["steward.db", "steward.db-wal", "steward.db-shm"], 0o600)
    assert _mode(folder) == 0o700


def test_a_sqlite_file_that_others_could_read_is_closed_to_them(tmp_path):
    file, beside = tmp_path / "steward.db", tmp_path / "steward.db-wal"
    for path in (file, beside):
        path.touch()
        path.chmod(0o644)
    make_engine(f"sqlite:///{file}").dispose()
    assert (_mode(file), _mode(beside)) == (0o600, 0o600)


def test_a_file_that_cannot_be_made_is_told_by_the_database(tmp_path):
    (tmp_path / "steward.db").mkdir()
    engine = make_engine(f"sqlite:///{tmp_path}/steward.db")
    with pytest.raises(OperationalError, match="unable to open"), engine.begin():
        pass


def test_an_error_of_the_database_does_not_repeat_what_was_to_be_written(engine):
    with engine.begin() as connection, pytest.raises(DBAPIError) as failed:
        connection.execute(text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "geheim"})
    assert "geheim" not in str(failed.value)


def test_references_between_tables_are_kept(engine, units):
    node = given.stored(units)
    with engine.begin() as connection, pytest.raises(Exception, match=r"(?i)foreign key"):
        connection.execute(
            text("INSERT INTO node_labels VALUES (:id, 'a', 'b')"), {"id": node.id + "x"}
        )


def test_a_unit_that_ends_badly_leaves_nothing_behind(units):
    node, other = factories.node(name="train"), factories.node(name="train")

    def ask_for_the_same_name_twice():
        with units() as unit:
            unit.nodes.add(node)
            unit.nodes.add(other)

    with pytest.raises(Conflict):
        ask_for_the_same_name_twice()
    with units.reading() as unit, pytest.raises(NotFound):
        unit.nodes.get(node.id)


def test_writers_that_come_at_once_take_turns(units):
    """None fails because it found out too late that another one was faster."""
    node = given.stored(units)
    usage = given.ran(units, node)
    start, failures = threading.Barrier(6), []

    def work():
        start.wait()
        try:
            for _ in range(5):
                with units() as unit:
                    unit.nodes.get(node.id)
                    unit.nodes.add_posted(usage, 1, 0)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with units.reading() as unit:
        document = unit.node_list.read_one(node.id, given.GivenPrices(), NOON).decode()
    assert '"cost":"0.000000030"' in document


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_session_of_postgresql_has_limits(engine):
    """What hangs is given up by the database, and its locks are free."""
    with engine.connect() as connection:
        found = {name: connection.scalar(text(f"SHOW {name}")) for name in LIMITS}
    assert found == LIMITS


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_database_that_disappears_silently_is_noticed(engine):
    with engine.connect() as connection:
        said = connection.connection.driver_connection.info.get_parameters()
    assert {name: said.get(name) for name in NETWORK} == NETWORK


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_is_told_of(engine, units):
    """The database restarts in the middle of a transaction that has written."""

    def lose_connection():
        with units() as unit:
            connection = unit.nodes._connection
            unit.nodes.add(factories.node())
            number = connection.scalar(text("select pg_backend_pid()"))
            with engine.begin() as other:
                other.execute(text("select pg_terminate_backend(:number)"), {"number": number})
            unit.nodes.add(factories.node(name="second"))

    with pytest.raises(StoreUnavailable, match="does not answer"):
        lose_connection()
    with units() as unit:
        unit.nodes.add(factories.node())


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_statement_that_takes_too_long_is_told_of(engine, units):
    sleep = text("SELECT set_config('statement_timeout', '10ms', true), pg_sleep(0)")
    with units.reading() as unit:
        connection = unit.nodes._connection
        connection.execute(sleep)
        with pytest.raises(StoreUnavailable, match="took too long"), translate_errors():
            connection.execute(text("SELECT pg_sleep(5)"))
        connection.rollback()


def test_a_second_engine_on_a_sqlite_file_loses_nothing_of_the_first(tmp_path):
    """Another process that comes and goes must not take the log away that the first writes to."""
    file = tmp_path / "steward.db"
    engine = make_engine(f"sqlite:///{file}")
    read = f"import sqlite3; print(sqlite3.connect({str(file)!r}).execute('{{}}').fetchall())"
    with engine.begin() as connection:
        connection.execute(text("create table t (n integer)"))
    make_engine(f"sqlite:///{file}")
    _ended(read.format("select * from t"))
    with engine.begin() as connection:
        connection.execute(text("insert into t values (7)"))
    assert _ended(read.format("select * from t")) == "[(7,)]"
    engine.dispose()


def _ended(program: str) -> str:
    """What a process of its own says."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return ended.stdout.decode().strip()


def test_the_clock_of_a_sqlite_database_can_be_replaced(tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path}/steward.db", counts=False)
    hands = [1_793_880_000.25]
    set_clock(engine, lambda: hands[0])
    units = Units(engine)
    with units.reading() as unit:
        assert unit.leases.read_clock() == pytest.approx(1_793_880_000.25, abs=0.001)
    hands[0] += 3_600
    with units.reading() as unit:
        assert unit.leases.read_clock() == pytest.approx(1_793_883_600.25, abs=0.001)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select strftime('%s', 'now')").scalar() == "1793883600"
    engine.dispose()
