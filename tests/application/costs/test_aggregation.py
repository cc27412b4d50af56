"""Sums by anything: whatever usage is grouped by and cut into, the parts come to the whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from service.application.costs.activities import Activities
from service.application.costs.aggregation import CostTally
from service.domain.clock import DAY, HOUR
from service.domain.costs.dimensions import DIMENSIONS
from service.domain.idle.rollup import ActivityHour, slots_of
from service.domain.idle.signals.activity import Activity
from service.domain.metering.meter import Evidence, Meter
from service.domain.time_window import Granularity, Window, split_into_buckets
from tests import factories
from tests.domain.drawn import ATTRIBUTIONS, BOOKS, moderate, ran
from tests.hands import NOON

NOW = NOON + 9 * DAY
WEEK = Window(NOON - DAY, NOW)
LABELS = st.sampled_from([{}, {"run": "1"}, {"run": "2", "draft": "yes"}])


@moderate
@given(
    st.lists(st.tuples(ran(), ATTRIBUTIONS, LABELS), min_size=1, max_size=4),
    BOOKS,
    st.lists(st.sampled_from([*DIMENSIONS, "label:run"]), unique=True, max_size=4),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
    st.lists(st.tuples(st.integers(0, 9 * 24 - 1), st.text("BI.", min_size=12, max_size=12))),
)
def test_any_grouping_and_any_calendar_come_to_the_whole(used, book, names, zone, hours):
    """Busy, idle, starting and unknown seconds among them, however the slots lie."""
    parts = list(split_into_buckets(WEEK, Granularity.DAY, ZoneInfo(zone)))
    known = [ActivityHour("n", 1, NOON + hour * HOUR, levels) for hour, levels in sorted(hours)]
    slots = {usage.node_id: list(slots_of(known)) for usage, _, _ in used}
    tally = CostTally(tuple(names), {}, parts, Activities(slots, 1_800))
    meters = []
    for usage, whose, labels in used:
        meter = Meter(usage, book, NOW, [replace(payer, labels=labels) for payer in whose])
        meters.append(meter)
        tally.add_usage(meter, since=usage.start)
    rows = tally.list_rows()
    assert sum(row.cost for row in rows) == sum(meter.total_charge() for meter in meters)
    seconds = (m.usage.chips * m.seconds_in(m.usage.start, m.end, priced=True) for m in meters)
    assert sum(row.chip_seconds for row in rows) == sum(seconds)


def test_each_second_counts_as_what_the_node_did():
    """Starting until it works or its warm-up is over; what no slot covers is unknown."""
    usage = factories.usage(start=NOON + 30, end=NOON + 2 * HOUR, chips=1)
    slots = slots_of(
        [ActivityHour("n", 1, NOON, "..BBIIIIIII."), ActivityHour("n", 2, NOON, "....B.......")]
    )
    activities = Activities({usage.node_id: sorted(slots, key=lambda slot: slot.start)}, 1_800)
    found = list(activities.cut_usage(usage, usage.start, NOON + 2 * HOUR))
    assert found == [
        (NOON + 30, NOON + 600, Activity.STARTING),
        (NOON + 600, NOON + 1_500, Activity.BUSY),
        (NOON + 1_500, NOON + 3_300, Activity.IDLE),
        (NOON + 3_300, NOON + 2 * HOUR, Activity.UNKNOWN),
    ]
    assert list(activities.cut_usage(usage, NOON + 700, NOON + 1_600)) == [
        (NOON + 700, NOON + 1_500, Activity.BUSY),
        (NOON + 1_500, NOON + 1_600, Activity.IDLE),
    ]
    bought = replace(usage, id="other", start_evidence=Evidence.PURCHASE)
    assert [one for *_, one in activities.cut_usage(bought, NOON + 700, NOON + 1_600)] == [
        "unknown"
    ]


@moderate
@given(st.lists(st.tuples(ran(), ATTRIBUTIONS), min_size=1, max_size=4), BOOKS)
def test_what_each_value_comes_to_alone_sums_to_all_of_them(used, book):
    teams = {payer.team for _, whose in used for payer in whose}

    def total(only):
        tally = CostTally((), only, [WEEK])
        for usage, whose in used:
            tally.add_usage(Meter(usage, book, NOW, whose), since=usage.start)
        return sum(row.cost for row in tally.list_rows())

    assert sum(total({"team": [team]}) for team in teams) == total({})


@st.composite
def doubtful(draw):
    """An interval of which neither end is certain, posted up to somewhere, open or not."""
    usage = draw(ran())
    start_hi = usage.start + draw(st.integers(0, 2 * HOUR))
    if draw(st.booleans()):
        return replace(usage, start_hi=start_hi, end=None, posted_until=draw(MOMENTS))
    end_lo = usage.end - draw(st.integers(0, 2 * HOUR))
    return replace(usage, start_hi=start_hi, end_lo=end_lo, posted_until=draw(MOMENTS))


MOMENTS = st.integers(NOON - DAY, NOW)


@moderate
@given(
    st.lists(st.tuples(doubtful(), ATTRIBUTIONS), min_size=1, max_size=3),
    BOOKS,
    st.sets(MOMENTS, max_size=5),
)
def test_what_is_uncertain_or_has_no_price_is_so_once_however_time_and_people_are_cut(
    used, book, cuts
):
    """What is posted tells it from the interval, what is not from the seconds that are added."""
    edges = [NOON - DAY, *sorted(cuts), NOW]
    teams = {payer.team for _, whose in used for payer in whose}
    meters = [Meter(usage, book, NOW, whose) for usage, whose in used]
    uncertain = unpriced = 0
    for left, right in pairwise(edges):
        for team in teams:
            tally = CostTally((), {"team": [team]}, [Window(left, right)])
            for meter in meters:
                tally.add_usage(meter, since=meter.usage.posted_until)
                tally.add_doubts(meter, posted_only=True)
            assert sum(row.uncertainty for row in tally.list_rows()) == tally.uncertainty
            uncertain += tally.uncertainty
            unpriced += tally.unpriced_seconds
    assert uncertain == sum(meter.total_uncertainty() for meter in meters)
    assert unpriced == sum(meter.unpriced_seconds() for meter in meters)


@moderate
@given(doubtful(), ATTRIBUTIONS, BOOKS)
def test_what_is_not_posted_by_itself_is_told_from_the_seconds_that_are_added(usage, whose, book):
    meter = Meter(usage, book, NOW, whose)
    tally = CostTally((), {}, [WEEK])
    tally.add_usage(meter, since=usage.start)
    tally.add_doubts(meter, posted_only=False)
    assert tally.uncertainty == meter.total_uncertainty()
    assert tally.unpriced_seconds == meter.unpriced_seconds()
