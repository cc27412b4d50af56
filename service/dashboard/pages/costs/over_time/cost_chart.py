"""The chart of costs: columns stacked by group, and the period before as a line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from zoneinfo import ZoneInfo

from service.application.costs.costs import CostReport
from service.dashboard.kit.charts import Chart, Overlay, draw_chart, trace_steps
from service.dashboard.kit.cost_query import CostsAsked, Show
from service.dashboard.kit.figures import Moment, format_money, format_units, to_moment
from service.dashboard.kit.series import GROUPINGS, Grouping, build_series
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
)
from service.dashboard.pages.costs.over_time.cost_matrix import format_rate, name_time
from service.dashboard.pages.costs.spend_chart import DayLabel, LegendEntry, format_shares
from service.dashboard.pages.costs.spenders import describe_change
from service.domain.clock import HOUR
from service.domain.money import half_even
from service.domain.time_window import Granularity, zone_of

_LABELS = 8
_ALL_TOGETHER = 5
"""The place in the palette of a chart with one layer."""

_TITLES = {Show.COST: "Cost", Show.CUMULATIVE: "Cumulative cost", Show.RATE: "Cost per chip-hour"}


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """The text of a column, its first line, and the page of its time."""

    hint: str
    head: str
    href: str
    marks: str = ""


@dataclass(frozen=True, slots=True)
class PeriodBefore:
    """The cost of the same time before, the change since then, and its page."""

    total: str
    change: str
    start: Moment
    end: Moment
    href: str


@dataclass(frozen=True, slots=True)
class CostChart:
    """The chart and its legend; `before` is None if the time before is not known."""

    title: str
    description: str
    picture: Chart
    places: tuple[int, ...]
    labels: tuple[DayLabel, ...]
    rows: tuple[ChartColumn, ...]
    legend: tuple[LegendEntry, ...]
    overlays: tuple[Overlay, ...]
    before: PeriodBefore | None


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The figures of a chart: nano-dollars by column and layer, the total and the parts of each
    column in words, the legend, and the places of the layers in the palette."""

    amounts: list[list[int]]
    hints: list[tuple[str, list[str]]]
    legend: tuple[LegendEntry, ...]
    places: tuple[int, ...]


class _Layer(NamedTuple):
    """A layer of the stack: exact nano-dollars by bucket, and the same as they are shown."""

    name: str
    place: int
    href: str
    exact: Sequence[int]
    shown: Sequence[int]

    def add_up(self) -> _Layer:
        """The layer of running sums."""
        return self._replace(exact=list(accumulate(self.exact)), shown=list(accumulate(self.shown)))


def build_cost_chart(
    asked: CostsAsked,
    grid: CostGrid,
    rounded: RoundedGrid,
    names: Mapping[str, Value],
    before: CostReport | None,
) -> CostChart:
    """The chart of a grid. `before` is the report of the same time before in shorter steps,
    grouped by nothing."""
    zone = zone_of(asked.tz)
    earlier = None if before is None else _measure_before(asked, grid, before)
    drawing = (
        _draw_rates(asked, grid)
        if asked.show is Show.RATE
        else _draw_costs(asked, grid, rounded, names)
    )
    picture = draw_chart(drawing.amounts, reach=max(earlier or [0]))
    finer = FINER.get(grid.step, Granularity.ALL)
    columns = []
    for number, (bucket, (total, parts)) in enumerate(
        zip(grid.buckets, drawing.hints, strict=True)
    ):
        head = f"{describe_bucket(bucket, grid.step, zone)}: {total}"
        then = [f"the time before: {format_money(earlier[number])}"] if earlier else []
        hint = "\n".join([head, *parts, *then])
        columns.append(ChartColumn(hint, head, asked.narrow_to(bucket, finer).page))
    by = ", ".join(map(dimension_title, asked.aggregate))
    title = f"{_TITLES[asked.show]} by {grid.step}"
    return CostChart(
        title=title if asked.show is Show.RATE or not by else f"{title} and {by}",
        description=_describe(grid, before, zone),
        picture=picture,
        places=drawing.places,
        labels=_label_buckets(grid, zone),
        rows=tuple(columns),
        legend=drawing.legend,
        overlays=()
        if earlier is None
        else (Overlay("before", trace_steps(earlier, picture), "the same time before"),),
        before=None
        if before is None
        else PeriodBefore(
            total=format_money(before.total),
            change=describe_change(grid.total, before.total),
            start=to_moment(before.window.start),
            end=to_moment(before.window.end),
            href=asked.narrow_to(before.window, asked.step).page,
        ),
    )


