"""A database that cannot be used says so in one line that says what to do."""

from __future__ import annotations

import pytest
from sqlalchemy import event, text

from service.domain.errors import StoreUnavailable
from service.store.engine import make_engine
from service.store.migrate import check_migrated, migrate
from service.store.unit import Units
from tests import factories
from tests.databases import fresh_database


def on_connect(engine, statement):
    """Have every new connection begin with a statement; none of the old ones is used again."""

    def run(connection, _record):
        connection.execute(statement)

    engine.dispose()
    event.listen(engine, "connect", run)


def refused(units, *, reading=False):
    if reading:
        with pytest.raises(StoreUnavailable) as trouble, units.reading() as unit:
            unit.nodes.find_by_name("train")
    else:
        with pytest.raises(StoreUnavailable) as trouble, units() as unit:
            unit.nodes.add(factories.node())
    assert "\n" not in str(trouble.value)
    assert len(str(trouble.value)) < 200
    return str(trouble.value)


@pytest.mark.parametrize("reading", [True, False])
def test_a_database_without_tables_asks_to_be_migrated(engine, tmp_path, reading):
    if engine.dialect.name == "sqlite":
        engine = make_engine(f"sqlite:///{tmp_path}/empty.db")
    else:
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    assert "run: tpu-steward migrate" in refused(Units(engine), reading=reading)
    engine.dispose()


def test_a_database_that_is_older_than_the_program_asks_to_be_migrated(engine, units):
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE nodes DROP COLUMN health"))
    assert "run: tpu-steward migrate" in refused(units)


def test_a_database_that_may_only_be_read_says_so(engine, units):
    """Root may write any file, so the database itself is told that it is read-only."""
    if engine.dialect.name == "sqlite":
        on_connect(engine, "PRAGMA query_only = 1")
    else:
        with engine.begin() as connection:
            name = engine.url.database
            connection.execute(
                text(f'ALTER DATABASE "{name}" SET default_transaction_read_only=on')
            )
        engine.dispose()
    assert "read-only" in refused(units)
    with units.reading() as unit:
        assert unit.nodes.find_by_name("train") == []


def test_a_sqlite_file_that_another_program_locks_says_so(tmp_path):
    with fresh_database("sqlite", tmp_path) as address:
        holder, waiter = make_engine(address), make_engine(address)
        on_connect(waiter, "PRAGMA busy_timeout = 0")
        with holder.begin():
            assert "locked" in refused(Units(waiter))
        with Units(waiter)() as unit:
            unit.nodes.add(factories.node())
        holder.dispose()
        waiter.dispose()


def test_a_sqlite_file_that_cannot_be_opened_says_so(tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path}")
    assert "cannot be opened" in refused(Units(engine))
    engine.dispose()


def test_a_file_that_is_no_database_says_so(tmp_path):
    path = tmp_path / "steward.db"
    path.write_text("Dear diary, " * 1_000)
    engine = make_engine(f"sqlite:///{path}")
    assert "SQLite database" in refused(Units(engine))
    engine.dispose()


@pytest.mark.parametrize("ask", [refused, None])
def test_a_server_that_does_not_answer_says_so_without_the_password(ask):
    engine = make_engine("postgresql://steward:secret@127.0.0.1:1/steward")
    if ask is None:
        for question in (check_migrated, migrate):
            with pytest.raises(StoreUnavailable) as trouble:
                question(engine)
            assert "\n" not in str(trouble.value)
            assert "secret" not in str(trouble.value)
    else:
        message = ask(Units(engine))
        assert "does not answer" in message
        assert "secret" not in message
    engine.dispose()


def test_a_statement_that_is_wrong_is_no_trouble_of_the_database(engine):
    with pytest.raises(Exception, match=r"(?i)syntax") as error, engine.begin() as connection:
        connection.execute(text("SELEKT 1"))
    assert not isinstance(error.value, StoreUnavailable)
