"""What nodes did with their billed seconds, whichever window is asked for."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.application.costs.activities import Activities
from service.domain.clock import HOUR
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.activity import Activity, ActivitySlot
from service.domain.metering.meter import Meter
from tests import factories
from tests.hands import NOON

WARMUP = 1_800


@pytest.fixture
def usage(units):
    """A node that was READY ten minutes before an hour ended, worked at once, and is idle since."""
    node = factories.node()
    hours = [
        ActivityHour(node.id, 1, NOON, "..........B."),
        ActivityHour(node.id, 1, NOON + HOUR, "IIIIIIIIIIII"),
    ]
    with units() as unit:
        unit.nodes.add(node)
        unit.idle_rollups.save(hours)
    return factories.usage(node_id=node.id, start=NOON + 3_000, end=NOON + 4 * HOUR, chips=1)


def seconds(units, usage, start, end):
    with units.reading() as unit:
        known = Activities.read_for(unit, [usage], start, end, WARMUP)
    found: Counter[Activity] = Counter()
    for first, last, activity in known.cut_usage(usage, max(start, usage.start), end):
        found[activity] += last - first
    return found


@pytest.mark.parametrize("cut", [NOON + 3_100, NOON + HOUR, NOON + HOUR + 100, NOON + 5_500])
def test_two_windows_tell_what_one_over_both_tells(units, usage, cut):
    end = NOON + 2 * HOUR
    whole = seconds(units, usage, NOON, end)
    assert seconds(units, usage, NOON, cut) + seconds(units, usage, cut, end) == whole
    assert whole["idle"] == HOUR
    assert whole["busy"] == 300


slots = st.lists(
    st.tuples(
        st.integers(0, 30), st.sampled_from([Activity.BUSY, Activity.IDLE, Activity.UNKNOWN])
    ),
    unique_by=lambda slot: slot[0],
)


@given(slots, st.integers(0, 3_000), st.integers(1, 9_000))
def test_the_activities_come_to_what_the_ledger_charges(drawn, warmup, length):
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + length, end_lo=NOON + length)
    meter = Meter(usage, factories.book(factories.price()), NOON + 10_000, ())
    known = [
        ActivitySlot(
            NOON + 300 * number,
            NOON + 300 * number + 300,
            is_busy=what is Activity.BUSY,
            is_at_rest=what is Activity.IDLE,
        )
        for number, what in sorted(drawn)
    ]
    pieces = list(Activities({usage.node_id: known}, warmup).cut_usage(usage, NOON, NOON + length))
    assert sum(meter.charge_in(start, end) for start, end, _ in pieces) == meter.total_charge()
    assert sum(end - start for start, end, _ in pieces) == length
    assert all(before[1] == after[0] for before, after in pairwise(pieces))
