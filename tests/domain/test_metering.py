"""Metering: whole seconds, one rounding, and a ledger that comes to the same sums by any way."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR, floor_to, parse_rfc3339
from service.domain.metering import (
    CLOCK_TOLERANCE,
    FREE_IF_PREEMPTED_WITHIN,
    Entry,
    Evidence,
    Meter,
    Posted,
    begin,
    closed,
    desired_entries,
    entries_to_post,
    finish,
    forgiven,
    is_billable,
)
from service.domain.node import NodeState
from service.domain.pricing import PriceBook
from service.domain.window import Granularity, Window, buckets
from tests import factories
from tests.hands import NOON

OPERATION, OBSERVED = Evidence.OPERATION, Evidence.OBSERVED
moderate = settings(max_examples=60, deadline=None)

# ---- what is drawn

STARTS = st.integers(NOON, NOON + 3 * DAY)
SPANS = st.integers(0, 5 * DAY)
CHIPS = st.sampled_from([1, 4, 8, 16, 256, 8_960])
NANOS = st.integers(1, 12_000_000_000)
CHANGES = st.dictionaries(st.integers(NOON - DAY, NOON + 8 * DAY), NANOS, max_size=5)


def book_of(own, groups):
    """Prices by the instant from which they hold, of the region itself and of its group."""
    rows = [factories.price(nanos, at, id=f"own/{at}") for at, nanos in own.items()]
    rows += [
        factories.price(nanos, at, id=f"group/{at}", region="us") for at, nanos in groups.items()
    ]
    return PriceBook(rows)


BOOKS = st.builds(book_of, CHANGES, CHANGES)


@st.composite
def ran(draw):
    start = draw(STARTS)
    return factories.usage(chips=draw(CHIPS), start=start, end=start + draw(SPANS))


def exact(usage, book, start, end):
    """The cost as it would be written on paper: chips x hours x price, with no rounding at all."""
    start, end = max(start, usage.start), min(end, usage.end)
    edges = {start, end, *(p.effective_from for p in book.prices)}
    total = Fraction(0)
    for left, right in pairwise(sorted(edge for edge in edges if start <= edge <= end)):
        rows = [p for p in book.prices if p.effective_from <= left]
        best = max(rows, key=lambda p: (p.region != "us", p.effective_from), default=None)
        if best is not None:
            total += Fraction(usage.chips * (right - left) * best.nanos, HOUR)
    return total


# ---- one rounding


@moderate
@given(ran(), BOOKS, st.lists(st.integers(NOON - DAY, NOON + 9 * DAY), max_size=30))
def test_every_partition_of_time_sums_to_the_one_rounded_total(usage, book, instants):
    meter = Meter(usage, book, NOON + 9 * DAY)
    edges = sorted({usage.start, usage.end, *instants})
    parts = [meter.charge(left, right) for left, right in pairwise(edges)]
    assert sum(parts) == meter.total() == round(exact(usage, book, usage.start, usage.end))
    assert all(part >= 0 for part in parts)


@moderate
@given(
    ran(),
    BOOKS,
    st.sampled_from(sorted(available_timezones())),
    st.sampled_from(list(Granularity)),
)
def test_the_calendar_of_any_time_zone_sums_to_the_same_total(usage, book, name, step):
    meter = Meter(usage, book, NOON + 9 * DAY)
    covered = buckets(Window(NOON - DAY, NOON + 9 * DAY), step, ZoneInfo(name))
    assert sum(meter.charge(one.start, one.end) for one in covered) == meter.total()


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Europe/Berlin", "2026-10-25T00:00:00Z"),
        ("America/New_York", "2026-03-08T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
        ("Asia/Kolkata", "2026-11-05T00:00:00Z"),
        ("Pacific/Apia", "2011-12-30T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("step", list(Granularity))
def test_days_that_are_short_long_or_missing_lose_no_nano(zone, around, step):
    start = parse_rfc3339(around) - 3 * DAY + 1_234
    usage = factories.usage(chips=7, start=start, end=start + 5 * DAY + 4_321)
    meter = Meter(usage, factories.book(factories.price(1_199_999_999)), start + 9 * DAY)
    covered = buckets(Window(start - DAY, start + 9 * DAY), step, ZoneInfo(zone))
    assert sum(meter.charge(one.start, one.end) for one in covered) == meter.total()


@moderate
@given(ran(), BOOKS)
def test_the_hours_of_the_ledger_sum_to_the_total(usage, book):
    meter = Meter(usage, book, NOON + 9 * DAY)
    entries = desired_entries(meter, usage.start, meter.end).values()
    assert sum(entry.amount for entry in entries) == meter.total()
    priced = usage.end - usage.start - meter.unpriced_seconds()
    assert sum(entry.chip_seconds for entry in entries) == usage.chips * priced
    for entry in entries:
        assert floor_to(entry.charge_start, HOUR) == entry.hour
        assert entry.charge_start < entry.charge_end <= entry.hour + HOUR


@moderate
@given(ran(), NANOS, NANOS, st.integers(0, 5 * DAY))
def test_a_price_cut_leaves_the_seconds_before_it_as_they_were(usage, before, after, lasted):
    at = min(usage.start + lasted, usage.end)
    old, new = factories.price(before), factories.price(after, at, id="new")
    whole = Meter(usage, PriceBook([old, new]), NOON + 9 * DAY)
    left = Meter(replace(usage, end=at), PriceBook([old]), NOON + 9 * DAY)
    right = Meter(replace(usage, start=at), PriceBook([new]), NOON + 9 * DAY)
    assert whole.charge(usage.start, at) == left.total()
    assert abs(whole.charge(at, usage.end) - right.total()) <= 1  # two roundings instead of one


@moderate
@given(ran(), BOOKS, NANOS, st.integers(0, 10 * DAY))
def test_a_price_outside_the_interval_changes_nothing(usage, book, nanos, distance):
    later = factories.price(nanos, usage.end + distance, id="later")
    elsewhere = factories.price(nanos, usage.start, id="elsewhere", region="us-east1")
    other = PriceBook([*book.prices, later, elsewhere])
    assert (
        Meter(usage, other, NOON + 99 * DAY).total() == Meter(usage, book, NOON + 99 * DAY).total()
    )


@moderate
@given(ran(), BOOKS, st.integers(0, DAY), st.integers(0, 64), st.integers(0, 10**9))
def test_more_time_more_chips_or_a_higher_price_never_cost_less(usage, book, longer, chips, dearer):
    def cost(usage, book):
        return Meter(usage, book, NOON + 99 * DAY).total()

    raised = PriceBook([replace(price, nanos=price.nanos + dearer) for price in book.prices])
    base = cost(usage, book)
    assert base >= 0
    assert cost(replace(usage, end=usage.end + longer), book) >= base
    assert cost(replace(usage, chips=usage.chips + chips), book) >= base
    assert cost(usage, raised) >= base


def test_no_time_costs_nothing():
    meter = Meter(factories.usage(end=NOON), factories.book(), NOON + DAY)
    assert (meter.total(), meter.unpriced_seconds(), list(meter.slots(NOON, NOON))) == (0, 0, [])


def test_a_month_of_the_largest_pod_fits_into_the_ledger():
    usage = factories.usage(chips=8_960, end=NOON + 31 * DAY)
    total = Meter(usage, factories.book(factories.price(4_200_000_000)), NOON + 99 * DAY).total()
    assert total == 8_960 * 31 * 24 * 4_200_000_000
    assert total < 2**63


# ---- running, ended, uncertain


@pytest.mark.parametrize("state", [*NodeState, "STATE_99", ""])
def test_ready_alone_is_billed(state):
    assert is_billable(state) is (state == "READY")


@pytest.mark.parametrize(
    ("end", "now", "until"),
    [
        (None, NOON + 10, NOON + 10),
        (None, NOON - 10, NOON),
        (NOON + 5, NOON + 10, NOON + 5),
        (NOON + 50, NOON + 10, NOON + 10),
        (NOON + 50, NOON - 10, NOON),
    ],
)
def test_usage_is_counted_up_to_now_and_never_beyond_its_end(end, now, until):
    assert factories.usage(end=end).until(now) == until


def test_what_runs_costs_more_by_the_second():
    running = factories.usage()
    costs = [Meter(running, factories.book(), NOON + s).total() for s in (0, 1, 2, 3_600)]
    assert costs == [0, 2_666_667, 5_333_333, 9_600_000_000]


def test_both_uncertain_ends_are_charged_and_said():
    usage = factories.usage(
        start=NOON, start_hi=NOON + 15, end=NOON + HOUR, end_lo=NOON + HOUR - 30
    )
    meter = Meter(usage, factories.book(), NOON + DAY)
    assert usage.uncertain_seconds == 45
    assert meter.uncertainty() == 45 * 8 * 1_200_000_000 // HOUR
    assert meter.total() == 9_600_000_000


def test_an_exact_interval_has_no_uncertainty():
    usage = factories.usage(end=NOON + HOUR, end_lo=NOON + HOUR)
    assert (usage.uncertain_seconds, Meter(usage, factories.book(), NOON + DAY).uncertainty()) == (
        0,
        0,
    )


@moderate
@given(ran(), BOOKS, st.integers(0, 6 * DAY), st.integers(0, 6 * DAY), st.integers(0, 6 * DAY))
def test_what_is_uncertain_is_never_more_than_what_is_charged(usage, book, late, early, passed):
    """Even where both ends are so uncertain that nothing in between is sure."""
    usage = replace(
        usage,
        start_hi=min(usage.start + late, usage.end),
        end_lo=max(usage.end - early, usage.start),
    )
    meter = Meter(usage, book, usage.start + passed)
    assert 0 <= meter.uncertainty() <= meter.total()
    assert 0 <= usage.uncertain_seconds <= usage.end - usage.start


# ---- evidence


@pytest.mark.parametrize(
    ("seen_before", "first_ready", "operation_ended", "expected"),
    [
        (100, 115, 107, (107, 107, OPERATION)),
        (100, 115, 100, (100, 100, OPERATION)),
        (100, 115, 115, (115, 115, OPERATION)),
        (100, 115, 100 - CLOCK_TOLERANCE, (95, 95, OPERATION)),
        (100, 115, 115 + CLOCK_TOLERANCE, (120, 120, OPERATION)),
        (100, 115, 94, (100, 115, OBSERVED)),
        (100, 115, 121, (100, 115, OBSERVED)),
        (100, 115, None, (100, 115, OBSERVED)),
        (100, 100, None, (100, 100, OBSERVED)),
        (115, 100, None, (100, 100, OBSERVED)),
    ],
)
def test_usage_begins_where_the_operation_ended_or_between_two_looks(
    seen_before, first_ready, operation_ended, expected
):
    assert begin(seen_before, first_ready, operation_ended) == expected


@pytest.mark.parametrize(
    ("last_ready", "first_gone", "operation_created", "expected"),
    [
        (100, 115, 107, (107, 107, OPERATION)),
        (100, 115, 96, (96, 96, OPERATION)),
        (100, 115, 94, (100, 115, OBSERVED)),
        (100, 115, 121, (100, 115, OBSERVED)),
        (100, 115, None, (100, 115, OBSERVED)),
        (115, 100, None, (100, 100, OBSERVED)),
    ],
)
def test_usage_ends_where_the_operation_was_accepted_or_at_the_later_look(
    last_ready, first_gone, operation_created, expected
):
    assert finish(last_ready, first_gone, operation_created) == expected


@pytest.mark.parametrize(
    ("end_lo", "end", "expected"),
    [
        (NOON + 5, NOON + 9, (NOON + 5, NOON + 9)),
        (NOON - 5, NOON + 9, (NOON, NOON + 9)),
        (NOON - 5, NOON - 1, (NOON, NOON)),
        (NOON + 9, NOON + 5, (NOON + 5, NOON + 5)),
    ],
)
def test_an_end_before_the_start_leaves_nothing_to_charge(end_lo, end, expected):
    after = closed(factories.usage(), end_lo, end, OBSERVED)
    assert (after.end_lo, after.end) == expected
    assert after.dirty


@pytest.mark.parametrize(
    ("lived", "free"),
    [
        (0, True),
        (FREE_IF_PREEMPTED_WITHIN - 1, True),
        (FREE_IF_PREEMPTED_WITHIN, False),
        (HOUR, False),
    ],
)
def test_preempted_in_the_first_minute_after_its_creation_costs_nothing(lived, free):
    usage = factories.usage(end=NOON + lived, end_lo=NOON + lived)
    after = forgiven(usage, created_at=NOON)
    assert bool(after.free) is free
    assert (Meter(after, factories.book(), NOON + DAY).total() == 0) is (free or lived == 0)


def test_a_preemption_that_was_seen_too_late_to_tell_is_charged_and_wholly_uncertain():
    usage = closed(factories.usage(start=NOON + 20), NOON + 40, NOON + 90, OBSERVED)
    after = forgiven(usage, created_at=NOON)
    meter = Meter(after, factories.book(), NOON + DAY)
    assert meter.uncertainty() == meter.total() == 186_666_667
    assert (after.free, after.uncertain_seconds) == ("", 70)


@pytest.mark.parametrize(
    ("usage", "created_at"),
    [(factories.usage(), NOON), (factories.usage(end=NOON + 5, end_lo=NOON + 5), None)],
)
def test_nothing_is_forgiven_on_a_guess(usage, created_at):
    assert forgiven(usage, created_at) == usage


# ---- the ledger


class Account:
    """A ledger in memory, which refuses the same key twice as the database does."""

    def __init__(self):
        self.entries: dict[str, Entry] = {}

    def post(self, usage, book, now):
        until = max(floor_to(now, HOUR), usage.start) if usage.end is None else usage.end
        meter = Meter(usage, book, until)
        wanted = desired_entries(meter, usage.start, meter.end)
        added = list(entries_to_post(usage.id, wanted, self.posted()))
        for entry in added:
            assert entry.key not in self.entries
            self.entries[entry.key] = entry
        return added

    def posted(self):
        slots: dict[tuple[int, str], list[Entry]] = {}
        for entry in self.entries.values():
            slots.setdefault((entry.hour, entry.price_id), []).append(entry)
        return {
            slot: Posted(
                count=len(lines),
                chip_seconds=sum(line.chip_seconds for line in lines),
                amount=sum(line.amount for line in lines),
                price=lines[0].price,
                charge_start=min(line.charge_start for line in lines),
                charge_end=max(line.charge_end for line in lines),
            )
            for slot, lines in slots.items()
        }

    def sums(self):
        """What each slot comes to; slots that were taken back altogether do not count."""
        return {
            slot: (posted.amount, posted.chip_seconds)
            for slot, posted in self.posted().items()
            if posted.amount or posted.chip_seconds
        }


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
        total = sum(amount for amount, _ in account.sums().values())
        assert total == Meter(running, book, floor_to(min(now, usage.end), HOUR)).total()
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
        assert all(amount >= 0 for amount, _ in account.sums().values())
        assert account.post(usage, book, NOON + 3 * DAY) == []


def test_a_late_end_is_an_adjustment_that_names_the_slot_it_corrects():
    account, usage = Account(), factories.usage()
    first = account.post(usage, factories.book(), NOON + 2 * HOUR)
    assert [entry.number for entry in first] == [0, 0]
    after = account.post(replace(usage, end=NOON + 90), factories.book(), NOON + 3 * HOUR)
    assert [(e.hour, e.number, e.chip_seconds, e.amount) for e in after] == [
        (NOON, 1, -8 * (HOUR - 90), -(9_600_000_000 - 240_000_000)),
        (NOON + HOUR, 1, -8 * HOUR, -9_600_000_000),
    ]
    assert account.sums() == {(NOON, "test/0"): (240_000_000, 8 * 90)}


def test_a_preemption_in_the_first_minute_takes_back_what_was_posted():
    account, usage = Account(), factories.usage(end=NOON + 50, end_lo=NOON + 50)
    account.post(usage, factories.book(), NOON + HOUR)
    account.post(forgiven(usage, NOON), factories.book(), NOON + HOUR)
    assert account.sums() == {}
    assert sum(entry.amount for entry in account.entries.values()) == 0


def test_seconds_without_a_price_are_said_and_posted_once_a_price_is_known():
    account, usage = Account(), factories.usage(end=NOON + 2 * HOUR)
    half = factories.book(factories.price(effective_from=NOON + HOUR))
    meter = Meter(usage, half, NOW)
    assert meter.unpriced_seconds() == HOUR
    assert meter.total() == 9_600_000_000
    assert [entry.hour for entry in account.post(usage, half, NOW)] == [NOON + HOUR]
    whole = PriceBook([*half.prices, factories.price(1_000_000_000, 0, id="late")])
    assert [(e.hour, e.amount) for e in account.post(usage, whole, NOW)] == [(NOON, 8_000_000_000)]
    assert Meter(usage, whole, NOW).unpriced_seconds() == 0


@moderate
@given(ran(), BOOKS)
def test_a_second_is_either_priced_or_said_to_be_unpriced(usage, book):
    meter = Meter(usage, book, NOW)
    priced = sum(part.end - part.start for _, part in meter.slots(usage.start, usage.end))
    assert priced + meter.unpriced_seconds() == usage.end - usage.start
    cuts = book.cuts(usage.sku, usage.start, usage.end)
    prices = [(cut.end - cut.start, cut.price) for cut in cuts if cut.price is not None]
    worth = usage.chips * sum(seconds * price.per_chip_hour for seconds, price in prices)
    assert meter.total() > 0 or worth <= HOUR // 2, "half a nano-dollar is rounded away"


def test_a_retroactive_price_moves_the_amount_from_the_old_price_to_the_new():
    account, usage = Account(), factories.usage(end=NOON + HOUR)
    account.post(usage, factories.book(), NOW)
    corrected = PriceBook([factories.price(), factories.price(1_000_000_000, NOON, id="new")])
    after = account.post(usage, corrected, NOW)
    assert [(e.price_id, e.number, e.amount) for e in after] == [
        ("new", 0, 8_000_000_000),
        ("test/0", 1, -9_600_000_000),
    ]
