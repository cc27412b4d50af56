"""When too much of a fleet went missing: tables, and properties over all rows of looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.orphans.fleet_watch import WINDOW_SECONDS, FleetWatch, next_watch
from service.domain.orphans.orphan import OrphanVerdict
from service.domain.orphans.verdict import judge_orphan
from tests.garbage import LONG, PERIOD, orphan, watch
from tests.hands import NOON

looks = st.lists(
    st.tuples(st.integers(-30, 400), st.integers(0, 8), st.booleans()), min_size=1, max_size=40
)


@given(looks)
def test_the_window_is_an_unbroken_row_of_looks_and_half_a_fleet_closes_it(row):
    """However the looks fall: nothing may be collected within a window after a gap, a step of the
    clock, or a complete look that has shown at least twice as many as the last complete one."""
    around, now, gap_at, complete = None, NOON, NOON, []
    for step, size, partial in row:
        now += step
        if around is not None and not 0 <= step <= WINDOW_SECONDS // 3:
            gap_at = now
        blind = frozenset({(False, "x")}) if partial else frozenset()
        around = next_watch(around, now, size, blind, PERIOD)
        gap_at = now if around.asked == around.since else gap_at
        if not partial:
            complete.append((now, size))
        if judge_orphan(orphan(since=0), around, now)[0] is OrphanVerdict.COLLECT:
            assert now - gap_at > WINDOW_SECONDS
            recent = [most for at, most in complete if now - at < WINDOW_SECONDS]
            assert not any(most and 2 * complete[-1][1] <= most for most in recent)


@given(looks, st.integers(0, 8))
def test_no_freeze_outlives_a_window_of_looks_that_show_the_same(row, size):
    around, now = None, NOON
    for step, before, _ in row:
        now += step
        around = next_watch(around, now, before, frozenset(), PERIOD)
    for _ in range(1 + WINDOW_SECONDS // PERIOD):
        now += PERIOD
        around = next_watch(around, now, size, frozenset(), PERIOD)
    assert around is not None
    assert not around.is_shrunk
    assert around.most_nodes == size


def slid(*sizes: int, every: int = PERIOD) -> FleetWatch:
    """A fleet of ten that was looked at again and again, and has shown these sizes."""
    around, now = watch(), NOON
    for size in sizes:
        now += every
        around = next_watch(around, now, size, frozenset(), PERIOD)
    return around


@pytest.mark.parametrize(
    ("sizes", "is_shrunk"),
    [
        ((6,), False),
        ((5,), True),
        ((4,), True),
        ((0,), True),
        ((6, 5), True),
        ((6, 4), True),
        ((9, 8, 7, 6, 5), True),
        ((8, 6, 7), False),
        ((4, 6), False),
        ((4, 9), False),
    ],
)
def test_half_of_the_most_that_was_seen_in_the_window_freezes(sizes, is_shrunk):
    assert slid(*sizes).is_shrunk is is_shrunk


def test_a_slide_that_takes_longer_than_the_window_is_no_fall():
    """Ten came down to six, which was seen for a quarter of an hour, then to four."""
    assert not slid(6, *[6] * (WINDOW_SECONDS // PERIOD), 4).is_shrunk
    assert slid(6, *[6] * (WINDOW_SECONDS // PERIOD - 2), 4).is_shrunk


@pytest.mark.parametrize(("most", "left"), [(10, 5), (10, 4), (10, 0), (2, 1), (1, 0)])
def test_what_goes_missing_freezes_until_it_was_seen_for_a_window(most, left):
    """So does one of two, and after the window a tiny fleet is free like any other."""
    around, at = watch(sizes=((most, NOON - LONG),)), NOON + PERIOD
    around = next_watch(around, at, left, frozenset(), PERIOD)
    while at < NOON + PERIOD + WINDOW_SECONDS:
        assert (around.is_shrunk, around.most_nodes) == (True, most)
        assert judge_orphan(orphan(), around, at)[0] is OrphanVerdict.OBSERVE
        at += PERIOD
        around = next_watch(around, at, left, frozenset(), PERIOD)
    assert (around.is_shrunk, around.most_nodes) == (False, left)
    assert judge_orphan(orphan(), around, at)[0] is OrphanVerdict.COLLECT


def test_a_fleet_that_comes_back_is_free_at_once():
    around = slid(4, 9)
    assert (around.is_shrunk, around.sizes[-1][0]) == (False, 9)


def test_the_most_that_was_seen_outlives_a_gap_in_the_looks():
    around = next_watch(slid(6), NOON + LONG, 5, frozenset(), PERIOD)
    assert (around.since, around.is_shrunk) == (NOON + LONG, True)


def test_a_list_that_lacks_a_zone_says_nothing_of_the_size_of_the_fleet():
    blind = frozenset({(False, "us-east1-c")})
    around = next_watch(watch(), NOON + 15, 1, blind, PERIOD)
    assert (around.sizes, around.is_shrunk) == (watch().sizes, False)
