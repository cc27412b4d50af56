"""Reports are PUT fewer than five times a minute, the urgent ones first."""

from __future__ import annotations

import pytest

from service.emulator.played.report import Puts, Weight


@pytest.mark.parametrize(
    ("puts", "weight", "least", "free"),
    [
        ([], Weight.DETAIL, 15, 100),
        ([99], Weight.DETAIL, 15, 114),
        ([99], Weight.STATE, 15, 100),
        ([50, 60], Weight.DETAIL, 15, 110),
        ([50, 60, 70], Weight.STATE, 15, 110),
        ([50, 60, 70], Weight.END, 15, 100),
        ([50, 60, 70, 80], Weight.END, 15, 110),
        ([10, 20, 30, 40], Weight.END, 15, 100),
    ],
)
def test_a_report_waits_until_its_weight_allows(puts, weight, least, free):
    made = Puts(speed=1.0)
    made.times.extend(puts)
    assert made.free_at(100, weight, least) == free


def test_no_minute_has_five_puts_whatever_is_asked():
    made, sent, at = Puts(speed=1.0), [], 0.0
    for n in range(500):
        at = made.free_at(at + n % 3, Weight(1 + n % 3), 15)
        made.times.append(at)
        sent.append(at)
    assert all(sum(t <= other < t + 60 for other in sent) < 5 for t in sent)


def test_a_faster_world_has_shorter_minutes():
    made = Puts(speed=10.0)
    made.times.extend([97, 98, 99, 99.5])
    assert made.free_at(100, Weight.END, 15) == 103
