"""The ledger: it comes to the same sums by any way, whoever is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.billing_period import PeriodState, billed_in, period_of
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.metering.ledger import LedgerSlot, desired_entries
from service.domain.metering.meter import Meter
from service.domain.metering.usage import with_first_minute_rule
from service.domain.pricing.price_book import PriceBook
from tests import factories
from tests.domain.account import Account
from tests.domain.drawn import ATTRIBUTIONS, BOOKS, CHIPS, moderate, ran
from tests.hands import NOON


def known_at_once(usage, book, now):
    account = Account()
    account.post(usage, book, now)
    return account.sums()


NOW = NOON + 20 * DAY


@moderate
@given(ran(), BOOKS)
def test_posting_twice_posts_nothing(usage, book):
    account = Account()
    account.post(usage, book, NOW)
    assert account.post(usage, book, NOW) == []


@moderate
@given(ran(), BOOKS, st.lists(st.integers(NOON, NOON + 9 * DAY), max_size=8))
def test_ticks_at_any_times_in_any_order_come_to_the_same_sums(usage, book, ticks):
    account = Account()
    running = replace(usage, end=None)
    for now in ticks:
        account.post(running, book, min(now, usage.end))
        total = sum(amount for amount, *_ in account.sums().values())
        assert total == Meter(running, book, floor_to(min(now, usage.end), HOUR)).total_charge()
    account.post(usage, book, NOW)
    assert account.sums() == known_at_once(usage, book, NOW)


BELIEFS = st.lists(
    st.tuples(
        st.integers(-2 * HOUR, 2 * HOUR),
        st.none() | st.integers(0, 2 * DAY),
        st.sampled_from(["", "", "preempted in its first minute"]),
    ),
    min_size=1,
    max_size=5,
)


@moderate
@given(BELIEFS, st.lists(BOOKS, min_size=1, max_size=3), CHIPS)
def test_however_a_belief_changed_the_ledger_says_what_is_believed_now(beliefs, books, chips):
    account, base = Account(), factories.usage(chips=chips)
    for number, (moved, lasted, free) in enumerate(beliefs):
        start = NOON + moved
        end = None if lasted is None else start + lasted
        usage = replace(base, start=start, start_hi=start, end=end, free=free)
        book = books[number % len(books)]
        account.post(usage, book, NOON + 3 * DAY)
        assert account.sums() == known_at_once(usage, book, NOON + 3 * DAY)
        assert all(amount >= 0 for amount, *_ in account.sums().values())
        assert account.post(usage, book, NOON + 3 * DAY) == []


def test_a_late_end_is_an_adjustment_that_names_the_slot_it_corrects():
    account, usage = Account(), factories.usage()
    first = account.post(usage, factories.book(), NOON + 2 * HOUR)
    assert [entry.number for entry in first] == [0, 0]
    after = account.post(replace(usage, end=NOON + 90), factories.book(), NOON + 3 * HOUR)
    assert [(e.slot.hour, e.number, e.chip_seconds, e.amount) for e in after] == [
        (NOON, 1, -8 * (HOUR - 90), -(9_600_000_000 - 240_000_000)),
        (NOON + HOUR, 1, -8 * HOUR, -9_600_000_000),
    ]
    assert account.sums() == {
        LedgerSlot(NOON, "test/0", 0, 1_200_000_000): (240_000_000, 8 * 90, 240_000_000)
    }


def test_a_preemption_in_the_first_minute_takes_back_what_was_posted():
    account, usage = Account(), factories.usage(end=NOON + 50, end_lo=NOON + 50)
    account.post(usage, factories.book(), NOON + HOUR)
    account.post(with_first_minute_rule(usage, NOON), factories.book(), NOON + HOUR)
    assert account.sums() == {}
    assert sum(entry.amount for entry in account.entries.values()) == 0


def test_seconds_without_a_price_are_said_and_posted_once_a_price_is_known():
    account, usage = Account(), factories.usage(end=NOON + 2 * HOUR)
    half = factories.book(factories.price(effective_from=NOON + HOUR))
    meter = Meter(usage, half, NOW)
    assert meter.unpriced_seconds() == HOUR
    assert meter.total_charge() == 9_600_000_000
    assert [entry.slot.hour for entry in account.post(usage, half, NOW)] == [NOON + HOUR]
    whole = PriceBook([*half.prices, factories.price(1_000_000_000, 0, id="late")])
    assert [(e.slot.hour, e.amount) for e in account.post(usage, whole, NOW)] == [
        (NOON, 8_000_000_000)
    ]
    assert Meter(usage, whole, NOW).unpriced_seconds() == 0


@moderate
@given(ran(), BOOKS)
def test_a_second_is_either_priced_or_said_to_be_unpriced(usage, book):
    meter = Meter(usage, book, NOW)
    wanted = desired_entries(meter, usage.start, usage.end).values()
    priced = sum(entry.chip_seconds for entry in wanted) // usage.chips
    assert priced + meter.unpriced_seconds() == usage.end - usage.start
    cuts = book.list_cuts(usage.sku, usage.start, usage.end)
    prices = [(cut.end - cut.start, cut.price) for cut in cuts if cut.price is not None]
    worth = usage.chips * sum(seconds * price.per_chip_hour for seconds, price in prices)
    assert meter.total_charge() > 0 or worth <= HOUR // 2, "half a nano-dollar is rounded away"


def test_a_retroactive_price_moves_the_amount_from_the_old_price_to_the_new():
    account, usage = Account(), factories.usage(end=NOON + HOUR)
    account.post(usage, factories.book(), NOW)
    corrected = PriceBook([factories.price(), factories.price(1_000_000_000, NOON, id="new")])
    after = account.post(usage, corrected, NOW)
    assert [(e.slot.price_id, e.number, e.amount) for e in after] == [
        ("new", 0, 8_000_000_000),
        ("test/0", 1, -9_600_000_000),
    ]


@moderate
@given(ran(), BOOKS)
def test_the_hours_of_the_ledger_sum_to_the_total(usage, book):
    meter = Meter(usage, book, NOON + 9 * DAY)
    entries = desired_entries(meter, usage.start, meter.end).values()
    assert sum(entry.amount for entry in entries) == meter.total_charge()
    priced = usage.end - usage.start - meter.unpriced_seconds()
    assert sum(entry.chip_seconds for entry in entries) == usage.chips * priced
    for entry in entries:
        assert floor_to(entry.charge_start, HOUR) == entry.slot.hour
        assert entry.charge_start < entry.charge_end <= entry.slot.hour + HOUR


# ---- who is charged


@moderate
@given(ran(), BOOKS, ATTRIBUTIONS)
def test_what_each_is_charged_sums_to_the_whole(usage, book, whose):
    account = Account()
    account.post(usage, book, NOW, whose)
    meter = Meter(usage, book, NOW)
    assert sum(entry.amount for entry in account.entries.values()) == meter.total_charge()
    owned = list(Meter(usage, book, NOW, whose).attributed_parts(usage.start, usage.end))
    assert sum(right - left for left, right, _ in owned) == usage.end - usage.start
    listed = sum(entry.list_amount or 0 for entry in account.entries.values())
    assert listed == meter.list_charge_in(usage.start, usage.end), "on demand is its own list price"


@pytest.mark.deep
@moderate
@given(ran(), BOOKS, ATTRIBUTIONS, st.integers(0, 6 * DAY))
def test_who_is_charged_from_now_on_leaves_the_past_as_it_was(usage, book, whose, after):
    now = max(usage.start + after, whose[-1].since)
    running = replace(usage, end=None)
    account = Account()
    account.post(running, book, now, whose)
    before = dict(account.entries)
    changed = (*whose, replace(whose[-1], since=now + 1, team="perception"))
    account.post(running, book, NOW, changed)
    assert all(entry.slot.since == now + 1 for entry in added(account, before, now))
    assert account.post(running, book, NOW, changed) == []


def added(account, before, now):
    """What was posted since, of the seconds after `now`."""
    return [
        entry
        for key, entry in account.entries.items()
        if key not in before and entry.charge_start > now
    ]


def test_an_hour_that_two_share_is_two_lines_that_sum_to_it():
    whose = (
        factories.attribution(team="vision"),
        factories.attribution(since=NOON + 1_000, team="nlp"),
    )
    account = Account()
    account.post(factories.usage(end=NOON + HOUR), factories.book(), NOW, whose)
    assert [(e.slot.since, e.chip_seconds, e.amount) for e in account.entries.values()] == [
        (0, 8_000, 2_666_666_667),
        (NOON + 1_000, 20_800, 6_933_333_333),
    ]


def test_a_price_that_pauses_within_an_hour_is_one_line_of_that_hour():
    first, second = factories.price(), factories.price(2_000_000_000, NOON + 600, id="raised")
    back = replace(first, effective_from=NOON + 1_200)
    book = PriceBook([first, second, back])
    entries = desired_entries(Meter(factories.usage(end=NOON + HOUR), book, NOW), NOON, NOON + HOUR)
    assert {slot.price_id: entry.chip_seconds for slot, entry in entries.items()} == {
        first.id: 8 * 3_000,
        "raised": 8 * 600,
    }


def test_an_adjustment_names_the_line_that_it_adjusts():
    account, usage = Account(), factories.usage()
    account.post(usage, factories.book(), NOON + 2 * HOUR)
    late = account.post(replace(usage, end=NOON + 90), factories.book(), NOON + 3 * HOUR)
    assert [entry.corrects for entry in late] == [1, 2]


def test_spot_is_held_against_the_list_price_on_demand():
    spot = factories.price(400_000_000, model="spot", id="spot")
    usage = factories.usage(end=NOON + HOUR, sku=replace(factories.usage().sku, model="spot"))
    account = Account()
    account.post(usage, PriceBook([factories.price(), spot]), NOW)
    (entry,) = account.entries.values()
    assert (entry.amount, entry.list_amount) == (3_200_000_000, 9_600_000_000)
    assert (entry.price, entry.slot.list_price) == (400_000_000, 1_200_000_000)


def test_what_has_no_list_price_is_not_called_a_saving():
    spot = factories.price(400_000_000, model="spot", id="spot")
    usage = factories.usage(end=NOON + HOUR, sku=replace(factories.usage().sku, model="spot"))
    account = Account()
    account.post(usage, PriceBook([spot]), NOW)
    (entry,) = account.entries.values()
    assert (entry.amount, entry.list_amount) == (3_200_000_000, None)


# ---- months that are closed


@moderate
@given(BELIEFS, st.lists(BOOKS, min_size=1, max_size=2), st.lists(st.integers(0, 40 * DAY)))
def test_no_later_belief_or_price_changes_the_sum_of_a_month_that_was_closed(beliefs, books, waits):
    """Usage around the end of a month, of which something else is believed again and again."""
    account, base = Account(), factories.usage()
    sums: dict[int, int] = {}
    november, now = period_of(NOON), period_of(NOON).end - 2 * DAY
    for number, (moved, lasted, free) in enumerate(beliefs):
        now += waits[number] if number < len(waits) else 3 * DAY
        start = november.end - DAY + moved
        end = None if lasted is None else start + lasted
        usage = replace(base, start=start, start_hi=start, end=end, free=free)
        for entry in account.post(usage, books[number % len(books)], now):
            month = period_of(entry.slot.hour).start
            billed = billed_in(entry.slot.hour, now)
            month = month if billed is None else billed
            assert period_of(month).state_at(now) is not PeriodState.CLOSED
            sums[month] = sums.get(month, 0) + entry.amount
    assert sum(sums.values()) == sum(entry.amount for entry in account.entries.values())
