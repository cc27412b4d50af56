"""What the judge of the price list demands of a daemon, and the time that it leaves for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine

from service.controllers.prices import PricesController
from service.domain.clock import DAY
from service.emulator.app import build_world
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.databases import fresh_database
from tests.simulation.catalogue import (
    DUE_SECONDS,
    PRICES_SECONDS,
    READ_SECONDS,
    Catalogue,
    CatalogueUnits,
)
from tests.simulation.clock import Agenda, set_databases_clock
from tests.simulation.crash_points import CrashPoints
from tests.simulation.invariants import Violation
from tests.simulation.rates import drawn
from tests.simulation.replica import PROJECT


class Reader:
    """The part of a daemon that reads the list, and a list that changes once that has read it."""

    def __init__(self, engine: Engine) -> None:
        self.agenda = Agenda()
        set_databases_clock(engine, self.agenda)
        world = build_world(seed=1, clock=lambda: self.agenda.now)
        self.catalogue = Catalogue(self.agenda, world, Random(1), 60.0, [])
        seams = CrashPoints(self.agenda, Random(1), drawn(Random(1)), calm=True)
        units, feed = CatalogueUnits(engine, seams, self.catalogue), self.catalogue.feed(seams)
        now = self.agenda.seconds
        self.prices = PricesController(units, feed, PriceBookCache(), now, PRICES_SECONDS)
        with Units(engine)() as unit:
            lease = unit.leases.take(PROJECT, "reader", DAY)
        assert lease is not None
        self.lease = lease
        self.prices.tick(self.lease)
        self.catalogue.begin(0.1)
        self.agenda.pass_(360)

    def keep_reading(self) -> None:
        self.prices.tick(self.lease)
        self.agenda.after(DUE_SECONDS, self.keep_reading)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        yield Reader(engine)
        engine.dispose()


def test_a_price_that_changed_after_the_last_read_is_unread_until_the_next(reader):
    reader.keep_reading()
    assert "was published" in reader.catalogue.find_unread()
    reader.agenda.pass_(READ_SECONDS)
    reader.catalogue.at_rest()


def test_a_price_that_nobody_reads_is_a_violation(reader):
    reader.agenda.pass_(READ_SECONDS)
    with pytest.raises(Violation, match="was published"):
        reader.catalogue.at_rest()
