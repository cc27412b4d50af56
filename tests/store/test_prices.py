"""Prices of the feed and discounts in the database, and when the cache makes a new book."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from service.domain.clock import DAY
from service.domain.errors import StaleVersion
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import DiscountedPrice, Sku
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON
from tests.store import given

V5E = Sku("v5e", "on_demand", "us-west4")
OURS = Discount("d-1", "v5e", "on_demand", 125_000, NOON, None, "our contract", NOON)


def entered(units, discount, after=0):
    with units() as unit:
        unit.prices.add_discount(discount, after)


def test_a_price_of_the_feed_is_written_once_whoever_reads_it(units):
    with units() as unit:
        unit.prices.add_from_feed(factories.price())
    with units() as unit:
        unit.prices.add_from_feed(factories.price(recorded_at=5))
        assert unit.prices.list_all() == [factories.price()]


def test_every_price_comes_back_as_it_was_entered(units):
    some = [
        factories.price(nanos, nanos * DAY, confidence="high", recorded_at=nanos + 5)
        for nanos in range(1, 301)
    ]
    with units() as unit:
        for price in some:
            unit.prices.add(price)
    with units.reading() as unit:
        assert {price.id: price for price in unit.prices.list_all()} == {
            price.id: price for price in some
        }


def test_discounts_come_back_in_the_order_in_which_they_were_entered(units):
    later = Discount("a", "", "", 1, NOON, NOON + DAY, "another")
    entered(units, OURS)
    entered(units, later, 1)
    with units.reading() as unit:
        assert unit.prices.list_discounts() == [OURS, later]


def test_of_two_that_are_entered_at_once_the_second_has_to_look_again(units):
    entered(units, OURS)
    with pytest.raises(StaleVersion):
        entered(units, Discount("d-2", "", "", 1, NOON, None, "at the same time"))


@pytest.mark.parametrize("wrong", [{"ppm": 0}, {"ppm": 1_000_000}, {"effective_until": NOON - 1}])
def test_the_database_refuses_what_is_no_discount(units, wrong):
    values = {"ppm": 1, "effective_until": None} | wrong
    with pytest.raises(StaleVersion):
        entered(units, Discount("d", "", "", values["ppm"], NOON, values["effective_until"], "x"))


def test_a_discount_is_in_the_book_at_once_and_so_is_its_early_end(units):
    cache = PriceBookCache()
    with units() as unit:
        before = cache.get_book(unit)
        unit.prices.add_discount(OURS, 0)
        book = cache.get_book(unit)
    listed = before.find_price(V5E, NOON)
    assert listed is not None
    assert listed.nanos == 1_200_000_000
    found = book.find_price(V5E, NOON)
    assert isinstance(found, DiscountedPrice)
    assert found.nanos == 1_050_000_000
    ended = Discount("d-1", "v5e", "on_demand", 125_000, NOON, NOON + 60, "our contract", NOON)
    entered(units, ended, 1)
    with units.reading() as unit:
        after = cache.get_book(unit)
    until_then = after.find_price(V5E, NOON + 59)
    assert until_then is not None
    assert (until_then.id, until_then.nanos) == (found.id, found.nanos)
    assert after.find_price(V5E, NOON + 60) == before.find_price(V5E, NOON)


def test_a_list_of_nodes_shows_what_is_paid_from_the_discount_on(units):
    cache, node = PriceBookCache(), given.stored(units)
    with units.reading() as unit:
        unit.node_list.read_one(node.id, cache, NOON)
        before = cache.last
    entered(units, OURS)
    with units.reading() as unit:
        unit.node_list.read_one(node.id, cache, NOON)
    assert before.discounts == ()
    assert cache.last.discounts == (OURS,)


def test_what_was_negotiated_is_never_changed_and_never_deleted(engine, units):
    entered(units, OURS)
    for change in ("UPDATE discounts SET ppm = 1", "DELETE FROM discounts"):
        with pytest.raises(Exception, match="is only added to"), engine.begin() as connection:
            connection.execute(text(change))
    with units.reading() as unit:
        assert unit.prices.list_discounts() == [OURS]
