"""The price list against the price book: what is added, from when on, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.billing_period import open_since
from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.pricing.discounts import Discount
from service.domain.pricing.feed import find_changes
from service.domain.pricing.price_book import DEVICE_HOUR, PriceBook, Sku, check_price
from service.domain.pricing.skus import SkuQuote
from tests import factories
from tests.hands import NOON

V5E = Sku("v5e", "on_demand", "us-west4")
NOVEMBER = parse_rfc3339("2026-11-01T00:00:00Z")


def quote(nanos=1_500_000_000, effective_at=NOON - 30 * DAY, **changed):
    """The price list's word on v5e on demand in us-west4."""
    return replace(
        SkuQuote(V5E, nanos, effective_at, "S-1", "TpuV5e running in Las Vegas"), **changed
    )


def added(book, *quotes, now=NOON):
    return [change.price for change in find_changes(book, quotes, now)]


def grown(book, *quotes, now=NOON):
    return PriceBook((*book.prices, *added(book, *quotes, now=now)), book.discounts)


def test_what_the_book_already_says_is_not_added():
    assert added(factories.book(), quote(1_200_000_000)) == []


def test_a_price_that_is_in_force_already_counts_since_then_as_far_as_months_are_open():
    (price,) = added(factories.book(), quote())
    assert (price.nanos, price.effective_from, price.recorded_at) == (1_500_000_000, NOVEMBER, NOON)
    (recent,) = added(factories.book(), quote(effective_at=NOON - HOUR))
    assert recent.effective_from == NOON - HOUR
    assert "2026-10-06T12:00:00Z" in price.source
    assert "S-1" in price.source
    assert price.confidence == "catalog"
    check_price(price)


def test_a_price_to_come_counts_from_its_own_instant():
    (price,) = added(factories.book(), quote(effective_at=NOON + DAY))
    assert price.effective_from == NOON + DAY


def test_the_second_reading_adds_nothing_and_neither_does_a_later_one():
    book = grown(factories.book(), quote())
    assert added(book, quote()) == []
    assert added(book, quote(), now=NOON + 90 * DAY) == []


def test_where_nothing_was_known_it_is_dated_back_as_far_as_months_are_open():
    elsewhere = replace(V5E, region="us-east9")
    (price,) = added(factories.book(), quote(sku=elsewhere))
    assert price.effective_from == NOVEMBER
    (recent,) = added(factories.book(), quote(sku=elsewhere, effective_at=NOON - HOUR))
    assert recent.effective_from == NOON - HOUR


def test_where_the_book_has_a_price_that_began_later_it_is_not_dated_back():
    late = factories.price(effective_from=NOON - HOUR)
    (price,) = added(factories.book(late), quote(effective_at=NOON - 2 * HOUR))
    assert price.effective_from == NOON


def test_a_price_entered_by_hand_goes_on_until_the_list_has_a_later_one():
    ours = factories.price(1_100_000_000, NOON - DAY, id="manual/1")
    book = factories.book(factories.price(), ours)
    assert added(book, quote(effective_at=NOON - 2 * DAY)) == []
    assert added(book, quote(effective_at=NOON - DAY)) == []
    (price,) = added(book, quote(effective_at=NOON - DAY + 1))
    assert price.effective_from == NOON - DAY + 1


def test_the_list_is_held_against_the_list_price_and_not_against_what_is_paid():
    half = Discount("d", "", "", 500_000, 0, None, "a test")
    book = PriceBook([factories.price()], [half])
    assert added(book, quote(1_200_000_000)) == []
    assert len(added(book, quote(600_000_000))) == 1


def test_a_price_that_comes_back_by_the_same_word_has_an_id_of_its_own():
    book = grown(factories.book(), quote())
    book = grown(book, quote(1_600_000_000), now=NOON + DAY)
    book = grown(book, quote(), now=NOON + 2 * DAY)
    assert book.find_price(V5E, NOON + 2 * DAY).nanos == 1_500_000_000
    assert len({price.id for price in book.prices}) == len(book.prices) == 4


def test_two_daemons_that_read_at_once_would_write_the_same_row():
    (one,) = added(factories.book(), quote())
    (other,) = added(factories.book(), quote(), now=NOON + 2)
    assert one.id == other.id


def test_a_device_price_goes_to_the_series_of_devices():
    device = Sku("v2", "spot", "us-central1", single_device=True)
    (price,) = added(factories.book(), quote(4_000_000_000, sku=device))
    assert (price.unit, price.model) == (DEVICE_HOUR, "spot")


QUOTES = st.lists(
    st.builds(
        lambda nanos, age, region: quote(
            nanos, NOON - age * HOUR, sku=replace(V5E, region=region), sku_id=region
        ),
        st.integers(1, 5),
        st.integers(-100, 2_000),
        st.sampled_from(["us-west4", "us-east9", "us-central1"]),
    ),
    max_size=3,
    unique_by=lambda one: one.sku,
)


@settings(max_examples=60, deadline=None)
@given(QUOTES, st.lists(st.integers(-1_500, 0), max_size=3, unique=True), st.integers(0, 40))
def test_the_feed_changes_nothing_before_its_price_began_nor_in_a_closed_month(quotes, ages, later):
    known = [factories.price(at + 2_000, NOON + at * HOUR, id=f"p/{at}") for at in ages]
    before, now = PriceBook(known), NOON + later * DAY
    after = grown(before, *quotes, now=now)
    for quote in quotes:
        since, anew = max(quote.effective_at, open_since(now)), set()
        for instant in range(NOON - 2_000 * HOUR, now, 37 * HOUR):
            said = after.find_price(quote.sku, instant)
            if instant < since:
                assert said == before.find_price(quote.sku, instant)
            else:
                anew.add(None if said is None else said.nanos)
        known_since = {before.find_price(quote.sku, at) for at in range(since, now + 1, HOUR)}
        assert anew <= {quote.nanos} or len(known_since) > 1
        assert after.find_price(quote.sku, max(now, quote.effective_at)).nanos == quote.nanos
    assert added(after, *quotes, now=now) == []