def _draw_costs(
    asked: CostsAsked, grid: CostGrid, rounded: RoundedGrid, names: Mapping[str, Value]
) -> _Drawing:
    """Costs or running sums, stacked by group."""
    # The layers of the groups, the lowest first. All groups without a place in the palette share
    # one layer.
    layers = []
    keys = {"\0".join(group): number for number, group in enumerate(grid.groups)}
    costs = {key: sum(grid.costs[number]) for key, number in keys.items()}
    dimension = asked.aggregate[0] if len(asked.aggregate) == 1 else ""
    grouping = GROUPINGS.get(dimension) or Grouping(dimension, dimension, "")
    for series in build_series(grouping, costs):
        members = sorted(keys[key] for key in series.values)
        rows = dict.fromkeys(min(number, MOST_GROUPS) for number in members)
        name, href = series.name, "#group-heading"
        if len(members) == 1:
            values = link_values(asked, grid.groups[members[0]], names)
            name, href = " / ".join(value.text for value in values), values[-1].href
        layer = _Layer(
            name,
            series.place,
            href,
            [sum(column) for column in zip(*(grid.costs[n] for n in members), strict=True)],
            [sum(column) for column in zip(*(rounded.cells[n] for n in rows), strict=True)],
        )
        layers.append(layer)
    totals = [sum(layer.shown) for layer in layers]
    legend = [
        LegendEntry(
            layer.name,
            layer.place,
            format_units(units, rounded.places),
            share,
            layer.href,
        )
        for layer, units, share in zip(layers, totals, format_shares(totals), strict=True)
    ]
    if asked.show is Show.CUMULATIVE:
        layers = [layer.add_up() for layer in layers]
    hints = []
    for number in range(len(grid.buckets)):
        parts = [
            f"{layer.name}: {format_units(layer.shown[number], rounded.places)}"
            for layer in reversed(layers)
            if layer.exact[number]
        ]
        whole = sum(layer.shown[number] for layer in layers)
        hints.append((format_units(whole, rounded.places), parts))
    amounts = [list(column) for column in zip(*(layer.exact for layer in layers), strict=True)]
    return _Drawing(amounts, hints, tuple(reversed(legend)), tuple(layer.place for layer in layers))


def _draw_rates(asked: CostsAsked, grid: CostGrid) -> _Drawing:
    """The cost of a chip-hour of everything in each bucket, as one layer."""
    costs = [sum(column) for column in zip(*grid.costs, strict=True)]
    chips = [sum(column) for column in zip(*grid.chip_seconds, strict=True)]
    pairs = list(zip(costs, chips, strict=True))
    legend = LegendEntry(
        "everything, per chip-hour",
        _ALL_TOGETHER,
        format_rate(sum(costs), sum(chips)),
        "",
        asked.with_show(Show.COST).page,
    )
    return _Drawing(
        amounts=[[_rate_of(*pair)] for pair in pairs],
        hints=[(f"{format_rate(*pair)} per chip-hour", []) for pair in pairs],
        legend=(legend,),
        places=(_ALL_TOGETHER,),
    )


def _rate_of(cost: int, chip_seconds: int) -> int:
    """Nano-dollars per chip-hour; 0 without chips."""
    return half_even(cost * HOUR, chip_seconds) if chip_seconds > 0 else 0


def _measure_before(asked: CostsAsked, grid: CostGrid, before: CostReport) -> list[int]:
    """The figure of each bucket in the period before, shifted by the distance of both periods."""
    costs, chips = [0] * len(grid.buckets), [0] * len(grid.buckets)
    shift = grid.buckets[0].start - before.window.start
    for row in before.rows:
        # The middle of a row: where the clocks change, its edge can lie in the bucket beside.
        middle = (row.bucket.start + row.bucket.end) // 2 + shift
        place = next(
            (n for n, bucket in enumerate(grid.buckets) if middle < bucket.end),
            len(grid.buckets) - 1,
        )
        costs[place] += row.cost
        chips[place] += row.chip_seconds
    if asked.show is Show.RATE:
        return list(map(_rate_of, costs, chips))
    return list(accumulate(costs)) if asked.show is Show.CUMULATIVE else costs


def _label_buckets(grid: CostGrid, zone: ZoneInfo) -> tuple[DayLabel, ...]:
    """At most _LABELS labels, evenly spread; every second one is left out in a narrow chart."""
    stride = -(-len(grid.buckets) // _LABELS)
    return tuple(
        DayLabel(column, name_time(grid.buckets[column].start, grid.step, zone), rank % 2 == 1)
        for rank, column in enumerate(range(0, len(grid.buckets), stride))
    )


def _describe(grid: CostGrid, before: CostReport | None, zone: ZoneInfo) -> str:
    sums: Sequence[int] = [sum(column) for column in zip(*grid.costs, strict=True)]
    highest = max(sums)
    first, last = (describe_bucket(grid.buckets[n], grid.step, zone) for n in (0, -1))
    said = f"One column for each {grid.step} from {first} to {last}: {format_money(sum(sums))}."
    if highest > 0:
        peak = describe_bucket(grid.buckets[sums.index(highest)], grid.step, zone)
        said += f" The highest is {format_money(highest)}, {peak}."
    if before is not None:
        said += f" The line is the same time before: {format_money(before.total)}."
    return said
