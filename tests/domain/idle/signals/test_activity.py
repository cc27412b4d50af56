"""Tests of what a node did with its money."""

from __future__ import annotations

from service.domain.idle.signals.activity import (
    Activity,
    ActivitySlot,
    list_marks,
)
from tests.hands import NOON

STARTING, BUSY = Activity.STARTING, Activity.BUSY
IDLE, UNKNOWN = Activity.IDLE, Activity.UNKNOWN


def slot(start, end, what):
    return ActivitySlot(NOON + start, NOON + end, is_busy=what is BUSY, is_at_rest=what is IDLE)


def after(found):
    return [(at - NOON, what) for at, what in found if at >= NOON]


def test_a_node_starts_until_its_warm_up_is_over():
    found = list_marks([slot(0, 900, IDLE), slot(900, 1_200, BUSY)], NOON, NOON + 600)
    assert after(found) == [(0, STARTING), (600, IDLE), (900, BUSY), (1_200, UNKNOWN)]


def test_a_node_that_works_early_has_started():
    found = list_marks([slot(0, 300, IDLE), slot(300, 600, BUSY)], NOON, NOON + 1_800)
    assert after(found) == [(0, STARTING), (300, BUSY), (600, UNKNOWN)]


def test_what_no_slot_covers_is_unknown():
    found = list_marks([slot(0, 300, IDLE), slot(600, 900, IDLE)], NOON, NOON)
    assert after(found) == [(0, IDLE), (300, UNKNOWN), (600, IDLE), (900, UNKNOWN)]
    assert list_marks([], None, 0) == ((0, UNKNOWN),)
