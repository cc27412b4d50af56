"""Migrations: from nothing to exactly the tables that the program knows."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from service.domain.clock import DAY
from service.domain.commitments.commitment import Commitment, Term
from service.domain.errors import StoreUnavailable
from service.domain.event import Event
from service.domain.metering.reservation import Reservation
from service.domain.nodes.view import FORMAT, view_of
from service.domain.pricing.discounts import Discount
from service.store import migrate as store_migrate
from service.store import nodes as store_nodes
from service.store.engine import make_engine
from service.store.migrate import check_migrated, migrate
from service.store.observations import Observation
from service.store.tables import metadata
from tests import factories
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


def one_row_each(units):
    """A row in every table that is only added to."""
    node = given.stored(units)
    usage = given.ran(units, node)
    given.posted(units, usage, [given.entry(usage)])
    with units() as unit:
        unit.events.add(Event(node.id, NOON, "state", "READY"))
        unit.observations.add(Observation(node.id, "7001", "READY", None, NOON, NOON, "inventory"))
        unit.usage_versions.add(usage, NOON)
        unit.prices.add(factories.price())
        unit.prices.add_discount(Discount("d", "v5e", "spot", 100_000, NOON, None, "a", NOON), 0)
        unit.reservations.add(bought())
        unit.commitments.add(committed())


def bought(**changes):
    """Sixteen chips for a day."""
    base = Reservation("r", "autumn", "lab", "us-west4-a", "v5e", 16, NOON, NOON + DAY)
    return replace(base, **changes)


def committed(**changes):
    """Sixteen chips for a year at the rate of a contract."""
    base = Commitment(
        "c", "base", "", "us-west4", "v5e", 16, Term.ONE_YEAR, NOON, contract=840_000_000
    )
    return replace(base, **changes)


def rows_of(engine, table):
    with engine.connect() as connection:
        return connection.execute(text(f"SELECT * FROM {table}")).all()


@pytest.mark.parametrize(
    ("table", "changed"),
    [
        ("attributions", "since = since + 1"),
        ("attributions", "team = 'nlp'"),
        ("usage_versions", "id = id + 1"),
        ("usage_versions", "start_at = start_at + 1"),
        ("discounts", "ppm = ppm + 1"),
        ("events", "id = id + 1"),
        ("ledger", "id = id + 1"),
        ("ledger", "amount_nanos = 0"),
        ("observations", "id = id + 1"),
        ("prices", "nanos = nanos + 1"),
        ("prices", "effective_from = 0"),
        ("reservations", "chips = chips + 1"),
        ("reservations", "end_at = end_at - 1"),
        ("reservations", "withdrawn_at = 1, reason = 'twice', chips = 8"),
        ("reservations", "reason = 'because'"),
        ("commitments", "chips = chips + 1"),
        ("commitments", "contract_nanos = contract_nanos + 1"),
        ("commitments", "contract_nanos = NULL, withdrawn_at = 1"),
        ("commitments", "withdrawn_at = 1, reason = 'twice', end_at = end_at + 1"),
        ("commitments", "reason = 'because'"),
    ],
)
def test_what_was_written_is_never_changed_and_never_deleted(engine, units, table, changed):
    one_row_each(units)
    before = rows_of(engine, table)
    for change in (f"UPDATE {table} SET {changed}", f"DELETE FROM {table}"):
        with pytest.raises(DBAPIError, match="is only added to"), engine.begin() as connection:
            connection.execute(text(change))
    assert len(before) == 1
    assert rows_of(engine, table) == before


@pytest.mark.parametrize("changed", ["withdrawn_at = NULL", "withdrawn_at = 9", "reason = 'else'"])
def test_a_reservation_is_withdrawn_once(engine, units, changed):
    with units() as unit:
        unit.reservations.add(bought())
        assert unit.reservations.withdraw("r", "bought twice", NOON)
    with pytest.raises(DBAPIError, match="withdrawn, once"), engine.begin() as connection:
        connection.execute(text(f"UPDATE reservations SET {changed}"))
    with units.reading() as unit:
        assert unit.reservations.get("r") == bought(withdrawn_at=NOON, reason="bought twice")


@pytest.mark.parametrize("changed", ["withdrawn_at = NULL", "withdrawn_at = 9", "reason = 'else'"])
def test_a_commitment_is_withdrawn_once(engine, units, changed):
    with units() as unit:
        unit.commitments.add(committed())
        assert unit.commitments.withdraw("c", "bought twice", NOON)
    with pytest.raises(DBAPIError, match="withdrawn, once"), engine.begin() as connection:
        connection.execute(text(f"UPDATE commitments SET {changed}"))
    with units.reading() as unit:
        assert unit.commitments.get("c") == committed(withdrawn_at=NOON, reason="bought twice")
        assert unit.commitments.list_standing() == []


@pytest.mark.parametrize(
    ("table", "changed"),
    [
        ("attributions", "rowid"),
        ("attributions", "since"),
        ("commitments", "rowid"),
        ("commitments", "chips"),
        ("usage_versions", "free"),
        ("discounts", "rowid"),
        ("discounts", "number"),
        ("events", "message"),
        ("ledger", "rowid"),
        ("ledger", "key"),
        ("observations", "state"),
        ("prices", "rowid"),
        ("prices", "nanos"),
        ("reservations", "rowid"),
        ("reservations", "chips"),
    ],
)
def test_what_was_written_is_not_replaced_either(engine, units, table, changed):
    """By its key, or by the number that SQLite gives every row: REPLACE is no DELETE to a trigger.
    PostgreSQL knows no such word."""
    one_row_each(units)
    columns = metadata.tables[table].columns
    numbered = table not in (
        "commitments",
        "prices",
        "reservations",
    )  # whose ids are no numbers of rows
    names = [
        column.name
        for column in columns
        if not (numbered and column.primary_key and column.name == "id")
    ]
    names = ["rowid", *names]
    values = [f"{name} + 9" if name == changed else name for name in names]
    statement = (
        f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"
        f" FROM {table}"
    )
    before = rows_of(engine, table)
    assert len(before) == 1
    refused = "is only added to" if engine.dialect.name == "sqlite" else "syntax error"
    with pytest.raises(DBAPIError, match=refused), engine.begin() as connection:
        connection.execute(text(statement))
    assert rows_of(engine, table) == before


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
        shown = unit.node_list.read_one(node.id, given.GivenPrices(), NOON).decode()
        assert '"name":"train"' in shown
        assert '"hourly_cost":"9.600000000"' in shown
        assert unit.nodes.renew_views() == 0


def test_a_node_that_is_changed_while_its_view_is_made_anew_is_shown_as_it_is(
    engine, units, monkeypatch
):
    """On SQLite nobody changes anything meanwhile."""
    if engine.dialect.name == "sqlite":
        return
    node = given.stored(units, name="train")
    changes = [replace(node, state="READY")]
    with engine.begin() as connection:
        connection.execute(text("UPDATE nodes SET view_format = 0"))

    def meanwhile(*args):
        if changes:
            with units() as unit:
                unit.nodes.save(changes.pop())
        return view_of(*args)

    monkeypatch.setattr(store_nodes, "view_of", meanwhile)
    with units() as unit:
        unit.nodes.renew_views()
    with units.reading() as unit:
        assert (
            '"state":"READY"'
            in unit.node_list.read_one(node.id, given.GivenPrices(), NOON).decode()
        )


def test_a_migration_may_take_longer_than_any_other_statement(empty):
    """On PostgreSQL the service gives a statement a minute; a large table may need more."""
    if empty.dialect.name == "sqlite":
        return
    limits = []

    def look(connection):
        limits.append(connection.exec_driver_sql("SHOW statement_timeout").scalar_one())

    event.listen(Engine, "begin", look)
    try:
        migrate(empty)
    finally:
        event.remove(Engine, "begin", look)
    assert limits[0] == "0"


@pytest.mark.deep
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


def test_there_is_one_migration_and_it_is_not_undone(engine):
    config = store_migrate._make_config()
    (only,) = ScriptDirectory.from_config(config).walk_revisions()
    assert only.revision == "0001_initial"
    address = engine.url.render_as_string(hide_password=False).replace("%", "%%")
    config.set_main_option("sqlalchemy.url", address)
    with pytest.raises(NotImplementedError, match="drop the database"):
        command.downgrade(config, "base")
    check_migrated(engine)
