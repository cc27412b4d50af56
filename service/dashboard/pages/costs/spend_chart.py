"""The costs by day as a chart, a legend and a table, which show the same figures. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.application.costs.costs import CostReport
from service.dashboard.kit.charts import Chart, Overlay, draw_chart, trace_steps
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import format_money, format_units, to_moment, utc_date
from service.dashboard.kit.series import Grouping, Series, build_series
from service.domain.clock import DAY
from service.domain.costs.display_rounding import in_units, places_for, round_table, unit_for
from service.domain.costs.forecast import Forecast
from service.domain.costs.markers import CostMarker
from service.domain.money import half_even
from service.domain.time_window import Granularity, Window, split_into_buckets, zone_of

WINDOWS = {"7d": "7 days", "30d": "30 days", "90d": "90 days"}
"""The windows of the chart, as the address names them, with their names for people."""

NOTHING = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One line of the legend. `place` selects the texture; `href` is the address of the details."""

    name: str
    place: int
    total: str
    share: str
    href: str


@dataclass(frozen=True, slots=True)
class DayLabel:
    """A label below a column. A minor one is left out in a narrow chart. A flush one ends at the
    edge of the chart, because it is wider than its column."""

    column: int
    text: str
    minor: bool
    flush: bool = False


@dataclass(frozen=True, slots=True)
class SpendDay:
    """One day of the table: its amounts by series, and their sum; `href` is the page of the day.
    `marks` says what happened on the day, empty if nothing did."""

    day: str
    iso: str
    amounts: tuple[str, ...]
    total: str
    hint: str
    head: str
    href: str
    marks: str = ""


@dataclass(frozen=True, slots=True)
class Spending:
    """The chart, its legend and its table. `total` is the sum of the displayed amounts."""

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
    overlays: tuple[Overlay, ...] = ()


@dataclass(frozen=True, slots=True)
class MonthAhead:
    """The rest of the month: its days after today, the forecast of one of them (low, mid, high),
    and the budget of everything for a day of the month, in nano-dollars; None without a budget.
    `start` is the first second of the month."""

    start: int
    days: int
    band: tuple[int, int, int]
    budget: int | None


def plan_month(forecast: Forecast, budget: int | None) -> MonthAhead:
    """The rest of the month of a forecast, evenly spread over its time. `budget` is the amount of
    the month."""
    window, now = forecast.basis.window, forecast.basis.now
    left, length = window.end - now, window.end - window.start
    total = forecast.total
    band = (
        half_even(max(0, edge - forecast.basis.spent) * DAY, left) if left > 0 else 0
        for edge in (total.low, total.mid, total.high)
    )
    low, mid, high = band
    return MonthAhead(
        start=window.start,
        days=max(0, left - 1) // DAY,
        band=(low, mid, high),
        budget=None if budget is None else half_even(budget * DAY, length),
    )


def build_spending(
    report: CostReport,
    grouping: Grouping,
    window: str,
    ahead: MonthAhead | None = None,
    markers: Sequence[CostMarker] = (),
) -> Spending:
    """The chart of a report of `window`, by day and by the dimension of `grouping`. With `ahead`,
    columns for the rest of the month show its forecast. `markers` say what happened on a day."""
    asked = CostsAsked(window, (grouping.dimension,), Granularity.DAY)
    days = [
        part.start for part in split_into_buckets(report.window, Granularity.DAY, zone_of("UTC"))
    ]
    totals: dict[str, int] = defaultdict(int)
    for row in report.rows:
        totals[row.group[0]] += row.cost
    layers = build_series(grouping, totals)
    # Nano-dollars by day and series; a day without cost is a row of zeros.
    amounts = [[0] * len(layers) for _ in days]
    row_of = {day: number for number, day in enumerate(days)}
    column_of = {value: n for n, layer in enumerate(layers) for value in layer.values}
    for row in report.rows:
        amounts[row_of[row.bucket.start]][column_of[row.group[0]]] += row.cost
    places = places_for(report.total)
    shown = round_table(amounts, unit_for(places), len(days) - 1 if days else None)
    coming = 0 if ahead is None else ahead.days
    picture = draw_chart(
        [*amounts, *([[0] * len(layers)] * coming)],
        reach=0 if ahead is None else max(ahead.band[2] if coming else 0, ahead.budget or 0),
    )
    sums = [sum(row) for row in amounts]
    first, last = to_moment(days[0]).date, to_moment(days[-1]).date
    description = f"Stacked columns, one for each UTC day from {first} to {last}: "
    description += f"{format_money(report.total)} in all"
    if max(sums) > 0:
        peak = to_moment(days[sums.index(max(sums))]).date
        description += f", at most {format_money(max(sums))}, on {peak}"
    return Spending(
        title=f"Cost by day and {grouping.title}",
        description=f"{description}.",
        picture=picture,
        places=tuple(layer.place for layer in layers),
        labels=_label_days(days, is_last=not coming),
        legend=_build_legend(layers, shown, places, asked),
        rows=_build_rows(days, amounts, shown, layers, asked, markers),
        total=format_units(sum(map(sum, shown)), places),
        as_of=to_moment(report.as_of).full,
        estimated=report.estimated,
        overlays=() if ahead is None else tuple(_draw_ahead(days, ahead, picture)),
    )


