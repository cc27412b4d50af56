"""Estimates: what a node would cost before it is asked for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog
from service.domain.clock import DAY, HOUR
from service.domain.pricing.burn import hourly_price
from service.domain.pricing.discounts import Discount
from service.domain.pricing.estimate import list_offers, sku_of
from service.domain.pricing.price_book import CHIP_HOUR, DEVICE_HOUR, PriceBook
from service.domain.pricing.purchases import Purchase
from tests import factories
from tests.hands import NOON

CATALOG = catalog.load_catalog()
V5E = CATALOG.get_accelerator("v5litepod-8")
LATER = factories.book(factories.price(effective_from=NOON))


def test_the_cheapest_place_comes_first_and_the_unpriced_last():
    book = factories.book(
        factories.price(1_200_000_000),
        factories.price(600_000_000, id="spot", model="spot"),
        factories.price(1_100_000_000, id="east", region="us-east1"),
    )
    places = [
        ("europe-west4-b", "on_demand"),
        ("us-west4-a", "on_demand"),
        ("us-east1-c", "on_demand"),
        ("us-west4-a", "spot"),
    ]
    found = list_offers(V5E, places, book, NOON, 1_800)
    assert [(o.zone, o.model, o.hourly, o.cost) for o in found] == [
        ("us-west4-a", "spot", 4_800_000_000, 2_400_000_000),
        ("us-east1-c", "on_demand", 8_800_000_000, 4_400_000_000),
        ("us-west4-a", "on_demand", 9_600_000_000, 4_800_000_000),
        ("europe-west4-b", "on_demand", None, None),
    ]


def test_a_price_that_is_not_known_is_none_and_never_zero():
    (offer,) = list_offers(V5E, [("us-west4-a", "on_demand")], PriceBook(()), NOON, 3_600)
    assert (offer.price, offer.hourly, offer.cost) == (None, None, None)
    assert hourly_price(8, None) is None


def test_the_price_of_the_day_counts():
    book = factories.book(
        factories.price(1_200_000_000), factories.price(1_000_000_000, effective_from=NOON)
    )
    place = [("us-west4-a", "on_demand")]
    assert list_offers(V5E, place, book, NOON - HOUR, 3_600)[0].cost == 9_600_000_000
    assert list_offers(V5E, place, book, NOON, 3_600)[0].cost == 8_000_000_000


def test_every_price_counts_for_the_seconds_in_which_it_is_in_force():
    rise = factories.price(3_000_000_000, id="rise", effective_from=NOON + HOUR)
    less = Discount("d", "v5e", "", 500_000, NOON - DAY, NOON + 600, "our contract")
    book = PriceBook((factories.price(1_200_000_000), rise), (less,))
    (offer,) = list_offers(V5E, [("us-west4-a", "on_demand")], book, NOON, 2 * HOUR)
    assert offer.hourly == 8 * 600_000_000
    assert offer.cost == 8 * (100_000_000 + 1_000_000_000 + 3_000_000_000)
    assert offer.seconds_for(offer.cost) == 2 * HOUR
    assert offer.seconds_for(offer.cost + 8 * 6_000_000_000) == 4 * HOUR
    assert offer.seconds_for(800_000_000) == 600


def test_the_cheapest_is_so_for_the_whole_duration():
    rise = factories.price(3_000_000_000, id="rise", effective_from=NOON + HOUR)
    east = factories.price(1_500_000_000, id="east", region="us-east1")
    book = factories.book(factories.price(1_200_000_000), rise, east)
    places = [("us-west4-a", "on_demand"), ("us-east1-c", "on_demand")]
    assert [offer.zone for offer in list_offers(V5E, places, book, NOON, HOUR)] == [
        "us-west4-a",
        "us-east1-c",
    ]
    assert [offer.zone for offer in list_offers(V5E, places, book, NOON, 2 * HOUR)] == [
        "us-east1-c",
        "us-west4-a",
    ]


def test_a_price_that_is_known_for_a_part_only_is_not_a_cost():
    (offer,) = list_offers(V5E, [("us-west4-a", "on_demand")], LATER, NOON - HOUR, 2 * HOUR)
    assert (offer.hourly, offer.cost, offer.seconds_for(1)) == (None, None, None)


def test_what_is_reserved_ends_with_its_reservation():
    bought = Purchase("r-1", "autumn", "lab", "us-west4-a", "v5e", NOON - DAY, NOON + HOUR)
    calendar = factories.price(600_000_000, model="calendar")
    book = PriceBook((calendar, factories.price(900_000_000, id="s", model="spot")), (), (bought,))
    places = [("us-west4-a", "reserved"), ("us-west4-a", "spot")]
    whole = list_offers(V5E, places, book, NOON, HOUR, "lab")
    assert [(offer.model, offer.cost, offer.seconds) for offer in whole] == [
        ("reserved", 4_800_000_000, HOUR),
        ("spot", 7_200_000_000, HOUR),
    ]
    longer = list_offers(V5E, places, book, NOON, 4 * HOUR, "lab")
    assert [(offer.model, offer.cost, offer.seconds) for offer in longer] == [
        ("spot", 28_800_000_000, 4 * HOUR),
        ("reserved", 4_800_000_000, HOUR),
    ]
    assert longer[1].seconds_for(10**12) == HOUR


@given(st.integers(1, 10**11), st.integers(0, 10**8))
def test_a_duration_is_rounded_once(nanos, seconds):
    place = [("us-west4-a", "on_demand")]
    (offer,) = list_offers(V5E, place, factories.book(factories.price(nanos)), NOON, seconds)
    assert offer.cost == round(Fraction(8 * nanos * seconds, 3_600))


@pytest.mark.parametrize(
    ("name", "unit"),
    [("v2-8", DEVICE_HOUR), ("v2-32", CHIP_HOUR), ("v3-8", DEVICE_HOUR), ("v6e-8", CHIP_HOUR)],
)
def test_the_hardware_says_which_price_list_applies(name, unit):
    sku = sku_of(CATALOG.get_accelerator(name), "spot", "us-central1-b")
    assert (sku.region, sku.model, sku.unit) == ("us-central1", "spot", unit)
