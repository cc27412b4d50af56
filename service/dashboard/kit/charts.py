"""Stacked columns: from amounts to scales, ticks and places in a picture. Pure.

Amounts stay whole nano-dollars until they become pixels. Across, places are percentages, so that
the picture fits any width without its letters growing or shrinking; down, they are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from service.dashboard.kit.figures import exact_places, spelled
from service.domain.costs.display_rounding import unit_for
from service.domain.money import NANOS

HEIGHT = 240
"""Pixels from the zero line to the highest tick."""

_BAR, _WIDE_BAR = 0.74, 0.46
"""What a column takes of the width that is there for it; the rest is air, and more of it where
there are few columns."""

_FEW = 10

_STEPS = (1, 2, 5)
_LETTER = 7.2
"""Pixels that a letter of an axis label takes at most."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: pixels from the top, and what it says."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a column: its series (a position), pixels from the top, and its height."""

    series: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the left edge and width of its band and of its bar, and its parts, as drawn."""

    band: str
    band_width: str
    bar: str
    bar_width: str
    middle: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be drawn. `axis_width` is in pixels."""

    height: int
    ticks: tuple[Tick, ...]
    axis_width: int
    columns: tuple[Column, ...]
    top: int
    """The value of the highest tick."""

    def level(self, value: int) -> float:
        """Pixels from the top of a line at that value."""
        return round(self.height - pixels(value, self.top, self.height), 2)


def tick_step(highest: int, at_most: int = 5) -> int:
    """The smallest step of 1, 2 or 5 times a power of ten by which `at_most` cover the highest."""
    power = 1
    while True:
        for digit in _STEPS:
            if digit * power * at_most >= highest:
                return digit * power
        power *= 10


def ticks_for(highest: int) -> tuple[int, ...]:
    """Values of the scale, from zero to one that is not below the highest. With nothing to show,
    a scale to one dollar."""
    if highest <= 0:
        return 0, NANOS
    step = tick_step(highest)
    return tuple(range(0, highest + step, step))


def tick_labels(values: Sequence[int]) -> tuple[str, ...]:
    """What the ticks say: all with the decimals that their step needs, and zero without any."""
    whole = all(value % NANOS == 0 for value in values)
    places = 0 if whole else exact_places(values)
    return tuple("$0" if value == 0 else _tick_label(value, places) for value in values)


def _tick_label(value: int, places: int) -> str:
    if value >= 100_000 * NANOS and value % (1_000 * NANOS) == 0:
        return f"{spelled(value // (1_000 * NANOS), 0)}k"
    return spelled(value // unit_for(places), places)


def pixels(value: int, top: int, height: int = HEIGHT) -> float:
    """How high a value stands on a scale that ends at `top`, to the hundredth of a pixel."""
    return max(0, value) * height * 100 // top / 100


def stacked(values: Sequence[int], top: int) -> tuple[Segment, ...]:
    """The parts of one column, the first at the bottom. Neighbours share their edge exactly, and
    what is not above zero is not drawn."""
    shown = [max(0, value) for value in values]
    edges = [pixels(edge, top) for edge in accumulate(shown, initial=0)]
    return tuple(
        Segment(series, round(HEIGHT - upper, 2), round(upper - lower, 2))
        for series, (lower, upper) in enumerate(pairwise(edges))
        if upper > lower
    )


def count_labels(values: Sequence[int]) -> tuple[str, ...]:
    """What the ticks of a scale of counts say."""
    return tuple(f"{value:,}" for value in values)


def draw(
    amounts: Sequence[Sequence[int]],
    say: Callable[[Sequence[int]], tuple[str, ...]] = tick_labels,
) -> Chart:
    """The picture of amounts by column and series; `say` makes the labels of the ticks."""
    highest = max((sum(max(0, value) for value in row) for row in amounts), default=0)
    values = ticks_for(highest)
    labels = say(values)
    top = values[-1]
    ticks = tuple(
        Tick(HEIGHT - pixels(value, top), label)
        for value, label in zip(values, labels, strict=True)
    )
    columns = tuple(
        _column(number, len(amounts), stacked(row, top)) for number, row in enumerate(amounts)
    )
    return Chart(HEIGHT, ticks, round(max(map(len, labels)) * _LETTER) + 10, columns, top)


def _column(number: int, of: int, segments: tuple[Segment, ...]) -> Column:
    band = 100 / of
    left = number * band
    share = _WIDE_BAR if of <= _FEW else _BAR
    return Column(
        band=_percent(left),
        band_width=_percent(band),
        bar=_percent(left + band * (1 - share) / 2),
        bar_width=_percent(band * share),
        middle=_percent(left + band / 2),
        segments=segments,
    )


def _percent(share: float) -> str:
    return f"{share:.3f}%"
