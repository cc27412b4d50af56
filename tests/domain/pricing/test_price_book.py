"""Prices: which one is in force, where, and since when."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.catalog.catalog import load_catalog
from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.metering.meter import Meter
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import (
    CHIP_HOUR,
    CHIPS_PER_DEVICE,
    DEVICE_HOUR,
    VM_HOUR,
    Price,
    PriceBook,
    Sku,
    check_price,
    group_of,
    row_of,
    with_discount,
    with_reservation,
    without_reservation,
)
from service.domain.pricing.purchases import Purchase
from service.domain.pricing.shipped_prices import embedded_prices
from tests import factories
from tests.hands import NOON

SHIPPED = PriceBook(embedded_prices())
NEW_YEAR_2019 = parse_rfc3339("2019-01-01T00:00:00Z")
TODAY = parse_rfc3339("2026-11-05T12:00:00Z")
V5E = Sku("v5e", "on_demand", "us-west4")


def device(name, model, zone_region):
    generation = name.split("-")[0]
    return Sku(generation, model, zone_region, single_device=True)


def dollars_per_device(price):
    return None if price is None else price.per_chip_hour * CHIPS_PER_DEVICE


@pytest.mark.parametrize(
    ("name", "model", "region", "nanos"),
    [
        ("v2-8", "on_demand", "us-central1", 4_500_000_000),
        ("v2-8", "on_demand", "us-west1", 4_500_000_000),
        ("v2-8", "on_demand", "europe-west4", 4_950_000_000),
        ("v2-8", "on_demand", "asia-east1", 5_220_000_000),
        ("v2-8", "on_demand", "australia-southeast1", 5_220_000_000),
        ("v2-8", "preemptible", "us-central1", 1_350_000_000),
        ("v2-8", "preemptible", "europe-west4", 1_485_000_000),
        ("v2-8", "preemptible", "asia-east1", 1_566_000_000),
        ("v3-8", "on_demand", "us-central1", 8_000_000_000),
    ],
)
def test_the_device_prices_of_2019_are_known_exactly(name, model, region, nanos):
    assert (
        dollars_per_device(SHIPPED.find_price(device(name, model, region), NEW_YEAR_2019)) == nanos
    )


@pytest.mark.parametrize(
    ("model", "region", "seconds", "nanos"),
    [
        ("on_demand", "us-central1", 3_601, 4_501_250_000),
        ("on_demand", "us-central1", 1, 1_250_000),
        ("on_demand", "us-central1", 3_600, 4_500_000_000),
        ("preemptible", "us-central1", 3_601, 1_350_375_000),
        ("on_demand", "europe-west4", 3_601, 4_951_375_000),
        ("preemptible", "europe-west4", 3_600, 1_485_000_000),
        ("on_demand", "asia-east1", 86_400, 125_280_000_000),
        ("preemptible", "asia-east1", 7_200, 3_132_000_000),
    ],
)
def test_a_v2_8_of_2019_costs_what_the_price_list_said_to_the_second(model, region, seconds, nanos):
    ran = factories.usage(
        sku=device("v2-8", model, region),
        chips=load_catalog().get_accelerator("v2-8").chips,
        start=NEW_YEAR_2019,
        end=NEW_YEAR_2019 + seconds,
    )
    assert Meter(ran, SHIPPED, TODAY).total_charge() == nanos


def test_slices_of_2019_have_a_price_list_of_their_own_that_is_not_known():
    assert SHIPPED.find_price(Sku("v2", "on_demand", "us-central1"), NEW_YEAR_2019) is None
    assert SHIPPED.find_price(device("v2-8", "on_demand", "us-central1"), NEW_YEAR_2019) is not None


@pytest.mark.parametrize("generation", ["v2", "v3"])
def test_v2_and_v3_are_priced_by_the_device_on_one_host_and_by_the_chip_in_a_pod(generation):
    single = SHIPPED.find_price(
        Sku(generation, "on_demand", "us-central1", single_device=True), TODAY
    )
    pod = SHIPPED.find_price(Sku(generation, "on_demand", "us-central1"), TODAY)
    assert single is not None
    assert pod is not None
    assert (single.unit, pod.unit) == (DEVICE_HOUR, CHIP_HOUR)
    assert single.per_chip_hour * CHIPS_PER_DEVICE == single.nanos
    assert pod.per_chip_hour == pod.nanos


@pytest.mark.parametrize("generation", ["v4", "v5e", "v5p", "v6e"])
def test_later_generations_have_one_price_list(generation):
    one_host = Sku(generation, "on_demand", "us-central1", single_device=True)
    assert one_host.unit == CHIP_HOUR
    many = replace(one_host, single_device=False)
    assert SHIPPED.find_price(one_host, TODAY) == SHIPPED.find_price(many, TODAY)


@pytest.mark.parametrize("region", ["us-central1", "europe-west4", "asia-east1"])
@pytest.mark.parametrize("instant", [NEW_YEAR_2019, TODAY])
def test_spot_and_preemptible_are_one_series_of_prices(region, instant):
    spot = SHIPPED.find_price(device("v2-8", "spot", region), instant)
    assert spot is not None
    assert spot == SHIPPED.find_price(device("v2-8", "preemptible", region), instant)


def test_a_preemptible_node_pays_the_spot_price_of_the_day_and_back():
    old = factories.price(400_000_000, 0, id="old", model="preemptible")
    new = factories.price(300_000_000, DAY, id="new", model="spot")
    book = factories.book(old, new)
    for model in ("spot", "preemptible"):
        sku = Sku("v5e", model, "us-west4")
        assert [book.find_price(sku, t) for t in (0, DAY - 1, DAY)] == [old, old, new]


@pytest.mark.parametrize(
    ("region", "group"),
    [
        ("us-central1", "us"),
        ("us-south1", "us"),
        ("europe-west4", "europe"),
        ("asia-east1", "asia-pacific"),
        ("australia-southeast1", "asia-pacific"),
        ("southamerica-east1", ""),
        ("northamerica-northeast1", ""),
        ("me-west1", ""),
        ("", ""),
    ],
)
def test_the_old_price_lists_spoke_of_groups_of_regions(region, group):
    assert group_of(region) == group


def test_a_regions_own_price_goes_before_its_groups_once_there_is_one():
    group = factories.price(1_000_000_000, 0, id="group", region="us")
    own = factories.price(900_000_000, DAY, id="own")
    later = factories.price(1_100_000_000, 2 * DAY, id="later", region="us")
    book = factories.book(group, own, later)
    assert [book.find_price(V5E, t) for t in (0, DAY - 1, DAY, 3 * DAY)] == [group, group, own, own]
    assert book.find_price(replace(V5E, region="us-east1"), 3 * DAY) == later
    assert book.find_price(replace(V5E, region="europe-west4"), 3 * DAY) is None


def test_no_price_is_known_before_the_first():
    book = factories.book(factories.price(1, DAY))
    assert book.find_price(V5E, DAY - 1) is None
    assert book.find_price(V5E, DAY) is not None


def test_of_two_prices_from_the_same_instant_the_one_that_was_entered_last_counts():
    shipped = factories.price(1_000, 0, id="shipped")
    entered = factories.price(2_000, 0, id="entered", recorded_at=5)
    again = factories.price(3_000, 0, id="again", recorded_at=9)
    for order in ((shipped, entered, again), (again, entered, shipped)):
        assert factories.book(*order).find_price(V5E, 0) == again


def test_a_stretch_is_cut_where_the_price_changes():
    first = factories.price(1_000, DAY, id="first")
    second = factories.price(2_000, 2 * DAY, id="second")
    cuts = factories.book(first, second).list_cuts(V5E, 0, 3 * DAY)
    assert [(c.start, c.end, c.price) for c in cuts] == [
        (0, DAY, None),
        (DAY, 2 * DAY, first),
        (2 * DAY, 3 * DAY, second),
    ]


def test_a_new_price_of_the_group_cuts_nothing_where_the_region_has_its_own():
    book = factories.book(
        factories.price(1_000, 0), factories.price(2_000, DAY, id="group", region="us")
    )
    assert len(book.list_cuts(V5E, 0, 2 * DAY)) == 1


def test_an_empty_stretch_has_no_cuts():
    assert factories.book().list_cuts(V5E, DAY, DAY) == ()


PRICES = st.lists(
    st.builds(
        lambda hours, nanos, region, at: factories.price(
            nanos, hours * HOUR, id=f"{region}/{hours}/{at}", region=region, recorded_at=at
        ),
        st.integers(0, 60),
        st.integers(1, 10**10),
        st.sampled_from(["us-west4", "us", "us-east1"]),
        st.integers(0, 3),
    ),
    max_size=8,
    unique_by=lambda price: price.id,
)


@settings(max_examples=80, deadline=None)
@given(PRICES, st.integers(0, 60 * HOUR), st.integers(0, 60 * HOUR))
def test_the_cuts_cover_the_stretch_each_at_the_price_in_force(prices, start, length):
    book = PriceBook(prices)
    cuts = book.list_cuts(V5E, start, start + length)
    assert sum(cut.end - cut.start for cut in cuts) == length
    assert all(left.end == right.start for left, right in pairwise(cuts))
    assert all(left.price != right.price for left, right in pairwise(cuts))
    for cut in cuts:
        assert cut.start < cut.end
        assert book.find_price(V5E, cut.start) == book.find_price(V5E, cut.end - 1) == cut.price


@settings(max_examples=40, deadline=None)
@given(PRICES, st.randoms(use_true_random=False), st.integers(0, 70 * HOUR))
def test_the_order_in_which_prices_are_read_does_not_matter(prices, random, instant):
    shuffled = list(prices)
    random.shuffle(shuffled)
    assert PriceBook(shuffled).find_price(V5E, instant) == PriceBook(prices).find_price(
        V5E, instant
    )


def test_the_price_list_of_a_day_names_one_price_for_each_of_its_series():
    old, new = factories.price(1_000, 0, id="old"), factories.price(2_000, DAY, id="new")
    east = factories.price(3_000, DAY, id="east", region="us-east1")
    book = factories.book(new, east, old)
    assert list(book.in_force(DAY - 1)) == [old]
    assert set(book.in_force(DAY)) == {new, east}


def test_what_a_price_is_the_price_of_has_its_own_cuts():
    row = factories.price(4_000, 0, generation="v2", unit=DEVICE_HOUR, id="device")
    chip = factories.price(900, 0, generation="v2", id="chip")
    (cut,) = factories.book(row, chip).cuts_of(row, 0, DAY)
    assert cut.price == row


@pytest.mark.parametrize("price", embedded_prices(), ids=lambda price: price.id)
def test_every_price_that_ships_is_one_that_can_be(price):
    check_price(price)
    assert price.source
    assert price.confidence
    assert price.generation in load_catalog().generations or price.unit == VM_HOUR
    assert price.effective_from % DAY == 0


def test_the_prices_that_ship_have_ids_of_their_own_and_no_two_speak_of_the_same_instant():
    prices = embedded_prices()
    assert len({price.id for price in prices}) == len(prices)
    spoken = Counter(
        (p.generation, p.model.replace("preemptible", "spot"), p.unit, p.region, p.effective_from)
        for p in prices
    )
    assert [key for key, times in spoken.items() if times > 1] == []


@pytest.mark.parametrize("one", load_catalog().list_served(), ids=lambda one: one.name)
def test_whatever_the_api_serves_has_a_price_today_in_some_place(one):
    book = SHIPPED
    regions = {zone.rpartition("-")[0] for zone in load_catalog().zones_for(one)}
    skus = [Sku(one.generation, "on_demand", region, one.single_host) for region in regions]
    assert any(book.find_price(sku, TODAY) for sku in skus)


@pytest.mark.parametrize(
    "changes",
    [
        {"nanos": 0},
        {"nanos": -1},
        {"unit": "core_hour"},
        {"unit": DEVICE_HOUR},
        {"unit": DEVICE_HOUR, "generation": "v2", "nanos": 4_500_000_001},
    ],
)
def test_a_price_that_cannot_be_right_is_refused(changes):
    with pytest.raises(ValueError, match="price"):
        check_price(replace(factories.price(), **changes))


def test_a_device_price_is_known_exactly_for_each_chip():
    price = Price("x", "v3", "on_demand", DEVICE_HOUR, "us", 8_000_000_000, 0, "a test")
    check_price(price)
    assert price.per_chip_hour == 2_000_000_000


def test_of_two_prices_entered_within_a_second_the_same_one_counts_in_whatever_order_they_come():
    first = factories.price(1, NOON, id="manual/1", recorded_at=NOON)
    second = factories.price(2, NOON, id="manual/2", recorded_at=NOON)
    sku = Sku("v5e", "on_demand", "us-west4")
    for rows in ([first, second], [second, first]):
        assert PriceBook(rows).find_price(sku, NOON) == second


def test_whatever_is_taken_off_or_bought_a_price_is_a_row_of_the_list():
    listed = factories.price()
    less = with_discount(listed, Discount("d-1", "v5e", "", 125_000, NOON, None, "our contract"))
    bought = Purchase("r-1", "autumn", "lab", "us-west4-a", "v5e", NOON, NOON + 86_400)
    paid = with_reservation(less, bought)
    assert without_reservation(paid) == less
    assert row_of(paid) == row_of(less) == row_of(listed) == listed
