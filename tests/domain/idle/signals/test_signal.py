"""Tests of what is known from readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.signals import signal
from service.domain.idle.signals.signal import (
    Kind,
    Level,
    Reading,
    SignalTrack,
    level_of,
    name_signal,
    with_reading,
)


def duty(start, end, value):
    return Reading(0, Kind.DUTY_CYCLE, start, end, value)


def follow(*readings, oldest=0):
    track = None
    for reading in readings:
        track = with_reading(track, reading, oldest)
    return track


def test_a_chip_comes_to_rest_at_two_percent_and_goes_to_work_above_five():
    levels = [
        follow(*(duty(60 * n, 60 * n + 60, value) for n, value in enumerate(values))).level
        for values in ([2.0], [2.1], [5.0], [1.0, 5.0], [1.0, 5.1], [9.0, 3.0], [9.0, 1.0, 3.0])
    ]
    quiet, active = Level.QUIET, Level.ACTIVE
    assert levels == [quiet, active, active, quiet, active, active, quiet]


def test_what_each_signal_says():
    cases = [
        (Kind.TENSORCORE, 2.0, Level.QUIET),
        (Kind.TENSORCORE, 2.5, Level.ACTIVE),
        (Kind.TENSORCORE_IDLE, 60, Level.QUIET),
        (Kind.TENSORCORE_IDLE, 59, Level.ACTIVE),
        (Kind.ACTIVE_CHIPS, 0, Level.QUIET),
        (Kind.ACTIVE_CHIPS, 1, Level.ACTIVE),
        (Kind.UTILIZED_CHIPS, 0, Level.QUIET),
        (Kind.UTILIZED_CHIPS, 1, Level.ACTIVE),
        (Kind.CPU, 10, Level.QUIET),
        (Kind.CPU, 10.1, Level.ACTIVE),
        (Kind.REPORTED_CPU, 11, Level.ACTIVE),
        (Kind.NETWORK, 1_000_000, Level.QUIET),
        (Kind.NETWORK, 1_000_001, Level.ACTIVE),
        (Kind.REPORTED_NETWORK, 5, Level.QUIET),
        (Kind.DEVICE, 0, Level.QUIET),
        (Kind.DEVICE, 1, Level.UNKNOWN),
        (Kind.SCHEDULED_CHIPS, 0, Level.UNKNOWN),
        (Kind.SCHEDULED_CHIPS, 4, Level.UNKNOWN),
    ]
    for kind, value, level in cases:
        assert level_of(Reading(0, kind, 0, 60, value), was_quiet=False) is level, (kind, value)


def test_what_no_reading_covers_is_not_known_to_be_at_rest():
    track = follow(duty(0, 60, 0), duty(120, 180, 0))
    assert track.at_rest == ((0, 60), (120, 180))
    assert (
        track.seconds_at_rest(0, 180),
        track.seconds_at_rest(30, 150),
        track.seconds_at_rest(60, 120),
    ) == (120, 60, 0)


def test_work_ends_what_was_known_at_rest_before_it():
    track = follow(duty(0, 60, 0), duty(60, 120, 50), duty(120, 180, 0))
    assert (track.at_rest, track.broken_at) == (((120, 180),), 120)
    assert track.level is Level.QUIET


def test_a_late_reading_fills_its_gap_or_ends_the_rest_before_it():
    gap = [duty(0, 60, 0), duty(120, 180, 0)]
    filled = follow(*gap, duty(60, 120, 1))
    assert (filled.at_rest, filled.end, filled.value) == (((0, 180),), 180, 0)
    broken = follow(*gap, duty(60, 120, 80))
    assert (broken.at_rest, broken.broken_at) == (((120, 180),), 120)
    assert (broken.end, broken.value, broken.level) == (180, 0, Level.QUIET)


def test_a_device_that_was_held_for_a_moment_was_not_at_rest_before():
    free, held = (Reading(0, Kind.DEVICE, 0, 300, 0), Reading(0, Kind.DEVICE, 300, 310, 1))
    track = follow(free, held, Reading(0, Kind.DEVICE, 310, 400, 0))
    assert track.at_rest == ((310, 400),)


def test_what_was_long_ago_is_forgotten():
    track = follow(duty(0, 60, 0), duty(60, 120, 0), duty(300, 360, 0), oldest=90)
    assert track.at_rest == ((90, 120), (300, 360))


minutes = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([0.0, 1.5, 30.0])), unique_by=lambda one: one[0]
)


@given(minutes, st.randoms(use_true_random=False))
def test_the_order_in_which_readings_arrive_changes_nothing_but_what_came_last(pairs, random):
    readings = [duty(60 * minute, 60 * minute + 60, value) for minute, value in pairs]
    shuffled = random.sample(readings, len(readings))
    assert follow(*sorted(readings, key=lambda one: one.start)) == follow(*shuffled)


def test_a_late_reading_between_rest_and_work_stays_what_it_was_at_its_own_time():
    """It came after the chip had come to rest, and is from when it was still active."""
    late = follow(duty(0, 60, 9), duty(240, 300, 1), *(duty(n, n + 60, 3) for n in (180, 120, 60)))
    assert late.seconds_at_rest(0, 300) == 60
    filled = follow(duty(0, 60, 1), duty(120, 180, 1), duty(60, 120, 3))
    assert filled.at_rest == ((0, 180),)


def test_late_work_is_followed_by_work_until_the_chip_comes_to_rest():
    track = follow(duty(0, 60, 1), duty(120, 180, 3), duty(60, 120, 50))
    assert (track.level, track.at_rest, track.broken_at) == (Level.ACTIVE, (), 180)
    assert with_reading(track, duty(180, 240, 3), 0).level is Level.ACTIVE
    assert with_reading(track, duty(180, 240, 1), 0).at_rest == ((180, 240),)


between = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([1.0, 3.0, 30.0])), unique_by=lambda one: one[0]
)


@given(between, st.randoms(use_true_random=False))
def test_no_order_of_readings_shows_more_rest_than_the_order_of_time(pairs, random):
    readings = [duty(60 * minute, 60 * minute + 60, value) for minute, value in pairs]
    in_order = follow(*sorted(readings)) or SignalTrack(0, 0, Level.QUIET)
    shuffled = follow(*random.sample(readings, len(readings))) or SignalTrack(0, 0, Level.QUIET)
    for start in range(0, 780, 60):
        assert shuffled.seconds_at_rest(start, start + 60) <= in_order.seconds_at_rest(
            start, start + 60
        )
    assert in_order.level is not Level.ACTIVE or shuffled.level is Level.ACTIVE


any_readings = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sampled_from([0, 60, 120, 300]),
        st.sampled_from([0.0, 2.0, 3.0, 5.0, 6.0, 80.0, 1e6, 2e6]),
        st.integers(0, 600),
    )
)


@given(st.sampled_from(Kind), any_readings)
def test_the_short_cut_for_more_of_the_same_changes_no_track(kind, pieces):
    with pytest.MonkeyPatch.context() as patch:
        short = full = None
        for minute, span, value, oldest in pieces:
            reading = Reading(0, kind, 60 * minute, 60 * minute + span, value)
            short = with_reading(short, reading, oldest)
            with patch.context() as without:
                without.setattr(signal, "_extend_same_level", lambda *_: None)
                full = with_reading(full, reading, oldest)
            assert short == full


@given(minutes)
def test_rest_is_what_readings_cover_since_the_last_work(pairs):
    readings = [duty(60 * minute, 60 * minute + 60, value) for minute, value in pairs]
    track = follow(*readings) or SignalTrack(0, 0, Level.QUIET)
    worked = max((minute for minute, value in pairs if value > 5), default=-1)
    expected = sum(60 for minute, _ in pairs if minute > worked)
    assert track.seconds_at_rest(0, 60 * 41) == expected
    assert track.broken_at == (60 * (worked + 1) if worked >= 0 else None)
    assert sorted(track.at_rest) == list(track.at_rest)


@pytest.mark.parametrize(
    ("kind", "value", "level", "at_rest", "broken_at"),
    [
        (Kind.DUTY_CYCLE, 5.0, Level.QUIET, ((100, 160),), 100),
        (Kind.DUTY_CYCLE, 5.1, Level.ACTIVE, (), 160),
        (Kind.UTILIZED_CHIPS, 0.0, Level.QUIET, ((100, 160),), 100),
        (Kind.UTILIZED_CHIPS, 1.0, Level.ACTIVE, (), 160),
        (Kind.DEVICE, 1.0, Level.UNKNOWN, (), 160),
        (Kind.SCHEDULED_CHIPS, 8.0, Level.UNKNOWN, (), 160),
        (Kind.TENSORCORE_IDLE, 60.0, Level.QUIET, ((100, 160),), 100),
        (Kind.TENSORCORE_IDLE, 59.0, Level.ACTIVE, (), 160),
    ],
)
def test_work_after_work_is_read_as_all_readings_are(kind, value, level, at_rest, broken_at):
    """A track without any rest takes a short way where the reading shows work, and no other."""
    before = SignalTrack(100, 1.0, Level.QUIET, (), 100)
    after = with_reading(before, Reading(0, kind, 100, 160, value), 0)
    assert (after.end, after.value, after.level) == (160, value, level)
    assert (after.at_rest, after.broken_at) == (at_rest, broken_at)


def test_work_keeps_what_later_work_has_said():
    before = SignalTrack(100, 80.0, Level.ACTIVE, (), 400, 90)
    after = with_reading(before, Reading(0, Kind.DUTY_CYCLE, 100, 160, 80.0), 0)
    assert (after.broken_at, after.between_until) == (400, 90)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.DUTY_CYCLE, "duty cycle"),
        (Kind.TENSORCORE_IDLE, "TensorCore idle time"),
        (Kind.CPU, "CPU"),
        (Kind.REPORTED_NETWORK, "reported network"),
        ("heartbeat", "heartbeat"),
    ],
)
def test_a_signal_has_a_name_for_sentences(kind, name):
    assert name_signal(kind) == name


def test_no_name_of_a_signal_is_written_like_code():
    assert not [kind for kind in Kind if "_" in name_signal(kind)]
