"""Aggregation of time series: alignment of points in time, and reduction across series."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import quantiles, stdev

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.series import Labels, Point, SeriesWindow

Gather = Callable[[Sequence[float]], float]
MIN_PERIOD, MAX_PERIOD = 60, 104 * 7 * 86_400


@dataclass(frozen=True)
class Line:
    """A series with its points, newest first, and their current metric kind and value type."""

    metric: Labels
    resource: Labels
    points: list[Point]
    kind: str
    value: str


@dataclass(frozen=True)
class Aggregation:
    """The requested aggregation, with the names of the API; `period` in seconds."""

    period: float = 0.0
    aligner: str = "ALIGN_NONE"
    reducer: str = "REDUCE_NONE"
    group_by: tuple[str, ...] = ()

    @property
    def is_raw(self) -> bool:
        return self.aligner == "ALIGN_NONE"


def _make_percentile(share: int) -> Gather:
    def take_percentile(values: Sequence[float]) -> float:
        if len(values) == 1:
            return values[0]
        return quantiles(values, n=100, method="inclusive")[share - 1]

    return take_percentile


GATHERS: Mapping[str, Gather] = {
    "MEAN": lambda values: math.fsum(values) / len(values),
    "MAX": max,
    "MIN": min,
    "SUM": math.fsum,
    "COUNT": lambda values: float(len(values)),
    "STDDEV": lambda values: stdev(values) if len(values) > 1 else 0.0,
    "PERCENTILE_99": _make_percentile(99),
    "PERCENTILE_95": _make_percentile(95),
    "PERCENTILE_50": _make_percentile(50),
    "PERCENTILE_05": _make_percentile(5),
    # Points are sorted newest first.
    "NEXT_OLDER": lambda values: values[0],
    "RATE": math.fsum,
    "DELTA": math.fsum,
}
ALIGNERS = {"ALIGN_NONE", *(f"ALIGN_{name}" for name in GATHERS)}
REDUCERS = {"REDUCE_NONE", *(f"REDUCE_{name}" for name in GATHERS)} - {
    "REDUCE_NEXT_OLDER",
    "REDUCE_RATE",
    "REDUCE_DELTA",
}
KEEPS_VALUE = {"MAX", "MIN", "SUM", "NEXT_OLDER", "DELTA"}
DELTA_ONLY = {"ALIGN_RATE", "ALIGN_DELTA"}


def check_aggregation(asked: Aggregation, kind: str, value: str) -> None:
    """Raise ApiError for an aggregation that a metric of this kind and type does not support."""
    if asked.aligner not in ALIGNERS:
        raise _aggregation_error("perSeriesAligner", asked.aligner, "it is not emulated.")
    if asked.reducer not in REDUCERS:
        raise _aggregation_error("crossSeriesReducer", asked.reducer, "it is not emulated.")
    if asked.is_raw and asked.reducer != "REDUCE_NONE":
        raise _aggregation_error("perSeriesAligner", asked.aligner, "a reducer needs an aligner.")
    if not asked.is_raw and asked.period < MIN_PERIOD:
        text = f"{asked.period:g}s"
        raise _aggregation_error("alignmentPeriod", text, "must be at least 60 seconds.")
    if asked.period > MAX_PERIOD:
        raise _aggregation_error(
            "alignmentPeriod", f"{asked.period:g}s", "must be at most 104 weeks."
        )
    if asked.aligner in DELTA_ONLY and kind != "DELTA":
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f"Field aggregation.perSeriesAligner had an invalid value of {asked.aligner}: The"
            f" aligner cannot be applied to metrics with kind {kind} and value type {value}.",
        )


def align_line(line: Line, asked: Aggregation, window: SeriesWindow) -> Line:
    """Return one point per period, counted back from the window's end. Empty periods have none."""
    if asked.is_raw:
        return line
    name = asked.aligner.removeprefix("ALIGN_")
    buckets: dict[int, list[float]] = defaultdict(list)
    for point in line.points:
        buckets[int((window.end - point.end) // asked.period)].append(point.value)
    scale = 1 / asked.period if name == "RATE" else 1.0
    kind = line.kind if name in {"SUM", "DELTA"} else "GAUGE"
    points = []
    for index, values in sorted(buckets.items()):
        end = window.end - index * asked.period
        start = end - asked.period if kind == "DELTA" else end
        points.append(Point(end, start, GATHERS[name](values) * scale))
    return Line(line.metric, line.resource, points, kind, _value_type(name, line.value))


def reduce_lines(lines: list[Line], asked: Aggregation) -> list[Line]:
    """Merge series with equal `group_by` labels; other labels are dropped."""
    if asked.reducer == "REDUCE_NONE" or not lines:
        return lines
    groups: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        key = []
        for field in asked.group_by:
            owner, _, rest = field.partition(".")
            labels = line.metric if owner == "metric" else line.resource
            key.append(labels.get(rest.partition(".")[2], ""))
        groups[tuple(key)].append(line)
    name = asked.reducer.removeprefix("REDUCE_")
    reduced = []
    for _, group in sorted(groups.items()):
        values_at: dict[tuple[float, float], list[float]] = defaultdict(list)
        for point in chain.from_iterable(line.points for line in group):
            values_at[point.end, point.start].append(point.value)
        points = [
            Point(end, start, GATHERS[name](values))
            for (end, start), values in sorted(values_at.items(), reverse=True)
        ]
        first = group[0]
        reduced.append(
            Line(
                metric=_keep_grouped(first.metric, "metric", asked.group_by),
                resource=_keep_grouped(first.resource, "resource", asked.group_by),
                points=points,
                kind=first.kind,
                value=_value_type(name, first.value),
            )
        )
    return reduced


def _keep_grouped(labels: Labels, owner: str, group_by: tuple[str, ...]) -> Labels:
    prefix = f"{owner}.labels."
    return {key: value for key, value in labels.items() if prefix + key in group_by}


def _value_type(name: str, before: str) -> str:
    if name == "COUNT":
        return "INT64"
    return before if name in KEEPS_VALUE else "DOUBLE"


def _aggregation_error(field: str, value: str, why: str) -> ApiError:
    return ApiError(
        Code.INVALID_ARGUMENT, f"Field aggregation.{field} had an invalid value of {value}: {why}"
    )
