"""Windows and buckets: calendars as people live by them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR, parse_rfc3339, to_rfc3339
from service.domain.errors import Rejected
from service.domain.time_window import (
    Granularity,
    Window,
    parse_window,
    split_by_parts,
    split_into_buckets,
    window_before,
    zone_of,
)
from tests.hands import NOON

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def window(first, last):
    return Window(parse_rfc3339(first), parse_rfc3339(last))


def local(seconds, zone):
    return datetime.fromtimestamp(seconds, zone).strftime("%m-%d %H:%M")


# ---- what is meant


@pytest.mark.parametrize(
    ("text", "zone", "start", "end"),
    [
        ("today", "UTC", "2026-11-05T00:00:00Z", "2026-11-05T12:00:00Z"),
        ("today", "Europe/Berlin", "2026-11-04T23:00:00Z", "2026-11-05T12:00:00Z"),
        ("today", "Pacific/Kiritimati", "2026-11-05T10:00:00Z", "2026-11-05T12:00:00Z"),
        ("1d", "UTC", "2026-11-05T00:00:00Z", "2026-11-05T12:00:00Z"),
        ("7d", "UTC", "2026-10-30T00:00:00Z", "2026-11-05T12:00:00Z"),
        ("12d", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-11-05T12:00:00Z"),
        ("24h", "Europe/Berlin", "2026-11-04T12:00:00Z", "2026-11-05T12:00:00Z"),
        ("mtd", "UTC", "2026-11-01T00:00:00Z", "2026-11-05T12:00:00Z"),
        ("mtd", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-05T12:00:00Z"),
        ("2026-11-01,2026-11-03", "Asia/Kolkata", "2026-10-31T18:30:00Z", "2026-11-02T18:30:00Z"),
        (
            " 2026-11-01T00:00:00Z , 2026-11-01T06:30:00+05:30 ",
            "UTC",
            "2026-11-01T00:00:00Z",
            "2026-11-01T01:00:00Z",
        ),
        (
            "2026-11-01T00:00:00+02:00,2027-01-01",
            "UTC",
            "2026-10-31T22:00:00Z",
            "2027-01-01T00:00:00Z",
        ),
    ],
)
def test_a_window_is_understood_in_the_callers_time_zone(text, zone, start, end):
    assert parse_window(text, ZoneInfo(zone), NOON) == window(start, end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "7",
        "0d",
        "-7d",
        "7 d",
        "10000d",
        "100000h",
        "7w",
        "yesterday",
        "2026-11-01",
        "2026-11-01,",
        ",2026-11-01",
        "2026-13-01,2026-12-01",
        "2026-11-31,2026-12-01",
        "2026-11-01T00:00:00,2026-12-01T00:00:00",
        "2026-12-01,2026-11-01",
        "2026-11-01,2026-11-01",
        "2026-11-01T00:00:00Z,2026-11-01T05:30:00+05:30",
        "2026-11-01,2026-11-02,2026-11-03",
        "0000-01-01,2026-01-01",
        "x" * 10_000,
    ],
)
def test_what_is_no_window_is_refused_with_what_may_be_written(text):
    with pytest.raises(Rejected, match="window") as refused:
        parse_window(text, UTC, NOON)
    assert refused.value.facts["field"] == "window"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01,0001-01-03",
        "0001-01-01T00:00:00+14:00,0001-01-03",
        "9999-12-30,9999-12-31",
        "9999-12-31T00:00:00Z,9999-12-31T23:59:59-12:00",
        "1969-12-30,1970-01-04",
    ],
)
@pytest.mark.parametrize("step", list(Granularity))
def test_a_window_at_the_ends_of_the_calendar_is_refused_or_can_be_answered(text, zone, step):
    with suppress(Rejected):
        assert list(
            split_into_buckets(parse_window(text, ZoneInfo(zone), NOON), step, ZoneInfo(zone))
        )


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", "Europe", "\0", "x" * 5_000])
def test_what_is_no_time_zone_is_refused(name):
    with pytest.raises(Rejected) as refused:
        zone_of(name)
    assert refused.value.facts["field"] == "tz"


@pytest.mark.parametrize(
    "name", ["localtime", "posixrules", "Factory", "posix/Europe/Berlin", "right/Europe/Berlin"]
)
def test_what_another_machine_may_mean_something_else_by_is_no_time_zone(name):
    with pytest.raises(Rejected, match="not a time zone"):
        zone_of(name)


def test_a_time_zone_is_known_by_its_iana_name():
    assert zone_of("Europe/Berlin") == BERLIN


# ---- days


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("UTC", "2026-03-29", 24),
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("America/Havana", "2026-03-08", 23),
        ("America/Havana", "2026-11-01", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("America/Sao_Paulo", "2019-02-16", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Asia/Kolkata", "2026-03-29", 24),
    ],
)
def test_a_day_has_the_hours_that_its_clocks_show(zone, day, hours):
    tz, noon = ZoneInfo(zone), parse_rfc3339(f"{day}T12:00:00Z")
    around = split_into_buckets(Window(noon - 3 * DAY, noon + 3 * DAY), Granularity.DAY, tz)
    lengths = {local(bucket.start, tz)[:5]: (bucket.end - bucket.start) / HOUR for bucket in around}
    assert lengths[day[5:]] == hours


def test_the_day_that_samoa_skipped_has_no_bucket():
    apia = ZoneInfo("Pacific/Apia")
    days = split_into_buckets(
        window("2011-12-28T10:00:00Z", "2012-01-01T10:00:00Z"), Granularity.DAY, apia
    )
    assert [local(day.start, apia) for day in days] == [
        "12-28 00:00",
        "12-29 00:00",
        "12-31 00:00",
        "01-01 00:00",
    ]


@pytest.mark.parametrize(
    ("zone", "first", "hours", "starts"),
    [
        (
            "Asia/Kolkata",
            "2026-11-05T12:00:00Z",
            2,
            ["11-05 17:30", "11-05 18:00", "11-05 19:00"],
        ),
        ("Asia/Kathmandu", "2026-11-05T12:15:00Z", 2, ["11-05 18:00", "11-05 19:00"]),
        (
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            3,
            ["10-25 02:00", "10-25 02:00", "10-25 03:00"],
        ),
        ("Europe/Berlin", "2026-03-29T00:00:00Z", 2, ["03-29 01:00", "03-29 03:00"]),
        (
            "Australia/Lord_Howe",
            "2026-04-04T14:00:00Z",
            2,
            ["04-05 01:00", "04-05 01:30", "04-05 02:00"],
        ),
    ],
)
def test_hours_are_those_of_the_zones_own_clock(zone, first, hours, starts):
    tz, start = ZoneInfo(zone), parse_rfc3339(first)
    found = split_into_buckets(Window(start, start + hours * HOUR), Granularity.HOUR, tz)
    assert [local(bucket.start, tz) for bucket in found] == starts


def test_weeks_begin_on_monday_and_months_on_the_first():
    asked = window("2026-10-28T15:00:00Z", "2026-12-02T03:00:00Z")
    weeks = [
        to_rfc3339(bucket.start) for bucket in split_into_buckets(asked, Granularity.WEEK, UTC)
    ]
    months = [
        to_rfc3339(bucket.start) for bucket in split_into_buckets(asked, Granularity.MONTH, UTC)
    ]
    assert [text[5:10] for text in weeks] == ["10-28", "11-02", "11-09", "11-16", "11-23", "11-30"]
    assert [text[5:10] for text in months] == ["10-28", "11-01", "12-01"]


def test_all_is_one_bucket():
    asked = window("2026-10-28T15:00:00Z", "2026-12-02T03:00:00Z")
    assert list(split_into_buckets(asked, Granularity.ALL, UTC)) == [asked]


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(available_timezones())),
    st.integers(0, 2_500_000_000),
    st.integers(1, 90 * DAY),
    st.sampled_from(list(Granularity)),
)
def test_buckets_cover_the_window_without_a_gap_in_every_zone(name, start, length, step):
    asked, tz = Window(start, start + length), ZoneInfo(name)
    found = list(split_into_buckets(asked, step, tz))
    assert (found[0].start, found[-1].end) == (asked.start, asked.end)
    assert all(left.end == right.start for left, right in pairwise(found))
    assert all(bucket.start < bucket.end for bucket in found)
    if step is Granularity.DAY:
        days = [datetime.fromtimestamp(bucket.start, tz).date() for bucket in found]
        assert len(set(days)) == len(days)
        for bucket in found:
            last = datetime.fromtimestamp(bucket.end - 1, tz).date()
            assert last == datetime.fromtimestamp(bucket.start, tz).date()


@pytest.mark.parametrize(
    ("step", "days", "allowed"),
    [
        (Granularity.HOUR, 416, True),
        (Granularity.HOUR, 417, False),
        (Granularity.DAY, 10_000, True),
        (Granularity.DAY, 10_001, False),
        (Granularity.WEEK, 20_000, True),
        (Granularity.MONTH, 20_000, True),
        (Granularity.ALL, 20_000, True),
    ],
)
def test_more_than_ten_thousand_buckets_are_refused(step, days, allowed):
    asked = Window(0, days * DAY)
    if allowed:
        assert 0 < len(list(split_into_buckets(asked, step, UTC))) <= 10_000
    else:
        with pytest.raises(Rejected, match="ten thousand") as refused:
            list(split_into_buckets(asked, step, UTC))
        assert refused.value.facts["field"] == "step"


@st.composite
def parts(draw):
    """Parts in order; some of them adjoin, some are empty, and there may be none."""
    at, found = 0, []
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12)):
        found.append(Window(at + gap, at + gap + length))
        at = found[-1].end
    return found


@settings(max_examples=200, deadline=None)
@given(parts(), st.integers(-5, 90), st.integers(-5, 90))
def test_what_is_touched_is_what_a_look_at_every_part_finds(ones, start, end):
    plain = [(at, max(start, one.start), min(end, one.end)) for at, one in enumerate(ones)]
    assert list(split_by_parts(ones, start, end)) == [
        bucket for bucket in plain if bucket[1] < bucket[2]
    ]


@pytest.mark.parametrize(
    ("length", "whole_weeks", "first", "last"),
    [
        (5 * DAY + 7, False, "10-19 00:00", "10-23 23:00"),
        (5 * DAY, False, "10-20 00:00", "10-24 23:00"),
        (3 * HOUR, False, "10-24 00:00", "10-24 02:00"),
        (9 * DAY, True, "10-11 00:00", "10-19 23:00"),
    ],
)
def test_the_time_before_begins_and_ends_at_the_same_time_of_day(length, whole_weeks, first, last):
    start = parse_rfc3339("2026-10-25T00:00:00+02:00")
    found = window_before(Window(start, start + length), BERLIN, whole_weeks=whole_weeks)
    assert (local(found.start, BERLIN), local(found.end, BERLIN)) == (first, last)
