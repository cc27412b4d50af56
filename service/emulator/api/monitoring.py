"""The read calls of `google.monitoring.v3.MetricService`; the write calls are not emulated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page, read_token, size_of, write_token
from service.emulator.errors import ApiError, Code
from service.emulator.names import malformed_name, project_of
from service.emulator.telemetry import alignment, series
from service.emulator.telemetry.alignment import Aggregation, Line
from service.emulator.telemetry.messages import Monitoring
from service.emulator.telemetry.metrics import Metric, by_type
from service.emulator.telemetry.rendering import build_descriptor, build_time_series
from service.emulator.telemetry.requests import parse_aggregations, parse_window
from service.emulator.telemetry.selection import Selection, facts_of
from service.emulator.telemetry.series import Series, SeriesWindow
from service.emulator.wire import NodeMessage, copy_message

MAX_RESULTS = 100_000
HEADERS = 1
Keyed = tuple[str, Callable[[], Line]]
"""The key of a line, and a function that computes the line."""

Begun = tuple[float, str, int]
"""The time of the first page, the key of the next page's first line, and the points to skip."""


def list_time_series(call: Call) -> NodeMessage:
    """List points, the newest first. A page ends after a number of points, even inside a series.

    A token holds the time of the first page, so that points which arrive later shift nothing.
    """
    request = call.request
    project = project_of(request.name)
    if request.order_by:
        raise ApiError(Code.INVALID_ARGUMENT, "Field orderBy must be left blank.")
    selection = Selection(request.filter)
    metric = selection.get_metric()
    limit = size_of(request.page_size, MAX_RESULTS, MAX_RESULTS)
    # A token is valid for an equal request, whatever its page.
    bare = copy_message(request)
    bare.ClearField("page_size")
    bare.ClearField("page_token")
    of = str(bare.SerializeToString(deterministic=True).hex())
    begun: Begun | None = None
    if request.page_token:
        try:
            at, key, used = json.loads(read_token(request.page_token, of))
            begun = float(at), str(key), max(0, int(used))
        except (ValueError, TypeError, OverflowError, RecursionError):
            text = "The page token is invalid for this list."
            raise ApiError(Code.INVALID_ARGUMENT, text) from None
    asked = parse_window(request.interval, begun[0] if begun else call.now)
    steps = parse_aggregations(request, metric)
    listed: Iterable[Series] = series.list_series(call.world, project, metric, asked)
    selected = (
        one_series
        for one_series in ([] if call.effects.emptied else listed)
        if selection.matches_facts(
            facts_of(metric, project, one_series.metric, one_series.resource)
        )
    )
    headers = request.view == HEADERS
    computed = _compute_lines(selected, metric, steps, asked)
    lines, after = _cut_page(computed, limit, begun, headers=headers)
    return Monitoring.ListTimeSeriesResponse(
        time_series=[build_time_series(line, metric, headers=headers) for line in lines],
        next_page_token=write_token(json.dumps([asked.now, *after]), of) if after else "",
        unit=metric.unit if lines else "",
    )


def list_metric_descriptors(call: Call) -> NodeMessage:
    request = call.request
    project = project_of(request.name)
    found = Selection(request.filter).list_metrics()
    of = f"metric descriptors of {request.name}\n{request.filter}"
    shown, token = cut_page(
        found, lambda metric: metric.type, of, max(0, request.page_size), request.page_token
    )
    return Monitoring.ListMetricDescriptorsResponse(
        metric_descriptors=[build_descriptor(metric, project) for metric in shown],
        next_page_token=token,
    )


def get_metric_descriptor(call: Call) -> NodeMessage:
    parent, _, type_ = call.request.name.partition("/metricDescriptors/")
    if not type_:
        raise malformed_name("name", call.request.name, "projects/*/metricDescriptors/**")
    project = project_of(parent)
    if type_ not in by_type():
        raise ApiError(Code.NOT_FOUND, f"Could not find descriptor for metric '{type_}'.")
    return build_descriptor(by_type()[type_], project)


def _compute_lines(
    found: Iterable[Series], metric: Metric, steps: tuple[Aggregation, ...], asked: SeriesWindow
) -> Iterator[Keyed]:
    """Align and reduce the series. Without a reducer, a series is computed only for its page."""
    if all(step.reducer == "REDUCE_NONE" for step in steps):
        for one_series in found:
            yield one_series.key, partial(_align_series, one_series, metric, steps, asked)
        return
    first, *others = steps
    lines = [_align_series(one_series, metric, (first,), asked) for one_series in found]
    lines = alignment.reduce_lines([line for line in lines if line.points], first)
    for step in others:
        lines = alignment.reduce_lines(
            [alignment.align_line(line, step, asked) for line in lines], step
        )
    for line in lines:
        yield json.dumps([line.resource, line.metric]), partial(_return_line, line)


def _align_series(
    one_series: Series, metric: Metric, steps: tuple[Aggregation, ...], asked: SeriesWindow
) -> Line:
    points = one_series.points(asked)
    line = Line(one_series.metric, one_series.resource, points, metric.kind, metric.value)
    for step in steps:
        line = alignment.align_line(line, step, asked)
    return line


def _return_line(line: Line) -> Line:
    return line


def _cut_page(
    lines: Iterable[Keyed], limit: int, begun: Begun | None, *, headers: bool
) -> tuple[list[Line], list[object]]:
    """Return the lines of one page, and the position of the next page; empty if it is the last.

    The position is the key of a line and the number of its points to skip.
    """
    page_of: list[Line] = []
    left = limit
    waiting_for, used = (begun[1], begun[2]) if begun else (None, 0)
    for key, compute in lines:
        if waiting_for is not None and key != waiting_for:
            continue
        waiting_for = None
        line = compute()
        skipped, used = used, 0
        points = line.points[skipped:]
        if not points:
            continue
        if not left:
            return page_of, [key, skipped]
        taken = points if headers else points[:left]
        page_of.append(Line(line.metric, line.resource, taken, line.kind, line.value))
        left -= 1 if headers else len(taken)
        if len(taken) < len(points):
            return page_of, [key, skipped + len(taken)]
    return page_of, []
