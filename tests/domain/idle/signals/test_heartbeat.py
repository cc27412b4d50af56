"""Heartbeats: they hold for a while, and none of them says less than the one before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.clock import DAY
from service.domain.errors import Rejected
from service.domain.idle.signals.heartbeat import Beat, Heartbeat, accept_beat

NOW = 1_000_000


def test_a_heartbeat_holds_for_fifteen_minutes_from_when_it_was_sent():
    assert accept_beat(None, Beat(), "n", 1, NOW) == Heartbeat("n", 1, NOW, NOW + 900)
    late = accept_beat(None, Beat(at=NOW - 100, note=" step 7 "), "n", 1, NOW)
    assert (late.at, late.until, late.note) == (NOW, NOW + 800, "step 7")


@pytest.mark.parametrize(
    ("beat", "field"),
    [
        (Beat(at=NOW + 61), "at"),
        (Beat(seconds=0), "expires_seconds"),
        (Beat(seconds=-5), "expires_seconds"),
        (Beat(seconds=DAY + 1), "expires_seconds"),
    ],
)
def test_a_heartbeat_that_cannot_be_is_refused(beat, field):
    with pytest.raises(Rejected) as refused:
        accept_beat(None, beat, "n", 1, NOW)
    assert refused.value.facts["field"] == field


def test_a_clock_that_is_a_little_ahead_gains_nothing():
    assert accept_beat(None, Beat(at=NOW + 60), "n", 1, NOW).until == NOW + 900


def test_a_flood_of_heartbeats_writes_one_in_ten_seconds():
    first = replace(accept_beat(None, Beat(), "n", 1, NOW), version=4)
    assert accept_beat(first, Beat(), "n", 1, NOW + 9) is first
    again = accept_beat(first, Beat(), "n", 1, NOW + 10)
    assert (again.until, again.version) == (NOW + 910, 4)


def test_a_longer_heartbeat_counts_at_once_and_a_shorter_one_takes_nothing_away():
    first = accept_beat(None, Beat(), "n", 1, NOW)
    assert accept_beat(first, Beat(seconds=3_600), "n", 1, NOW + 1).until == NOW + 3_601
    assert accept_beat(first, Beat(seconds=60), "n", 1, NOW + 60) is first


def test_a_heartbeat_of_an_earlier_incarnation_does_not_hold_for_this_one():
    before = replace(accept_beat(None, Beat(seconds=DAY), "n", 1, NOW), version=2)
    after = accept_beat(before, Beat(seconds=60), "n", 2, NOW + 1)
    assert after == Heartbeat("n", 2, NOW + 1, NOW + 61, version=2)
