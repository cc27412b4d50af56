"""The costs by day as a chart, a legend and a table, which show the same figures. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from service.application.costs.costs import CostReport
from service.dashboard.kit.charts import Chart, draw
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import moment, money, spelled
from service.dashboard.kit.series import Grouping, Series, series_of
from service.domain.clock import DAY
from service.domain.costs.display_rounding import places_for, rounded, unit_for
from service.domain.time_window import Granularity, Window, buckets, zone_of

WINDOWS = {"7d": "7 days", "30d": "30 days", "90d": "90 days"}
"""The windows of the chart, as the address and as people say them."""

NOTHING = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One line of the legend; the texture goes by `place`, and `href` to what it is made of."""

    name: str
    place: int
    total: str
    share: str
    href: str


@dataclass(frozen=True, slots=True)
class DayLabel:
    """A label below a column; minor ones are left out where it is narrow. A flush one ends at the
    edge of the chart, because it is wider than its column."""

    column: int
    text: str
    minor: bool
    flush: bool = False


@dataclass(frozen=True, slots=True)
class SpendDay:
    """One day of the table: its amounts by series, and their sum; `href` is its own page."""

    day: str
    iso: str
    amounts: tuple[str, ...]
    total: str
    hint: str
    href: str


@dataclass(frozen=True, slots=True)
class Spending:
    """All of it, in words and places. `total` is what every displayed amount adds up to."""

    title: str
    description: str
    picture: Chart
    places: tuple[int, ...]
    labels: tuple[DayLabel, ...]
    legend: tuple[LegendEntry, ...]
    rows: tuple[SpendDay, ...]
    total: str
    as_of: str
    estimated: bool


def spending_of(report: CostReport, grouping: Grouping, window: str) -> Spending:
    """The chart for a report of that window by day and that dimension."""
    asked = CostsAsked(window, (grouping.dimension,), Granularity.DAY)
    days = [part.start for part in buckets(report.window, Granularity.DAY, zone_of("UTC"))]
    totals: dict[str, int] = defaultdict(int)
    for row in report.rows:
        totals[row.group[0]] += row.cost
    layers = series_of(grouping, totals)
    amounts = _matrix(report, days, layers)
    places = places_for(report.total)
    shown = rounded(amounts, unit_for(places), len(days) - 1 if days else None)
    return Spending(
        title=f"Cost by day and {grouping.title}",
        description=_description(days, amounts, report.total),
        picture=draw(amounts),
        places=tuple(layer.place for layer in layers),
        labels=_labels(days),
        legend=_legend(layers, shown, places, asked),
        rows=_rows(days, amounts, shown, layers, asked),
        total=spelled(sum(map(sum, shown)), places),
        as_of=moment(report.as_of).full,
        estimated=report.estimated,
    )


def _matrix(report: CostReport, days: Sequence[int], layers: Sequence[Series]) -> list[list[int]]:
    """Nano-dollars by day and series; days without any cost are rows as well."""
    row_of = {day: number for number, day in enumerate(days)}
    column_of = {value: n for n, layer in enumerate(layers) for value in layer.values}
    matrix = [[0] * len(layers) for _ in days]
    for row in report.rows:
        matrix[row_of[row.bucket.start]][column_of[row.group[0]]] += row.cost
    return matrix


def _legend(
    layers: Sequence[Series], shown: Sequence[Sequence[int]], places: int, asked: CostsAsked
) -> tuple[LegendEntry, ...]:
    """Highest layer first, as the eye meets them."""
    columns = [sum(row[n] for row in shown) for n in range(len(layers))]
    total = sum(columns)
    entries = [
        LegendEntry(
            layer.name,
            layer.place,
            spelled(units, places),
            share(units, total),
            _made_of(layer, asked.in_steps(Granularity.ALL)),
        )
        for layer, units in zip(layers, columns, strict=True)
    ]
    return tuple(reversed(entries))


def _made_of(layer: Series, asked: CostsAsked) -> str:
    """Where a layer is broken down: one value by what is below it, several by themselves."""
    if len(layer.values) > 1:
        return asked.page
    (value,) = layer.values
    return asked.into(asked.aggregate[0], value).page


def share(part: int, total: int) -> str:
    """A part in whole percent of a total that is not zero; a small part is not called nothing, nor
    one that lacks little all of it."""
    if total <= 0 or part <= 0:
        return ""
    percent = (200 * part + total) // (2 * total)
    if percent == 100 and part < total:
        return "> 99 %"
    return f"{percent} %" if percent else "< 1 %"


def _rows(
    days: Sequence[int],
    amounts: Sequence[Sequence[int]],
    shown: Sequence[Sequence[int]],
    layers: Sequence[Series],
    asked: CostsAsked,
) -> tuple[SpendDay, ...]:
    places = places_for(sum(map(sum, amounts)))
    return tuple(
        SpendDay(
            day=f"{_day(day):%a} {moment(day).date}",
            iso=_day(day).isoformat(),
            amounts=tuple(
                spelled(units, places) if true else NOTHING
                for true, units in zip(row, cells, strict=True)
            ),
            total=spelled(sum(cells), places),
            hint=_hint(day, cells, row, layers, places),
            href=asked.within(Window(day, day + DAY), Granularity.HOUR).page,
        )
        for day, row, cells in zip(days, amounts, shown, strict=True)
    )


def _hint(
    day: int, cells: Sequence[int], row: Sequence[int], layers: Sequence[Series], places: int
) -> str:
    """What is said when a column is pointed at."""
    lines = [f"{_day(day):%A} {moment(day).date} (UTC): {spelled(sum(cells), places)}"]
    parts = zip(layers, cells, row, strict=True)
    lines += [f"{layer.name}: {spelled(units, places)}" for layer, units, true in parts if true]
    return "\n".join([lines[0], *reversed(lines[1:])])


def _labels(days: Sequence[int]) -> tuple[DayLabel, ...]:
    """Each day of a week, and of longer times the Mondays; the last day is today.

    Where it is narrow, about five of them find room.
    """
    last = len(days) - 1
    margin = len(days) // 15
    chosen = [
        n
        for n, day in enumerate(days[:last])
        if len(days) <= 7 or (_day(day).weekday() == 0 and margin <= n < last - margin)
    ]
    stride = -(-len(chosen) // 5)
    labels = [
        DayLabel(
            column=n,
            text=f"{_day(days[n]).day} {_day(days[n]):%b}",
            minor=rank % stride > 0 or last - n <= len(days) // 6,
        )
        for rank, n in enumerate(chosen)
    ]
    return (*labels, DayLabel(last, "today", minor=False, flush=len(days) > 14))


def _description(days: Sequence[int], amounts: Sequence[Sequence[int]], total: int) -> str:
    first, last = moment(days[0]).date, moment(days[-1]).date
    said = f"Stacked columns, one for each UTC day from {first} to {last}: {money(total)} in all"
    sums = [sum(row) for row in amounts]
    highest = max(sums)
    if highest <= 0:
        return f"{said}."
    peak = moment(days[sums.index(highest)]).date
    return f"{said}, at most {money(highest)}, on {peak}."


def _day(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()
