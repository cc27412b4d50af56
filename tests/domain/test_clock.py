"""Instants: whole UTC seconds, and how they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import floor_to, parse_rfc3339, to_rfc3339, wall_clock

LAST = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second that a calendar of four digits has."""


@given(st.integers(0, LAST))
def test_an_instant_that_is_written_is_read_back(seconds):
    assert parse_rfc3339(to_rfc3339(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025-11-24T16:00:00Z", 1_764_000_000),
        ("2025-11-24T17:00:00+01:00", 1_764_000_000),
        ("2025-11-24T16:00:00.999999Z", 1_764_000_000),
        ("1969-12-31T23:59:59.5Z", -1),
    ],
)
def test_an_instant_may_name_any_offset_and_loses_parts_of_a_second(text, seconds):
    assert parse_rfc3339(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2025-11-24", "2025-11-24T16:00:00", "16:00Z"])
def test_a_time_without_a_zone_is_refused_rather_than_guessed(text):
    with pytest.raises(ValueError, match=r"zone|isoformat"):
        parse_rfc3339(text)


@given(st.integers(-LAST, LAST), st.integers(1, 10**6))
def test_the_floor_is_the_latest_multiple_that_is_not_later(seconds, step):
    floor = floor_to(seconds, step)
    assert floor % step == 0
    assert floor <= seconds < floor + step


def test_the_wall_clock_answers_whole_seconds_of_this_century():
    assert 1_700_000_000 < wall_clock() < 4_100_000_000
