"""Usage begins and ends where it was seen to, and is free if it is preempted at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Meter
from service.domain.metering.usage import (
    find_end_bounds,
    find_start_bounds,
    start_usage,
    with_end,
    with_first_minute_rule,
    with_start_after,
)
from tests import factories
from tests.hands import NOON

FIRST_MINUTE = 60
OPERATION, OBSERVED = Evidence.OPERATION, Evidence.OBSERVED


def test_what_is_opened_is_of_the_node_as_it_is_now():
    node = factories.sent(chips=16, hosts=4, zone="europe-west4-b")
    usage = start_usage(node, NOON, NOON + 9, Evidence.OBSERVED)
    assert (usage.node_id, usage.chips, usage.zone) == (node.id, 16, "europe-west4-b")
    assert (usage.sku.region, usage.sku.model) == ("europe-west4", ProvisioningModel.ON_DEMAND)
    assert (usage.start, usage.start_hi, usage.posted_until) == (NOON, NOON + 9, NOON)


def test_the_second_in_which_a_slow_look_was_answered_is_charged_once():
    usage = factories.usage(start=NOON + 380, start_hi=NOON + 900)
    after = with_start_after(usage, NOON + 381)
    assert (after.start, after.start_hi, after.posted_until) == (NOON + 381, NOON + 900, NOON + 381)


def test_what_begins_later_or_first_stays_as_it_is():
    usage = factories.usage()
    assert with_start_after(usage, None) == with_start_after(usage, NOON) == usage


@given(st.integers(-50, 50), st.integers(0, 50), st.none() | st.integers(0, 90))
def test_bounds_stay_in_order_and_no_second_of_the_last_is_charged_again(moved, unsure, lasted):
    end = None if lasted is None else NOON + lasted
    usage = factories.usage(start_hi=NOON + unsure, end=end, end_lo=end)
    after = with_start_after(usage, NOON + moved)
    assert after.start >= max(usage.start, NOON + moved)
    assert after.start <= after.start_hi
    if after.end is not None:
        assert after.end_lo is not None
        assert after.start <= after.end_lo <= after.end


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
    assert find_start_bounds(seen_before, first_ready, operation_ended) == expected


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
    assert find_end_bounds(last_ready, first_gone, operation_created) == expected


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
    after = with_end(factories.usage(), end_lo, end, OBSERVED)
    assert (after.end_lo, after.end) == expected
    assert after.dirty


@pytest.mark.parametrize(
    ("lived", "free"),
    [
        (0, True),
        (FIRST_MINUTE - 1, True),
        (FIRST_MINUTE, False),
        (HOUR, False),
    ],
)
def test_preempted_in_the_first_minute_after_its_creation_costs_nothing(lived, free):
    usage = factories.usage(end=NOON + lived, end_lo=NOON + lived)
    after = with_first_minute_rule(usage, created_at=NOON)
    assert bool(after.free) is free
    assert (Meter(after, factories.book(), NOON + DAY).total_charge() == 0) is (free or lived == 0)


def test_a_preemption_that_was_seen_too_late_to_tell_is_charged_and_wholly_uncertain():
    usage = with_end(factories.usage(start=NOON + 20), NOON + 40, NOON + 90, OBSERVED)
    after = with_first_minute_rule(usage, created_at=NOON)
    meter = Meter(after, factories.book(), NOON + DAY)
    assert meter.total_uncertainty() == meter.total_charge() == 186_666_667
    assert (after.free, after.uncertain_seconds) == ("", 70)


@pytest.mark.parametrize(
    ("usage", "created_at"),
    [(factories.usage(), NOON), (factories.usage(end=NOON + 5, end_lo=NOON + 5), None)],
)
def test_nothing_is_forgiven_on_a_guess(usage, created_at):
    assert with_first_minute_rule(usage, created_at) == usage
