"""A database of PostgreSQL that is used again is as good as a new one."""

from __future__ import annotations

import psycopg
import pytest

from tests.databases import fresh_database

EVENT = """INSERT INTO events (at, kind, node_id, message, actor, facts)
    VALUES (1, 'x', 'node', 'x', 'x', '{}') RETURNING id"""
ROWS = "SELECT count(*) FROM events"


@pytest.fixture
def fresh(tmp_path):
    """Makes a database, which is gone after its block."""

    def made():
        return fresh_database("postgresql", tmp_path)

    return made


def name_of(address):
    return psycopg.conninfo.conninfo_to_dict(address)["dbname"]


def test_nothing_of_the_test_before_is_left_and_numbers_begin_anew(fresh):
    for _ in range(3):
        with fresh() as address, psycopg.connect(address) as connection:
            assert connection.execute(ROWS).fetchone() == (0,)
            assert connection.execute(EVENT).fetchone() == (1,)


def test_a_table_that_grew_is_small_again(fresh):
    size = "SELECT pg_relation_size('events')"
    with fresh() as address, psycopg.connect(address) as connection:
        for _ in range(2_000):
            connection.execute(EVENT)
        ((grown,),) = connection.execute(size).fetchall()
        assert grown > 100_000
    with fresh() as address, psycopg.connect(address) as connection:
        assert connection.execute(size).fetchone() == (0,)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE events ADD COLUMN more TEXT",
        "CREATE TABLE more (one TEXT)",
        "DROP SCHEMA public CASCADE",
        "ALTER TABLE ledger DISABLE TRIGGER ALL",
        "UPDATE alembic_version SET version_num = '0001'",
    ],
)
def test_what_was_built_differently_is_not_used_again(fresh, change):
    with fresh() as address, psycopg.connect(address) as connection:
        connection.execute(change)
    with fresh() as address, psycopg.connect(address) as connection:
        assert connection.execute(EVENT).fetchone() == (1,)
        columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'more'"
        assert connection.execute(columns).fetchone() == (0,)
        disabled = "SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'"
        assert connection.execute(disabled).fetchone() == (0,)


def test_who_is_still_connected_can_write_nothing_into_the_next_one(fresh):
    with fresh() as first:
        late = psycopg.connect(first, autocommit=True)
    with fresh() as second:
        assert name_of(second) != name_of(first)
        with pytest.raises(psycopg.OperationalError):
            late.execute(EVENT)
        late.close()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(first)
