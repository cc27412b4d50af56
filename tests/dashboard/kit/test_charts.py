"""Scales, ticks and stacks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dashboard.kit.charts import (
    HEIGHT,
    draw_chart,
    stack_segments,
    tick_labels,
    ticks_for,
    to_pixels,
    trace_steps,
)
from service.domain.money import NANOS

highest = st.integers(1, 10**18)


@given(highest)
def test_ticks_start_at_zero_are_even_and_cover_the_highest(value: int) -> None:
    ticks = ticks_for(value)
    assert ticks[0] == 0
    assert ticks[-2] < value <= ticks[-1]
    assert len({right - left for left, right in pairwise(ticks)}) == 1
    assert 3 <= len(ticks) <= 6 or value < 3


def test_with_nothing_to_show_there_is_still_a_scale() -> None:
    assert ticks_for(0) == (0, NANOS)


@pytest.mark.parametrize(
    ("dollars", "labels"),
    [
        (9, ("$0", "$2", "$4", "$6", "$8", "$10")),
        (21_500, ("$0", "$5,000", "$10,000", "$15,000", "$20,000", "$25,000")),
        (900_000, ("$0", "$200k", "$400k", "$600k", "$800k", "$1,000k")),
    ],
)
def test_ticks_say_round_dollars(dollars: int, labels: tuple[str, ...]) -> None:
    assert tick_labels(ticks_for(dollars * NANOS)) == labels


def test_ticks_of_small_sums_have_the_decimals_of_their_step() -> None:
    assert tick_labels(ticks_for(1_600_000_000)) == ("$0", "$0.50", "$1.00", "$1.50", "$2.00")
    assert tick_labels(ticks_for(4_200_000))[-1] == "$0.005"


@given(highest)
def test_no_two_ticks_say_the_same(value: int) -> None:
    labels = tick_labels(ticks_for(value))
    assert len(set(labels)) == len(labels)


@given(st.lists(st.integers(-(10**6), 10**15), max_size=8))
def test_the_parts_of_a_column_stand_on_each_other_from_the_zero_line_up(values: list[int]) -> None:
    shown = sum(max(0, value) for value in values)
    top = ticks_for(shown)[-1]
    foot: float = HEIGHT
    for segment in stack_segments(values, top):
        assert segment.y + segment.height == pytest.approx(foot, abs=0.02)
        foot = segment.y
    assert HEIGHT - foot == pytest.approx(to_pixels(shown, top), abs=0.02)
    assert foot >= 0


def test_what_is_not_above_zero_is_not_drawn() -> None:
    assert [segment.series for segment in stack_segments([0, 5, -3, 5], 10)] == [1, 3]


def test_columns_share_the_width_evenly() -> None:
    picture = draw_chart([[NANOS], [0], [3 * NANOS], [NANOS]])
    assert [column.band for column in picture.columns] == [
        "0.000%",
        "25.000%",
        "50.000%",
        "75.000%",
    ]
    assert [len(column.segments) for column in picture.columns] == [1, 0, 1, 1]
    assert picture.ticks[0].y == HEIGHT
    assert picture.ticks[-1].y == 0


def test_the_scale_reaches_a_line_above_the_columns() -> None:
    picture = draw_chart([[NANOS], [2 * NANOS]], reach=10 * NANOS)
    assert picture.top == 10 * NANOS
    assert trace_steps([10 * NANOS, 0], picture) == f"M0 0.0V0.0H1V{HEIGHT}.0H2"
    assert trace_steps([], picture) == ""
