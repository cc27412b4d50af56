"""Where buckets meet: the moved hours come to what a look at every hour would."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.costs.buckets import DaysAndHours, edges_of, settle_parts
from service.domain.time_window import Granularity, Window, split_into_buckets
from tests.hands import NOON

moderate = settings(max_examples=200, deadline=None)
MIDNIGHT = NOON - NOON % DAY


@moderate
@given(st.sets(st.integers(-60, 900), min_size=2, max_size=9))
@example({5, 6})
@example({*range(-3, 40)})
def test_days_and_a_few_hours_are_the_hours_of_every_part(hours):
    """Whatever each hour comes to: here its number in a system where no two sums are alike."""
    edges = [MIDNIGHT + hour * HOUR for hour in sorted(hours)]
    split = DaysAndHours(edges)
    found: list[dict[int, int]] = [{} for _ in edges[1:]]
    for hour in range(split.start, split.end, HOUR):
        of_part = found[split.part_of(hour - hour % DAY)]
        of_part[hour] = of_part.get(hour, 0) + 1
    for hour, moves in split.moves.items():
        for move in moves:
            of_part = found[move.position]
            of_part[hour] = of_part.get(hour, 0) + move.sign
    for position, of_part in enumerate(found):
        wanted = range(edges[position], edges[position + 1], HOUR)
        assert {hour: times for hour, times in of_part.items() if times} == dict.fromkeys(wanted, 1)


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC", 0), ("America/Bogota", 5), ("Asia/Tokyo", 9), ("Pacific/Kiritimati", 10)],
)
def test_each_of_a_years_days_takes_the_hours_to_the_nearest_midnight(zone, hours):
    """UTC+14 begins its day at ten in the morning, UTC+9 at three in the afternoon."""
    tz = ZoneInfo(zone)
    year = Window(MIDNIGHT - 365 * DAY, MIDNIGHT)
    edges = edges_of(list(split_into_buckets(year, Granularity.DAY, tz)), to_the_end=False)
    assert edges is not None
    assert len(DaysAndHours(edges).moves) == 365 * hours


@pytest.mark.parametrize(
    ("zone", "start", "end", "to_the_end", "edges"),
    [
        ("UTC", 0, 2 * DAY, False, (0, DAY, 2 * DAY)),
        ("UTC", HOUR, DAY + 77, True, (HOUR, DAY, 2 * DAY)),
        ("UTC", HOUR, DAY + 77, False, None),
        ("UTC", 77, DAY, False, None),
        ("Europe/Berlin", 0, DAY, False, (0, DAY - HOUR, DAY)),
        ("Asia/Kolkata", 0, DAY, False, None),
        ("UTC", 0, 0, False, None),
    ],
)
def test_what_begins_within_an_hour_has_to_be_metered(zone, start, end, to_the_end, edges):
    window = Window(MIDNIGHT + start, MIDNIGHT + end)
    found = edges_of(
        list(split_into_buckets(window, Granularity.DAY, ZoneInfo(zone))), to_the_end=to_the_end
    )
    assert found == (None if edges is None else tuple(MIDNIGHT + edge for edge in edges))


def test_buckets_are_settled_up_to_the_last_full_hour_before_their_end():
    parts = [Window(0, DAY), Window(DAY, DAY + 2 * HOUR + 77)]
    assert settle_parts(parts) == [Window(0, DAY), Window(DAY, DAY + 2 * HOUR)]
    assert settle_parts([Window(0, DAY), Window(DAY, DAY + 77)]) == [Window(0, DAY)]
    assert settle_parts([Window(HOUR, HOUR + 77)]) == []
    assert settle_parts([]) == []
