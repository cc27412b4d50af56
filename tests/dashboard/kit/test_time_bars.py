"""Bars over time: where spans and labels are drawn."""

from __future__ import annotations

import pytest

from service.dashboard.kit.time_bars import MOST_SPANS, TimeSpan, draw_lane, draw_ticks
from service.domain.clock import DAY, HOUR
from tests.hands import NOON


def percent(text):
    return float(text.removesuffix("%"))


def test_spans_fill_their_share_and_are_cut_at_the_ends():
    lane = draw_lane(
        "State",
        [
            TimeSpan(NOON - 100, NOON + 25, "up", "READY"),
            TimeSpan(NOON + 25, NOON + 200, "going", "DELETING"),
            TimeSpan(NOON + 100, NOON + 200, "still"),
        ],
        NOON,
        NOON + 100,
    )
    assert [(span.x, span.width) for span in lane.spans] == [
        ("0.000%", "25.000%"),
        ("25.000%", "75.000%"),
    ]


def test_a_label_is_written_only_where_it_fits():
    spans = [TimeSpan(0, 100, "up", "READY"), TimeSpan(100, 1_000, "up", "READY")]
    assert [span.label for span in draw_lane("", spans, 0, 1_000).spans] == ["", "READY"]


def test_of_too_many_spans_the_longest_are_drawn_in_order_and_the_rest_is_counted():
    spans = [TimeSpan(at, at + 1, "up") for at in range(0, 20_000, 2)] + [
        TimeSpan(20_000, 30_000, "trouble")
    ]
    lane = draw_lane("", spans, 0, 30_000)
    assert len(lane.spans) == MOST_SPANS
    assert lane.left_out == 10_001 - MOST_SPANS
    assert lane.spans[-1].look == "trouble"
    assert all(percent(span.width) > 0.1 for span in lane.spans)


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0, ["12:00"]),
        (90 * 60, ["12:00", "12:15", "12:30", "12:45", "13:00", "13:15", "13:30"]),
        (2 * DAY, ["12:00", "6 Nov", "12:00", "7 Nov", "12:00"]),
        (30 * DAY, ["12 Nov", "19 Nov", "26 Nov", "3 Dec"]),
    ],
)
def test_the_axis_has_few_round_labels(seconds, labels):
    assert [tick.label for tick in draw_ticks(NOON, NOON + seconds)] == labels


def test_the_last_label_stands_within_the_bar():
    *_, last = draw_ticks(NOON, NOON + 6 * HOUR)
    assert (last.x, last.anchor) == ("100.000%", "end")
