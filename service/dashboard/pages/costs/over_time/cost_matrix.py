"""The matrix of groups and buckets: the figures of the chart as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from zoneinfo import ZoneInfo

from service.dashboard.kit.cost_query import CostsAsked, Show
from service.dashboard.kit.figures import exact_places, format_exact, format_money, format_units
from service.dashboard.pages.costs.breakdown import (
    FINER,
    Value,
    describe_bucket,
    dimension_title,
    link_values,
)
from service.dashboard.pages.costs.over_time.cost_grid import (
    MOST_GROUPS,
    CostGrid,
    RoundedGrid,
    sum_others,
)
from service.domain.clock import HOUR
from service.domain.costs.display_rounding import unit_for
from service.domain.money import half_even
from service.domain.time_window import Granularity, zone_of

MOST_COLUMNS = 31
"""The latest buckets with a column of their own. One column more has the sum of those before."""

NOTHING = "\N{EN DASH}"

_NOTES = {
    Show.COST: "newest first; rows and columns add up to the total",
    Show.CUMULATIVE: "newest first; each cell is the sum up to the end of that time",
    Show.RATE: "newest first; cost divided by chip-hours, which does not add up",
}


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One row: its subject, its total, and a cell for each column."""

    what: tuple[Value, ...]
    total: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CostMatrix:
    """The table. `times` are the names of the columns, each with its page and its full name."""

    title: str
    note: str
    head: str
    total_name: str
    times: tuple[tuple[Value, str], ...]
    rows: tuple[MatrixRow, ...]
    total: MatrixRow


def build_matrix(
    asked: CostsAsked, grid: CostGrid, rounded: RoundedGrid, names: Mapping[str, Value]
) -> CostMatrix:
    """The matrix in the figures that the question shows."""
    hidden = max(0, len(grid.buckets) - MOST_COLUMNS)
    costs = sum_others(grid.costs)
    lines = list(_format_lines(asked, grid, rounded, hidden))
    by = ", ".join(map(dimension_title, asked.aggregate)) or "everything"
    whats = [link_values(asked, group, names) for group in grid.groups[:MOST_GROUPS]]
    if len(costs) > len(whats):
        whats.append((Value(f"{len(grid.groups) - MOST_GROUPS:,} others", "#group-heading"),))
    rows = [MatrixRow(what, *line) for what, line in zip(whats, lines, strict=False)]
    zone, finer = zone_of(asked.tz), FINER.get(grid.step, Granularity.ALL)
    times = [
        (
            Value(name_time(bucket.start, grid.step, zone), asked.narrow_to(bucket, finer).page),
            describe_bucket(bucket, grid.step, zone),
        )
        for bucket in grid.buckets[hidden:]
    ]
    if hidden:
        before = Value(f"{hidden} before", "#time-heading"), f"{hidden} times before these"
        times.insert(0, before)
    return CostMatrix(
        title=f"{by.capitalize()} by {grid.step}",
        note=_NOTES[asked.show],
        head=by.capitalize(),
        total_name="All" if asked.show is Show.RATE else "Total",
        times=tuple(reversed(times)),
        rows=tuple(rows),
        total=MatrixRow((), *lines[-1]),
    )


def _format_lines(
    asked: CostsAsked, grid: CostGrid, rounded: RoundedGrid, hidden: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The total and the cells, the newest first, of each row and of the row of totals."""
    costs, chips = _with_totals(sum_others(grid.costs)), _with_totals(sum_others(grid.chip_seconds))
    if asked.show is Show.RATE:
        for cost, chip in zip(costs, chips, strict=True):
            pairs = zip(_fold(cost, hidden), _fold(chip, hidden), strict=True)
            cells = (format_rate(part, seconds, exact=asked.exact) for part, seconds in pairs)
            yield format_rate(sum(cost), sum(chip), exact=asked.exact), tuple(cells)[::-1]
        return
    units, places = _with_totals(rounded.cells), rounded.places
    if asked.exact:
        # Single hidden buckets can need more decimals than their sum.
        places = exact_places(nanos for row in costs for nanos in row)
        units = [[nanos // unit_for(places) for nanos in row] for row in costs]
    for cost, row in zip(costs, units, strict=True):
        amounts: Sequence[int] = _fold(row, hidden)
        is_empty = [not nanos for nanos in _fold(cost, hidden)]
        if asked.show is Show.CUMULATIVE:
            amounts, is_empty = list(accumulate(amounts)), [False] * len(amounts)
        cells = (
            NOTHING if empty else format_units(amount, places)
            for amount, empty in zip(amounts, is_empty, strict=True)
        )
        yield format_units(sum(row), places), tuple(cells)[::-1]


def _with_totals(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [*map(list, rows), [sum(column) for column in zip(*rows, strict=True)]]


def _fold(row: Sequence[int], hidden: int) -> list[int]:
    """The row with the sum of its first `hidden` cells in their place."""
    return [sum(row[:hidden]), *row[hidden:]] if hidden else list(row)


def format_rate(cost: int, chip_seconds: int, *, exact: bool = False) -> str:
    """A cost per chip-hour; a dash without chips."""
    if chip_seconds <= 0:
        return NOTHING
    rate = half_even(cost * HOUR, chip_seconds)
    return format_exact(rate) if exact else format_money(rate)


def name_time(start: int, step: Granularity, zone: ZoneInfo) -> str:
    """A short name of a bucket: `14:00`, `5 Nov` or `Nov 2026`. An hour at midnight has the name of
    its day."""
    then = datetime.fromtimestamp(start, zone)
    if step is Granularity.HOUR and then.hour:
        return f"{then:%H:%M}"
    return f"{then:%b %Y}" if step is Granularity.MONTH else f"{then.day} {then:%b}"