def _draw_ahead(days: Sequence[int], ahead: MonthAhead, picture: Chart) -> Iterator[Overlay]:
    """The budget of a day of this month, and the forecast of the days after today."""
    low, mid, high = ahead.band
    today = len(days)
    if ahead.days:
        edges = picture.y_at(high), picture.y_at(low)
        if low < high:
            path = f"M{today} {edges[0]}H{today + ahead.days}V{edges[1]}H{today}Z"
            name = f"forecast: {format_money(low)} to {format_money(high)} a day"
            yield Overlay("forecast", path, name)
        path = trace_steps([mid] * ahead.days, picture, today)
        yield Overlay("middle", path, f"forecast: {format_money(mid)} a day until the month ends")
    if ahead.budget is not None:
        first = sum(day < ahead.start for day in days)
        line = trace_steps([ahead.budget] * (today - first + ahead.days), picture, first)
        yield Overlay("budget", line, f"budget of everything: {format_money(ahead.budget)} a day")


def _build_legend(
    layers: Sequence[Series], shown: Sequence[Sequence[int]], places: int, asked: CostsAsked
) -> tuple[LegendEntry, ...]:
    """The entries, the highest layer first, as in the chart. The link of a layer leads to the
    groups of its value one level deeper, or to the values of a layer that has several."""
    columns = [sum(row[n] for row in shown) for n in range(len(layers))]
    shares = format_shares(columns)
    whole = asked.with_step(Granularity.ALL)
    entries = []
    for layer, units, share in zip(layers, columns, shares, strict=True):
        details = whole
        if len(layer.values) == 1:
            details = whole.drill_into(whole.aggregate[0], *layer.values)
        text = format_units(units, places)
        entries.append(LegendEntry(layer.name, layer.place, text, share, details.page))
    return tuple(reversed(entries))


def format_shares(parts: Sequence[int]) -> list[str]:
    """The parts in whole percent of their sum, which add up to 100, each as `format_share` shows
    it."""
    total = sum(parts)
    if total <= 0:
        return [""] * len(parts)
    percents = in_units([100 * part for part in parts], total)
    return [format_share(part, total, of) for part, of in zip(parts, percents, strict=True)]


def format_share(part: int, total: int, percent: int | None = None) -> str:
    """A part in whole percent of the total; empty if either is not positive. A small part is shown
    as `< 1 %`, and a part that lacks little as `> 99 %`. A given `percent` is shown as it is."""
    if total <= 0 or part <= 0:
        return ""
    if percent is None:
        percent = (200 * part + total) // (2 * total)
    if percent == 100 and part < total:
        return "> 99 %"
    return f"{percent} %" if percent else "< 1 %"


def _build_rows(
    days: Sequence[int],
    amounts: Sequence[Sequence[int]],
    shown: Sequence[Sequence[int]],
    layers: Sequence[Series],
    asked: CostsAsked,
    markers: Sequence[CostMarker],
) -> tuple[SpendDay, ...]:
    """The days of the table. `hint` is the text for a column under the pointer."""
    marks: dict[int, list[str]] = defaultdict(list)
    for marker in markers:
        marks[marker.day].append(marker.text)
    places = places_for(sum(map(sum, amounts)))
    rows = []
    for day, row, units in zip(days, amounts, shown, strict=True):
        at, total = utc_date(day), format_units(sum(units), places)
        cells = [format_units(unit, places) for unit in units]
        parts = [
            f"{layer.name}: {cell}"
            for layer, cell, amount in zip(layers, cells, row, strict=True)
            if amount
        ]
        head = f"{at:%A} {to_moment(day).date} (UTC): {total}"
        rows.append(
            SpendDay(
                day=f"{at:%a} {to_moment(day).date}",
                iso=at.isoformat(),
                amounts=tuple(
                    cell if amount else NOTHING for amount, cell in zip(row, cells, strict=True)
                ),
                total=total,
                hint="\n".join([head, *reversed(parts), *marks[day]]),
                head=head,
                marks="; ".join(marks[day]),
                href=asked.narrow_to(Window(day, day + DAY), Granularity.HOUR).page,
            )
        )
    return tuple(rows)


def _label_days(days: Sequence[int], *, is_last: bool = True) -> tuple[DayLabel, ...]:
    """A label for each day of a week; for longer times only for Mondays. The last day is today,
    and the last column if `is_last`.

    A narrow chart has room for about five of them.
    """
    last = len(days) - 1
    margin = len(days) // 15
    dates = list(map(utc_date, days))
    chosen = [
        n
        for n, day in enumerate(dates[:last])
        if len(days) <= 7 or (day.weekday() == 0 and margin <= n < last - margin)
    ]
    stride = -(-len(chosen) // 5)
    labels = [
        DayLabel(
            column=n,
            text=f"{dates[n].day} {dates[n]:%b}",
            minor=rank % stride > 0 or last - n <= len(days) // 6,
        )
        for rank, n in enumerate(chosen)
    ]
    return (*labels, DayLabel(last, "today", minor=False, flush=is_last and len(days) > 14))
