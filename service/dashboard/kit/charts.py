"""Stacked columns: scales, ticks and positions of a chart, from amounts. Pure.

Amounts are whole nano-dollars until they become pixels. Horizontal positions are percentages, so
that a chart fits any width while its letters keep their size; vertical positions are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from service.dashboard.kit.figures import exact_places, format_units
from service.domain.costs.display_rounding import unit_for
from service.domain.money import NANOS

HEIGHT = 240
"""Pixels from the zero line to the highest tick."""

_BAR, _WIDE_BAR = 0.74, 0.46
"""The share of its band that a bar takes. The rest is space, and more space between few columns."""

_FEW = 10

_STEPS = (1, 2, 5)
_LETTER = 7.2
"""The most pixels that a letter of an axis label takes."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: pixels from the top, and its label."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a column: its series (a position), pixels from the top, and its height in
    pixels."""

    series: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as drawn: left edge and width of its band and of its bar, its middle, and its
    parts."""

    band: str
    band_width: str
    bar: str
    bar_width: str
    middle: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be drawn. `height` and `axis_width` are in pixels."""

    height: int
    ticks: tuple[Tick, ...]
    axis_width: int
    columns: tuple[Column, ...]
    top: int
    """The value of the highest tick."""

    def y_at(self, value: int) -> float:
        """Pixels from the top of a line at that value."""
        return round(self.height - to_pixels(value, self.top, self.height), 2)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A line or an area over the columns. `path` is in units of one column and of one pixel, `kind`
    its class, `name` its name for people."""

    kind: str
    path: str
    name: str


def trace_steps(values: Sequence[int], chart: Chart, first: int = 0) -> str:
    """The path of a line with one step for each column, from the column `first` on."""
    steps = [f"V{chart.y_at(value)}H{first + n}" for n, value in enumerate(values, 1)]
    return f"M{first} {chart.y_at(values[0])}{''.join(steps)}" if steps else ""


def tick_step(highest: int, at_most: int = 5) -> int:
    """The smallest step of 1, 2 or 5 times a power of ten with which `at_most` steps reach
    `highest`."""
    power = 1
    while True:
        for digit in _STEPS:
            if digit * power * at_most >= highest:
                return digit * power
        power *= 10


def ticks_for(highest: int) -> tuple[int, ...]:
    """The values of the scale, from zero to the first that is not below `highest`. Zero and one
    dollar if `highest` is not positive."""
    if highest <= 0:
        return 0, NANOS
    step = tick_step(highest)
    return tuple(range(0, highest + step, step))


def tick_labels(values: Sequence[int]) -> tuple[str, ...]:
    """The labels of ticks in dollars: all with the decimals that their step needs, zero as `$0`."""
    whole = all(value % NANOS == 0 for value in values)
    places = 0 if whole else exact_places(values)
    labels = []
    for value in values:
        if value == 0:
            labels.append("$0")
        elif value >= 100_000 * NANOS and value % (1_000 * NANOS) == 0:
            labels.append(f"{format_units(value // (1_000 * NANOS), 0)}k")
        else:
            labels.append(format_units(value // unit_for(places), places))
    return tuple(labels)


def to_pixels(value: int, top: int, height: int = HEIGHT) -> float:
    """The height of a value on a scale that ends at `top`, in pixels, to the hundredth."""
    return max(0, value) * height * 100 // top / 100


def stack_segments(values: Sequence[int], top: int) -> tuple[Segment, ...]:
    """The parts of one column, the first at the bottom. Neighbours share their edge exactly; a
    value that is not above zero has no part."""
    shown = [max(0, value) for value in values]
    edges = [to_pixels(edge, top) for edge in accumulate(shown, initial=0)]
    return tuple(
        Segment(series, round(HEIGHT - upper, 2), round(upper - lower, 2))
        for series, (lower, upper) in enumerate(pairwise(edges))
        if upper > lower
    )


def count_labels(values: Sequence[int]) -> tuple[str, ...]:
    """The labels of ticks that are counts."""
    return tuple(f"{value:,}" for value in values)


def draw_chart(
    amounts: Sequence[Sequence[int]],
    say: Callable[[Sequence[int]], tuple[str, ...]] = tick_labels,
    reach: int = 0,
) -> Chart:
    """The chart of amounts by column and series; `say` makes the labels of the ticks. The scale
    ends no lower than at `reach`."""
    highest = max((sum(max(0, value) for value in row) for row in amounts), default=0)
    highest = max(highest, reach)
    values = ticks_for(highest)
    labels = say(values)
    top = values[-1]
    ticks = tuple(
        Tick(HEIGHT - to_pixels(value, top), label)
        for value, label in zip(values, labels, strict=True)
    )
    share = _WIDE_BAR if len(amounts) <= _FEW else _BAR
    columns = []
    for number, row in enumerate(amounts):
        band = 100 / len(amounts)
        left = number * band
        columns.append(
            Column(
                band=_format_percent(left),
                band_width=_format_percent(band),
                bar=_format_percent(left + band * (1 - share) / 2),
                bar_width=_format_percent(band * share),
                middle=_format_percent(left + band / 2),
                segments=stack_segments(row, top),
            )
        )
    axis_width = round(max(map(len, labels)) * _LETTER) + 10
    return Chart(HEIGHT, ticks, axis_width, tuple(columns), top)


def _format_percent(share: float) -> str:
    return f"{share:.3f}%"
