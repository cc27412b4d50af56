"""Metering: whole seconds, one rounding, and a ledger that comes to the same sums by any way."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.metering.meter import Meter
from service.domain.nodes.node import NodeState
from service.domain.pricing.billing_rules import is_billable
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import Granularity, Window, split_into_buckets
from tests import factories
from tests.domain.drawn import BOOKS, NANOS, exact, moderate, ran
from tests.hands import NOON

# ---- one rounding


@moderate
@given(ran(), BOOKS, st.lists(st.integers(NOON - DAY, NOON + 9 * DAY), max_size=30))
def test_every_partition_of_time_sums_to_the_one_rounded_total(usage, book, instants):
    meter = Meter(usage, book, NOON + 9 * DAY)
    edges = sorted({usage.start, usage.end, *instants})
    parts = [meter.charge_in(left, right) for left, right in pairwise(edges)]
    assert sum(parts) == meter.total_charge() == round(exact(usage, book, usage.start, usage.end))
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
    covered = split_into_buckets(Window(NOON - DAY, NOON + 9 * DAY), step, ZoneInfo(name))
    assert sum(meter.charge_in(span.start, span.end) for span in covered) == meter.total_charge()


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
    covered = split_into_buckets(Window(start - DAY, start + 9 * DAY), step, ZoneInfo(zone))
    assert sum(meter.charge_in(span.start, span.end) for span in covered) == meter.total_charge()


@moderate
@given(ran(), NANOS, NANOS, st.integers(0, 5 * DAY))
def test_a_price_cut_leaves_the_seconds_before_it_as_they_were(usage, before, after, lasted):
    at = min(usage.start + lasted, usage.end)
    old, new = factories.price(before), factories.price(after, at, id="new")
    whole = Meter(usage, PriceBook([old, new]), NOON + 9 * DAY)
    left = Meter(replace(usage, end=at), PriceBook([old]), NOON + 9 * DAY)
    right = Meter(replace(usage, start=at), PriceBook([new]), NOON + 9 * DAY)
    assert whole.charge_in(usage.start, at) == left.total_charge()
    assert (
        abs(whole.charge_in(at, usage.end) - right.total_charge()) <= 1
    )  # two roundings instead of one


@moderate
@given(ran(), BOOKS, NANOS, st.integers(0, 10 * DAY))
def test_a_price_outside_the_interval_changes_nothing(usage, book, nanos, distance):
    later = factories.price(nanos, usage.end + distance, id="later")
    elsewhere = factories.price(nanos, usage.start, id="elsewhere", region="us-east1")
    other = PriceBook([*book.prices, later, elsewhere])
    assert (
        Meter(usage, other, NOON + 99 * DAY).total_charge()
        == Meter(usage, book, NOON + 99 * DAY).total_charge()
    )


@moderate
@given(ran(), BOOKS, st.integers(0, DAY), st.integers(0, 64), st.integers(0, 10**9))
def test_more_time_more_chips_or_a_higher_price_never_cost_less(usage, book, longer, chips, dearer):
    def cost(usage, book):
        return Meter(usage, book, NOON + 99 * DAY).total_charge()

    raised = PriceBook([replace(price, nanos=price.nanos + dearer) for price in book.prices])
    base = cost(usage, book)
    assert base >= 0
    assert cost(replace(usage, end=usage.end + longer), book) >= base
    assert cost(replace(usage, chips=usage.chips + chips), book) >= base
    assert cost(usage, raised) >= base


@moderate
@given(ran(), BOOKS, st.integers(NOON - DAY, NOON + 9 * DAY))
def test_no_time_costs_nothing(usage, book, instant):
    meter = Meter(replace(usage, end=usage.start), book, NOON + 9 * DAY)
    assert (meter.total_charge(), meter.unpriced_seconds()) == (0, 0)
    assert list(meter.attributed_parts(usage.start, usage.start)) == []
    assert Meter(usage, book, NOON + 9 * DAY).charge_in(instant, instant) == 0


def test_a_month_of_the_largest_pod_fits_into_the_ledger():
    usage = factories.usage(chips=8_960, end=NOON + 31 * DAY)
    total = Meter(
        usage, factories.book(factories.price(4_200_000_000)), NOON + 99 * DAY
    ).total_charge()
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
    assert factories.usage(end=end).end_as_of(now) == until


def test_what_runs_costs_more_by_the_second():
    running = factories.usage()
    costs = [Meter(running, factories.book(), NOON + s).total_charge() for s in (0, 1, 2, 3_600)]
    assert costs == [0, 2_666_667, 5_333_333, 9_600_000_000]


def test_both_uncertain_ends_are_charged_and_said():
    usage = factories.usage(
        start=NOON, start_hi=NOON + 15, end=NOON + HOUR, end_lo=NOON + HOUR - 30
    )
    meter = Meter(usage, factories.book(), NOON + DAY)
    assert usage.uncertain_seconds == 45
    assert meter.total_uncertainty() == 45 * 8 * 1_200_000_000 // HOUR
    assert meter.total_charge() == 9_600_000_000


def test_an_exact_interval_has_no_uncertainty():
    usage = factories.usage(end=NOON + HOUR, end_lo=NOON + HOUR)
    assert (
        usage.uncertain_seconds,
        Meter(usage, factories.book(), NOON + DAY).total_uncertainty(),
    ) == (
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
    assert 0 <= meter.total_uncertainty() <= meter.total_charge()
    assert 0 <= usage.uncertain_seconds <= usage.end - usage.start
