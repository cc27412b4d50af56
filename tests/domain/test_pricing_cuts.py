"""Where running intervals are cut by prices and by discounts, and where they are not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.metering.meter import Meter
from service.domain.pricing.discounts import Discount, find_clash
from service.domain.pricing.price_book import (
    DEVICE_HOUR,
    DiscountedPrice,
    PriceBook,
    Sku,
    check_price,
    with_discount,
)
from tests import factories

V5E = Sku("v5e", "on_demand", "us-west4")
SPOT = replace(V5E, model="spot")
LIST = factories.price()
HALF = Discount("d-1", "v5e", "", 500_000, DAY, 2 * DAY, "our contract")


def test_a_discounted_price_names_the_price_and_the_discount():
    less = with_discount(LIST, HALF)
    assert less.id == "test/0+discount/d-1"
    assert less.source == "a test; less 50 % (our contract)"
    assert (less.nanos, less.listed, less.discount) == (600_000_000, LIST, HALF)
    assert less.effective_from == DAY
    check_price(less)


def test_a_discount_that_was_ended_early_leaves_the_id_of_what_was_charged_until_then():
    ended = replace(HALF, effective_until=DAY + HOUR, recorded_at=DAY + 10)
    assert with_discount(LIST, HALF).id == with_discount(LIST, ended).id


def test_a_device_price_stays_whole_for_each_chip():
    device = factories.price(4_500_000_000, generation="v2", unit=DEVICE_HOUR)
    less = with_discount(device, replace(HALF, ppm=333_333))
    check_price(less)
    assert less.nanos == 4 * less.per_chip_hour == 4 * 750_000_375


def test_a_stretch_is_cut_where_a_discount_begins_and_ends_and_the_list_price_stays_beside_it():
    cuts = PriceBook([LIST], [HALF]).list_cuts(V5E, 0, 3 * DAY)
    assert [(cut.start, cut.end, cut.price and cut.price.nanos) for cut in cuts] == [
        (0, DAY, 1_200_000_000),
        (DAY, 2 * DAY, 600_000_000),
        (2 * DAY, 3 * DAY, 1_200_000_000),
    ]
    assert {cut.listed for cut in cuts} == {LIST}
    assert isinstance(cuts[1].price, DiscountedPrice)


@pytest.mark.parametrize("model", ["spot", "preemptible"])
def test_a_discount_on_spot_is_one_on_preemptible_too(model):
    row = factories.price(400_000_000, model="preemptible")
    book = PriceBook([row], [replace(HALF, model="spot")])
    price = book.find_price(replace(V5E, model=model), DAY)
    assert price is not None
    assert price.nanos == 200_000_000


def test_a_discount_on_other_chips_cuts_nothing():
    book = PriceBook([LIST], [replace(HALF, generation="v6e"), replace(HALF, model="spot")])
    assert len(book.list_cuts(V5E, 0, 3 * DAY)) == 1


def test_a_discount_on_what_has_no_price_makes_none():
    assert PriceBook([], [HALF]).find_price(V5E, DAY) is None


def test_savings_of_spot_are_held_against_the_list_price_without_the_discount():
    spot = factories.price(400_000_000, id="spot", model="spot")
    (cut,) = PriceBook([LIST, spot], [HALF]).list_cuts(SPOT, DAY, 2 * DAY)
    assert cut.price is not None
    assert (cut.price.nanos, cut.listed) == (200_000_000, LIST)


def test_the_list_of_a_day_has_list_prices():
    book = PriceBook([LIST], [HALF])
    assert list(book.in_force(DAY)) == [LIST]
    assert book.paid_price(LIST, DAY) == with_discount(LIST, HALF)
    assert book.paid_price(LIST, 2 * DAY) == LIST


def test_whatever_a_charge_names_as_its_price_is_found_again():
    book = PriceBook([LIST], [HALF])
    assert [book.with_id(cut.price.id) for cut in book.list_cuts(V5E, 0, 2 * DAY) if cut.price] == [
        LIST,
        with_discount(LIST, HALF),
    ]
    assert book.with_id("another") is None
    assert book.with_id(f"{LIST.id}+discount/another") is None


INSTANTS = st.integers(1, 100 * HOUR)


def cost(book, start, end):
    usage = factories.usage(start=start, end=end, end_lo=end, sku=SPOT)
    return Meter(usage, book, end).total_charge()


@settings(max_examples=60, deadline=None)
@given(INSTANTS, INSTANTS, INSTANTS, st.integers(1, 10**10), st.integers(1, 10**10))
def test_a_spot_price_that_changes_in_the_midst_is_as_two_intervals_each_at_its_own(
    start, before, after, old, new
):
    change, end = start + before, start + before + after
    first = factories.price(old, 0, id="old", model="spot")
    second = factories.price(new, change, id="new", model="spot")
    cuts = PriceBook([first, second]).list_cuts(SPOT, start, end)
    assert [(cut.start, cut.end, cut.price) for cut in cuts] == [
        (start, change, first),
        (change, end, second),
    ]
    exact = 8 * (before * old + after * new)
    assert abs(HOUR * cost(PriceBook([first, second]), start, end) - exact) * 2 <= HOUR


@settings(max_examples=60, deadline=None)
@given(INSTANTS, INSTANTS, INSTANTS, st.booleans())
def test_a_change_outside_of_an_interval_changes_nothing_in_it(start, length, gap, later):
    end = start + length
    at = end + gap - 1 if later else 0
    old = factories.price(10**9, 0, id="old", model="spot")
    new = factories.price(2 * 10**9, at, id="new", model="spot", recorded_at=1)
    off = Discount("d", "", "", 1, at, None, "a test")
    plain, other = PriceBook([old]), PriceBook([old, new], [off])
    if later:
        assert other.list_cuts(SPOT, start, end) == plain.list_cuts(SPOT, start, end)
        assert cost(other, start, end) == cost(plain, start, end)
    else:
        assert len(other.list_cuts(SPOT, start, end)) == 1


DISCOUNTS = st.lists(
    st.builds(
        lambda n, model, ppm, start, length: Discount(
            f"d-{n}",
            "",
            model,
            ppm,
            start * HOUR,
            None if length is None else (start + length) * HOUR,
            "a test",
        ),
        st.integers(0, 99),
        st.sampled_from(["", "spot", "on_demand"]),
        st.integers(1, 999_999),
        st.integers(0, 60),
        st.none() | st.integers(0, 30),
    ),
    max_size=6,
    unique_by=lambda one: one.id,
)


@settings(max_examples=80, deadline=None)
@given(DISCOUNTS, st.integers(0, 60 * HOUR), st.integers(0, 40 * HOUR))
def test_every_second_of_a_cut_is_at_its_price_and_neighbours_differ(found, start, length):
    discounts: list[Discount] = []
    for price in found:
        if find_clash(price, discounts) is None:
            discounts.append(price)
    book = PriceBook([factories.price(model="spot"), LIST], discounts)
    cuts = book.list_cuts(SPOT, start, start + length)
    assert sum(cut.end - cut.start for cut in cuts) == length
    for cut in cuts:
        assert book.find_price(SPOT, cut.start) == book.find_price(SPOT, cut.end - 1) == cut.price
        assert cut.listed == LIST
        assert cut.price is not None
        check_price(cut.price)
    assert all(left.price != right.price for left, right in pairwise(cuts))
