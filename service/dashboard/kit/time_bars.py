"""Horizontal bars over time: positions of spans and of the labels of the axis. Pure.

Positions are percentages, so that a bar fits any width while its letters keep their size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from service.domain.clock import DAY, HOUR, MINUTE

MOST_SPANS = 200
"""The most spans of one lane that are drawn; the shortest ones are left out."""

_LEAST_WIDTH, _LEAST_TROUBLE = 0.12, 0.4
"""Percent; about a pixel, and enough to be seen."""

_LETTER = 2.1
"""Percent of the bar that a letter takes on a narrow screen."""

_STEPS = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR),
    *(12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY, 180 * DAY, 365 * DAY),
)
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """What is shown in [start, end), whole UTC seconds. `look` names a fill, `hint` says it in
    words; `label` is written on the span where it fits."""

    start: int
    end: int
    look: str
    label: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """A span as drawn. `label` is empty where it does not fit."""

    x: str
    width: str
    look: str
    label: str
    hint: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a bar. `left_out` counts the spans that are too short to be drawn."""

    name: str
    spans: tuple[DrawnSpan, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class TimeTick:
    """A label of the axis. `anchor` is the side of the label that stands at `x`: an end of the axis
    has no room on its other side."""

    x: str
    label: str
    anchor: str


@dataclass(frozen=True, slots=True)
class TimeBars:
    """Several lanes over one axis. `title` names them, `words` says the same as the picture."""

    title: str
    words: str
    lanes: tuple[Lane, ...]
    ticks: tuple[TimeTick, ...]


def format_position(seconds: float, whole: int) -> str:
    """A part of a duration in percent of it, for a position in a picture."""
    return f"{100 * seconds / max(1, whole):.3f}%"


def draw_lane(
    name: str, spans: Iterable[TimeSpan], start: int, end: int, left_out: int = 0
) -> Lane:
    """A lane of [start, end). Spans outside are cut; of too many spans the longest are drawn.
    `left_out` counts the spans that the caller has left out for that reason."""
    shown = [
        TimeSpan(max(span.start, start), min(span.end, end), span.look, span.label, span.hint)
        for span in spans
        if span.start < end and span.end > start
    ]
    longest = sorted(shown, key=lambda span: span.start - span.end)[:MOST_SPANS]
    # Trouble is drawn last: it is short, and nothing may hide it.
    drawn = sorted(longest, key=lambda span: (span.look == "trouble", span.start))
    whole, bars = max(1, end - start), []
    for span in drawn:
        least = _LEAST_TROUBLE if span.look == "trouble" else _LEAST_WIDTH
        width = max(least, 100 * (span.end - span.start) / whole)
        bars.append(
            DrawnSpan(
                x=format_position(span.start - start, whole),
                width=f"{width:.3f}%",
                look=span.look,
                label=span.label if width > (len(span.label) + 1) * _LETTER else "",
                hint=span.hint,
            )
        )
    return Lane(name, tuple(bars), left_out + len(shown) - len(drawn))


def draw_ticks(start: int, end: int) -> tuple[TimeTick, ...]:
    """The labels of an axis from `start` to `end`: times of day, or dates over several days."""
    whole = max(1, end - start)
    step = next((step for step in _STEPS if whole <= step * _MOST_TICKS), _STEPS[-1])
    first = -(-start // step) * step
    found = []
    for at in range(first, end + 1, step):
        then = datetime.fromtimestamp(at, UTC)
        is_date = step >= DAY or (at % DAY == 0 and whole > DAY)
        label = f"{then.day} {then:%b}" if is_date else f"{then:%H:%M}"
        share = 100 * (at - start) / whole
        anchor = "start" if share < 5 else "end" if share > 95 else "middle"
        found.append(TimeTick(format_position(at - start, whole), label, anchor))
    return tuple(found)
