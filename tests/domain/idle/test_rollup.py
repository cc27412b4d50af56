"""Rollups: what was seen active stays so, and what is not known never counts as rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.rollup import ActivityHour, UnwrittenUse, slots_of, with_lately, with_rest
from service.domain.idle.signals.activity import ActivitySlot
from service.domain.idle.signals.signal import Kind, Reading, SignalTrack, with_reading

START = 3_600 * 100
EMPTY = ActivityHour("n", 1, START)


def reading(start, end, value, kind=Kind.DUTY_CYCLE, worker=0):
    return Reading(worker, kind, START + start, START + end, value)


def tracks(*readings):
    found: dict[tuple[int, Kind], SignalTrack] = {}
    for reading in readings:
        key = reading.worker, reading.kind
        found[key] = with_reading(found.get(key), reading, 0)
    return found


def with_readings(hour, readings):
    lately = UnwrittenUse()
    for reading in readings:
        lately.add(reading)
    return with_lately(hour, lately)


def worked(hour, start, end):
    lately = UnwrittenUse()
    lately.add_work(start, end)
    return with_lately(hour, lately)


def test_the_highest_value_of_all_workers_counts():
    hour = with_readings(EMPTY, [reading(0, 60, 1.0), reading(60, 120, 80.0, worker=3)])
    assert list(hour.values[Kind.DUTY_CYCLE][:2]) == [80.0, None]
    assert hour.levels == "B..........."


def test_a_reading_belongs_to_every_slot_that_it_overlaps_and_to_no_other():
    hour = with_readings(EMPTY, [reading(-100, 301, 50.0), reading(3_599, 4_000, 50.0)])
    assert hour.levels == "BB.........B"
    assert (
        with_readings(EMPTY, [reading(-60, 0, 50.0), reading(3_600, 3_660, 50.0)]).levels
        == "." * 12
    )


def test_a_busy_host_is_no_work_of_the_device():
    hour = with_readings(EMPTY, [reading(0, 60, 90.0, Kind.CPU), reading(0, 60, 9e9, Kind.NETWORK)])
    assert hour.levels == "." * 12
    assert hour.values[Kind.CPU][0] == 90.0


def test_a_slot_is_at_rest_when_nine_tenths_of_it_are_covered_for_every_worker():
    rest = tracks(
        *(reading(at, at + 60, 0.0, worker=w) for at in range(0, 600, 60) for w in (0, 1))
    )
    assert with_rest(EMPTY, rest, 2, START + 600).levels == "II.........."
    assert with_rest(EMPTY, rest, 3, START + 600).levels == "." * 12
    assert with_rest(EMPTY, rest, 2, START + 599).levels == "I..........."
    assert with_rest(EMPTY, rest, 0, START + 600).levels == "." * 12
    gap = tracks(reading(0, 240, 0.0), reading(271, 300, 0.0))
    assert with_rest(EMPTY, gap, 1, START + 600).levels == "." * 12
    nine_tenths = tracks(reading(0, 240, 0.0), reading(270, 300, 0.0))
    assert with_rest(EMPTY, nine_tenths, 1, START + 600).levels == "I..........."


def test_late_work_turns_rest_into_work_and_never_the_other_way():
    rest = tracks(reading(0, 300, 0.0))
    hour = with_rest(EMPTY, rest, 1, START + 600)
    hour = with_readings(hour, [reading(100, 160, 60.0)])
    assert hour.levels[0] == "B"
    assert with_rest(hour, rest, 1, START + 600).levels[0] == "B"
    assert with_readings(hour, [reading(100, 160, 0.0)]).levels[0] == "B"


def test_work_that_no_reading_shows_is_work():
    assert worked(EMPTY, START + 299, START + 301).levels == "BB.........."
    assert worked(EMPTY, START - 50, START).levels == "." * 12


@given(
    st.lists(st.tuples(st.integers(-400, 4_000), st.integers(1, 900), st.sampled_from([0.0, 60.0])))
)
def test_the_order_of_readings_does_not_matter(drawn):
    readings = [reading(start, start + length, value) for start, length, value in drawn]
    assert with_readings(EMPTY, readings) == with_readings(EMPTY, readings[::-1])


def test_what_is_not_known_has_no_slot():
    hour = ActivityHour("n", 1, START, "BI..........")
    assert list(slots_of([hour])) == [
        ActivitySlot(START, START + 300, is_busy=True, is_at_rest=False),
        ActivitySlot(START + 300, START + 600, is_busy=False, is_at_rest=True),
    ]
