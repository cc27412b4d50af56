"""The parameters of a request for time series: its interval and its aggregations."""

from __future__ import annotations

import re

from service.emulator.clock import is_moment
from service.emulator.errors import ApiError, Code
from service.emulator.telemetry import alignment
from service.emulator.telemetry.alignment import Aggregation
from service.emulator.telemetry.metrics import Metric
from service.emulator.telemetry.selection import field_name
from service.emulator.telemetry.series import SeriesWindow
from service.emulator.wire import NodeMessage

GROUPS = ("metric.labels.", "resource.labels.", "metadata.")
WHOLE_GROUPS = {"project", "resource.type", "metric.type"}
# Google's own samples group by `resource.zone`.
SHORT_GROUP = re.compile(r"(metric|resource)\.(?!type$|labels$)(\w+)")


def parse_window(interval: NodeMessage, now: float) -> SeriesWindow:
    """Return the window of an interval; the start defaults to the end. Raises ApiError."""
    if not interval.HasField("end_time"):
        raise _field_error("interval.endTime", "", "the end time is required.")
    end = parse_moment("interval.endTime", interval.end_time)
    start = end
    if interval.HasField("start_time"):
        start = parse_moment("interval.startTime", interval.start_time)
    if start > end:
        raise _field_error("interval.startTime", f"{start:.0f}", "it is later than the end time.")
    return SeriesWindow(start, end, now)


def parse_aggregations(request: NodeMessage, metric: Metric) -> tuple[Aggregation, ...]:
    """Return the aggregation and, if given, the secondary aggregation. Raises ApiError."""
    first = _parse_aggregation(request.aggregation)
    alignment.check_aggregation(first, metric.kind, metric.value)
    if not request.HasField("secondary_aggregation"):
        return (first,)
    second = _parse_aggregation(request.secondary_aggregation)
    alignment.check_aggregation(second, "GAUGE", metric.value)
    return first, second


def _parse_aggregation(asked: NodeMessage) -> Aggregation:
    group_by = []
    for text in asked.group_by_fields:
        field = field_name(part.strip('"') for part in text.split("."))
        short = SHORT_GROUP.fullmatch(field)
        if short is not None:
            field = f"{short[1]}.labels.{short[2]}"
        elif field not in WHOLE_GROUPS and not field.startswith(GROUPS):
            raise _field_error(
                "aggregation.groupByFields", text, "the field name is improperly formatted."
            )
        group_by.append(field)
    period = asked.alignment_period
    return Aggregation(
        period=float(period.seconds + period.nanos / 1e9),
        aligner=_enum_name(asked, "per_series_aligner"),
        reducer=_enum_name(asked, "cross_series_reducer"),
        group_by=tuple(group_by),
    )


def _enum_name(message: NodeMessage, field: str) -> str:
    """Return the name of an enum value; the number if this client library does not know it."""
    number = getattr(message, field)
    known = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return known.name if known else str(number)


def parse_moment(field: str, given: NodeMessage) -> float:
    """Return a timestamp as unix seconds. Raises ApiError for a value out of range."""
    if not is_moment(given):
        raise _field_error(field, str(given.seconds), "it is not a moment.")
    return float(given.seconds + given.nanos / 1e9)


def _field_error(field: str, value: str, why: str) -> ApiError:
    return ApiError(
        Code.INVALID_ARGUMENT, f'Field {field} had an invalid value of "{value}": {why}'
    )
