"""Migrations: from nothing to exactly the tables that the program knows."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from service.domain.discount import Discount
from service.domain.errors import StoreUnavailable
from service.domain.event import Event
from service.domain.idempotency import Key
from service.domain.nodeview import FORMAT
from service.domain.placement import Placement
from service.store import migrate as store_migrate
from service.store.engine import make_engine
from service.store.migrate import check_migrated, migrate
from service.store.observations import Observation
from service.store.tables import metadata
from tests.hands import NOON
from tests.store import given


@pytest.fixture
def empty(engine, tmp_path):
    """A database in which nothing was ever made."""
    if engine.dialect.name == "sqlite":
        made = make_engine(f"sqlite:///{tmp_path}/empty.db")
        yield made
        made.dispose()
        return
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    yield engine


def shape(engine):
    """Every table, index and constraint as the database itself writes them down."""
    if engine.dialect.name == "sqlite":
        query = (
            "SELECT type, name, sql FROM sqlite_master"
            " WHERE type IN ('table', 'index') AND name NOT LIKE '%alembic_version%'"
        )
    else:
        query = (
            "SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
            " AND tablename <> 'alembic_version'"
            " UNION SELECT 'column', table_name || '.' || column_name,"
            " data_type || is_nullable || coalesce(column_default, '')"
            " FROM information_schema.columns WHERE table_schema = 'public'"
            " AND table_name <> 'alembic_version'"
            " UNION SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace"
            " AND conname <> 'alembic_version_pkc' AND contype <> 'n'"
        )
    with engine.connect() as connection:
        rows = connection.execute(text(query)).all()
    return {(kind, name): " ".join((sql or "").split()).lower() for kind, name, sql in rows}


def test_what_is_migrated_is_what_the_program_knows(engine):
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_the_migrations_make_the_same_as_the_tables_would(empty):
    metadata.create_all(empty)
    straight = shape(empty)
    metadata.drop_all(empty)
    migrate(empty)
    migrated = shape(empty)
    assert set(migrated) == set(straight)
    if empty.dialect.name == "postgresql":  # SQLite keeps the words of the one who spoke them
        assert migrated == straight
    else:
        wheres = {key: sql.partition(" where ")[2] for key, sql in straight.items()}
        assert {key: sql.partition(" where ")[2] for key, sql in migrated.items()} == wheres


def test_migrating_twice_is_harmless(engine, units):
    node, before = given.stored(units), shape(engine)
    migrate(engine)
    assert shape(engine) == before
    check_migrated(engine)
    with units.reading() as unit:
        assert unit.nodes.get(node.id) == node


def test_what_was_written_is_never_changed_and_never_deleted(engine, units):
    node = given.stored(units)
    usage = given.ran(units, node)
    given.posted(units, usage, [given.entry(usage)])
    with units() as unit:
        unit.events.add(Event(node.id, NOON, "state", "READY"))
        unit.observations.add(Observation(node.id, "7001", "READY", None, NOON, NOON, "inventory"))
    for table in ("ledger", "observations", "events"):
        for change in (f"UPDATE {table} SET id = id + 1", f"DELETE FROM {table}"):
            with pytest.raises(Exception, match="is only added to"), engine.begin() as connection:
                connection.execute(text(change))
        with engine.connect() as connection:
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 1


@pytest.mark.parametrize(
    ("table", "changed"),
    [
        ("attributions", "rowid"),
        ("attributions", "since"),
        ("beliefs", "free"),
        ("discounts", "rowid"),
        ("discounts", "number"),
        ("events", "message"),
        ("ledger", "rowid"),
        ("ledger", "key"),
        ("observations", "state"),
    ],
)
def test_what_was_written_is_not_replaced_either(engine, units, table, changed):
    """By its key, or by the number that SQLite gives every row: REPLACE is no DELETE to a trigger.
    PostgreSQL knows no such word."""
    node = given.stored(units)
    usage = given.ran(units, node)
    given.posted(units, usage, [given.entry(usage)])
    with units() as unit:
        unit.events.add(Event(node.id, NOON, "state", "READY"))
        unit.observations.add(Observation(node.id, "7001", "READY", None, NOON, NOON, "inventory"))
        unit.beliefs.add(usage, NOON)
        unit.prices.add_discount(Discount("d", "v5e", "spot", 100_000, NOON, None, "a", NOON), 0)
    columns = metadata.tables[table].columns
    names = ["rowid", *(one.name for one in columns if not (one.primary_key and one.name == "id"))]
    values = [f"{name} + 9" if name == changed else name for name in names]
    statement = (
        f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"
        f" FROM {table}"
    )
    with engine.connect() as connection:
        before = connection.execute(text(f"SELECT * FROM {table}")).all()
    assert len(before) == 1
    refused = "is only added to" if engine.dialect.name == "sqlite" else "syntax error"
    with pytest.raises(DBAPIError, match=refused), engine.begin() as connection:
        connection.execute(text(statement))
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT * FROM {table}")).all() == before


def test_a_database_that_was_never_migrated_is_refused(empty):
    with pytest.raises(StoreUnavailable, match="run: tpu-steward migrate"):
        check_migrated(empty)
    migrate(empty)
    check_migrated(empty)


def test_a_database_of_another_version_is_refused_with_both_versions(engine):
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match=r"at 9999, this program needs \d{4}"):
        check_migrated(engine)


def test_stored_views_of_an_older_shape_are_made_anew(engine, units):
    node = given.stored(units, name="train")
    with engine.begin() as connection:
        connection.execute(text("UPDATE nodes SET view = '{}', price_key = '', view_format = 0"))
    migrate(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT view_format FROM nodes")).scalar_one() == FORMAT
    with units.reading() as unit:
        shown = unit.listing.one(node.id, given.Shelf(), NOON).decode()
        assert '"name":"train"' in shown
        assert '"hourly_cost":"9.600000000"' in shown
        assert unit.nodes.renew_views() == 0


def test_replicas_that_start_at_once_migrate_once(empty):
    address = empty.url.render_as_string(hide_password=False)
    program = (
        "import sys; from service.store.engine import make_engine;"
        " from service.store.migrate import migrate; migrate(make_engine(sys.argv[1]))"
    )
    replicas = [
        subprocess.Popen([sys.executable, "-c", program, address], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    said = [replica.communicate(timeout=60)[1].decode() for replica in replicas]
    assert [replica.returncode for replica in replicas] == [0, 0, 0], said
    check_migrated(empty)


def test_what_is_known_of_earlier_attempts_is_filled_in(engine, units):
    node = given.stored(units, attempt=2, up_since=NOON + 100)
    with units() as unit:
        for number in (1, 2):
            unit.placements.add(
                Placement(node.id, number, "us-west4-a", "spot", f"c-{number}", NOON)
            )
    step_down(engine, "0003")
    migrate(engine)
    with units.reading() as unit:
        first, second = unit.placements.of(node.id)
    for one in (first, second):
        assert (one.project, one.accelerator_type, one.generation) == ("lab", "v5litepod-8", "v5e")
    assert (first.ready_at, second.ready_at) == (None, NOON + 100)


def test_the_books_of_before_are_kept_and_charged_to_whom_they_were(engine, units):
    node = given.stored(units, team="vision", owner="ada", labels={"run": "1"})
    usage = given.ran(units, node)
    given.posted(units, usage, [given.entry(usage), given.entry(usage, hour=NOON + 3_600)])
    step_down(engine, "0006")
    migrate(engine)
    with units.reading() as unit:
        (whose,) = unit.attributions.of(node.id)
        by_node = unit.costs.by_day(0, 2 * NOON, ("node_id", "team"), {})
        lines = unit.ledger.of(node.id, 0, 10)
        (kept,) = unit.usage.of(node.id)
    assert (whose.since, whose.team, whose.owner, whose.labels) == (
        0,
        "vision",
        "ada",
        {"run": "1"},
    )
    assert [(row[1], row[2]) for row in by_node] == [((node.id, "vision"), 19_200_000_000)]
    assert [(line.period, line.list_nanos) for line in lines] == [(None, None)] * 2
    assert kept == usage
    with units() as unit:
        unit.costs.rebuild()
    with units.reading() as unit:
        assert unit.costs.by_day(0, 2 * NOON, ("node_id", "team"), {}) == by_node


def test_a_key_of_before_still_leads_to_its_node(engine, units):
    node = given.stored(units)
    key = Key("k", "body")
    with units() as unit:
        unit.idempotency_keys.add("nodes/ada", key, node.id, NOON)
        unit.idempotency_keys.add("prices", key, "manual/1", NOON)
    step_down(engine, "0013")
    migrate(engine)
    with units.reading() as unit:
        assert unit.idempotency_keys.find("nodes/ada", key) == node.id
        assert unit.idempotency_keys.find("prices", key) is None


def step_down(engine, revision):
    """The database as an older program left it."""
    config = store_migrate._config()
    address = engine.url.render_as_string(hide_password=False).replace("%", "%%")
    config.set_main_option("sqlalchemy.url", address)
    command.downgrade(config, revision)
