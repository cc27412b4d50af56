"""Revisions: what was written is seen in the number, by whoever it was and however."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from service.domain.errors import StaleVersion
from service.domain.metering.meter import Usage
from service.store.engine import make_engine
from service.store.revisions import Revision
from service.store.unit import Units
from tests import factories
from tests.store.given import stored


def now(units: Units) -> Revision:
    with units.reading() as unit:
        return unit.revisions.read_current()


def write_twice(units: Units, usage: Usage) -> None:
    """Write the same new interval twice, which fails."""
    with units() as unit:
        unit.usage.save(usage)
        unit.usage.save(usage)


def test_each_commit_counts_once_and_only_what_it_wrote(units: Units):
    before = now(units)
    node = stored(units)
    made = now(units)
    assert made.books == before.books + 1  # whose it is
    assert made.nodes == before.nodes + 1
    assert made.upkeep == before.upkeep
    with units() as unit:
        unit.usage.save(factories.usage(node_id=node.id))
        unit.usage.save(factories.usage(node_id=node.id, slice=1))
    assert now(units) == made._replace(books=made.books + 1)


def test_what_is_rolled_back_does_not_count(units: Units):
    node, before = stored(units), now(units)
    with pytest.raises(StaleVersion):
        write_twice(units, factories.usage(node_id=node.id))
    assert now(units) == before
    with units() as unit:
        unit.leases.try_to_write()
    assert now(units) == before


def test_another_process_and_plain_sql_count_too(units: Units, engine: Engine):
    node, before = stored(units), now(units)
    other = make_engine(engine.url.render_as_string(hide_password=False))
    with Units(other)() as unit:
        unit.usage.save(factories.usage(node_id=node.id))
    with other.begin() as connection:
        connection.execute(text("UPDATE usage SET chips = 4"))
    other.dispose()
    after = now(units)
    assert after.books == before.books + 2
    assert after.nodes == before.nodes + 1


def test_a_reader_sees_the_number_of_what_it_reads(units: Units):
    """What is written meanwhile is neither in the figures nor in the number."""
    node = stored(units)
    with units.reading() as unit:
        before = unit.revisions.read_current()
        with units() as writer:
            writer.usage.save(factories.usage(node_id=node.id))
        assert unit.usage.list_open() == []
        assert unit.revisions.read_current() == before
    assert now(units) != before


def test_a_transaction_that_writes_has_no_revision(units: Units):
    with units() as unit, pytest.raises(AssertionError):
        unit.revisions.read_current()
