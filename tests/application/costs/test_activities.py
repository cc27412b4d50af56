"""What nodes did with their billed seconds, whichever window is asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from service.application.costs.activities import Activities
from service.domain.clock import HOUR
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.activity import Activity
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
