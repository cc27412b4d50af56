"""Tests of what a node did with its money."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.signals.activity import (
    Activity,
    ActivitySlot,
    cost_by_activity,
    list_marks,
)
from service.domain.metering.meter import Meter
from tests import factories
from tests.hands import NOON

STARTING, BUSY = Activity.STARTING, Activity.BUSY
IDLE, UNKNOWN = Activity.IDLE, Activity.UNKNOWN


def slot(start, end, what):
    return ActivitySlot(NOON + start, NOON + end, is_busy=what is BUSY, is_at_rest=what is IDLE)


def after(found):
    return [(at - NOON, what) for at, what in found if at >= NOON]


def test_a_node_starts_until_its_warm_up_is_over():
    found = list_marks([slot(0, 900, IDLE), slot(900, 1_200, BUSY)], NOON, NOON + 600)
    assert after(found) == [(0, STARTING), (600, IDLE), (900, BUSY), (1_200, UNKNOWN)]


def test_a_node_that_works_early_has_started():
    found = list_marks([slot(0, 300, IDLE), slot(300, 600, BUSY)], NOON, NOON + 1_800)
    assert after(found) == [(0, STARTING), (300, BUSY), (600, UNKNOWN)]


def test_what_no_slot_covers_is_unknown():
    found = list_marks([slot(0, 300, IDLE), slot(600, 900, IDLE)], NOON, NOON)
    assert after(found) == [(0, IDLE), (300, UNKNOWN), (600, IDLE), (900, UNKNOWN)]
    assert list_marks([], None, 0) == ((0, UNKNOWN),)


slots = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from([BUSY, IDLE, UNKNOWN])),
    unique_by=lambda one: one[0],
)


@given(slots, st.integers(-500, 5_000), st.integers(0, 3_000), st.integers(1, 9_000))
def test_the_four_come_to_what_the_ledger_charges(drawn, ready, warm_up, length):
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + length, end_lo=NOON + length)
    meter = Meter(usage, factories.book(factories.price()), NOON + 10_000, ())
    some = [slot(300 * number, 300 * number + 300, what) for number, what in sorted(drawn)]
    found = cost_by_activity([meter], list_marks(some, NOON + ready, NOON + ready + warm_up))
    assert set(found) == set(Activity)
    assert sum(share.cost for share in found.values()) == meter.total_charge()
    assert sum(share.seconds for share in found.values()) == length
    assert sum(share.chip_seconds for share in found.values()) == meter.chip_seconds_in(
        NOON, NOON + length
    )
