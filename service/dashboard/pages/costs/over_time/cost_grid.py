"""Costs by group and bucket, and the one rounding of them that a page shows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.application.costs.aggregation import CostRow
from service.application.costs.costs import CostReport
from service.dashboard.pages.costs.breakdown import Group, GroupCost, rank_groups
from service.domain.clock import DAY, HOUR
from service.domain.costs.display_rounding import in_units, places_for, round_table, unit_for
from service.domain.time_window import Granularity, Window, split_into_buckets, zone_of

MOST_BUCKETS = 168
"""The most columns of a chart: the hours of a week. A longer step is used for more."""

MOST_GROUPS = 20
"""Groups with a row of their own in the matrix. One row more has the sum of the others."""

_LENGTHS = {
    Granularity.HOUR: HOUR,
    Granularity.DAY: DAY,
    Granularity.WEEK: 7 * DAY,
    Granularity.MONTH: 28 * DAY,
}
_FITTING = (
    (2 * DAY, Granularity.HOUR),
    (100 * DAY, Granularity.DAY),
    (730 * DAY, Granularity.WEEK),
)
"""The step for a window of at most so many seconds, if the question names none."""


@dataclass(frozen=True, slots=True)
class CostGrid:
    """Nano-dollars and chip-seconds by group (the highest cost first) and by bucket. A bucket
    without cost is in the grid."""

    step: Granularity
    buckets: tuple[Window, ...]
    groups: tuple[Group, ...]
    costs: tuple[tuple[int, ...], ...]
    chip_seconds: tuple[tuple[int, ...], ...]
    listed: int

    @property
    def total(self) -> int:
        """The sum of all costs in nano-dollars."""
        return sum(map(sum, self.costs))


@dataclass(frozen=True, slots=True)
class RoundedGrid:
    """The costs in units of the last shown decimal. `cells` has a row for each of the first
    MOST_GROUPS groups, then one for all others, if there are others. Rows, columns and their sums
    are rounded at once, so that they add up."""

    places: int
    cells: tuple[tuple[int, ...], ...]

    def sum_groups(self, grid: CostGrid) -> list[int]:
        """The rounded cost of each group. Those of the groups in the last row add up to that
        row."""
        sums = list(map(sum, self.cells))
        others = grid.costs[MOST_GROUPS:]
        if not others:
            return sums
        parts = in_units(list(map(sum, others)), unit_for(self.places), sums[-1])
        return [*sums[:-1], *parts]

    def sum_buckets(self, grid: CostGrid) -> Mapping[int, int]:
        """The rounded cost of each bucket, by its start."""
        sums = [sum(column) for column in zip(*self.cells, strict=True)] or [0] * len(grid.buckets)
        return {bucket.start: units for bucket, units in zip(grid.buckets, sums, strict=True)}


def choose_step(window: Window, asked: Granularity) -> Granularity:
    """The step of the chart: the requested step, or a longer one if there would be too many
    columns. For `all`, the step that fits the window."""
    length = window.end - window.start
    if asked is Granularity.ALL:
        return next((step for most, step in _FITTING if length <= most), Granularity.MONTH)
    longer = list(_LENGTHS)[list(_LENGTHS).index(asked) :]
    fitting = (step for step in longer if length // _LENGTHS[step] <= MOST_BUCKETS)
    return next(fitting, Granularity.MONTH)


def build_grid(report: CostReport, step: Granularity, tz: str) -> CostGrid:
    """The grid of a report in that step."""
    buckets = tuple(split_into_buckets(report.window, step, zone_of(tz)))
    place_of = {bucket.start: place for place, bucket in enumerate(buckets)}
    rows_of: dict[Group, list[CostRow]] = defaultdict(list)
    sums: dict[Group, GroupCost] = defaultdict(GroupCost)
    for row in report.rows:
        rows_of[row.group].append(row)
        sums[row.group].add(row.cost, row.list_cost, row.chip_seconds)
    groups = tuple(group for group, _ in rank_groups(sums))
    costs, chips = [], []
    for group in groups:
        cost_line, chip_line = [0] * len(buckets), [0] * len(buckets)
        for row in rows_of[group]:
            cost_line[place_of[row.bucket.start]] += row.cost
            chip_line[place_of[row.bucket.start]] += row.chip_seconds
        costs.append(tuple(cost_line))
        chips.append(tuple(chip_line))
    return CostGrid(step, buckets, groups, tuple(costs), tuple(chips), report.list_total)


def round_grid(grid: CostGrid) -> RoundedGrid:
    """The costs of a grid as they are shown."""
    places = places_for(grid.total or grid.listed)
    rows = sum_others(grid.costs)
    return RoundedGrid(places, tuple(map(tuple, round_table(rows, unit_for(places)))))


def sum_others(rows: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The rows of the first MOST_GROUPS groups, and then the sum of all other rows."""
    shown, others = list(rows[:MOST_GROUPS]), rows[MOST_GROUPS:]
    return [*shown, *([[sum(column) for column in zip(*others, strict=True)]] if others else [])]
