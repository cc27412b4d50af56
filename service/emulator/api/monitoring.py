"""The calls of `google.monitoring.v3.MetricService` that read; nothing can be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from service.emulator.api.dispatch import Call
from service.emulator.api.pages import page, read_token, size_of, write_token
from service.emulator.errors import ApiError, Code
from service.emulator.names import malformed, project_of
from service.emulator.telemetry import alignment, series
from service.emulator.telemetry.alignment import Aggregation, Line
from service.emulator.telemetry.messages import Monitoring
from service.emulator.telemetry.metrics import Metric, by_type
from service.emulator.telemetry.rendering import descriptor, time_series
from service.emulator.telemetry.requests import aggregations, window
from service.emulator.telemetry.selection import Selection, facts_of
from service.emulator.telemetry.series import Series, SeriesWindow
from service.emulator.wire import NodeMessage, copied

MAX_RESULTS = 100_000
HEADERS = 1
Keyed = tuple[str, Callable[[], Line]]
"""A line that is not computed before somebody needs it, and what tells it from the others."""

Begun = tuple[float, str, int]
"""The moment of the first page, and where the next begins: at which line, after how many points."""


def list_time_series(call: Call) -> NodeMessage:
    """List points, the newest first; a page ends after so many points, inside a series if need be.

    A token holds the moment of the first page, so that points which come meanwhile shift nothing.
    """
    request = call.request
    project = project_of(request.name)
    if request.order_by:
        raise ApiError(Code.INVALID_ARGUMENT, "Field orderBy must be left blank.")
    selection = Selection(request.filter)
    metric = selection.metric()
    limit = size_of(request.page_size, MAX_RESULTS, MAX_RESULTS)
    of = _list_of(request)
    begun = _begun(request.page_token, of) if request.page_token else None
    asked = window(request.interval, begun[0] if begun else call.now)
    steps = aggregations(request, metric)
    found = _selected(call, project, metric, selection, asked)
    headers = request.view == HEADERS
    lines, after = _cut(_lines(found, metric, steps, asked), limit, begun, headers=headers)
    return Monitoring.ListTimeSeriesResponse(
        time_series=[time_series(line, metric, headers=headers) for line in lines],
        next_page_token=write_token(json.dumps([asked.now, *after]), of) if after else "",
        unit=metric.unit if lines else "",
    )


def list_metric_descriptors(call: Call) -> NodeMessage:
    request = call.request
    project = project_of(request.name)
    found = Selection(request.filter).descriptors()
    of = f"metric descriptors of {request.name}\n{request.filter}"
    shown, token = page(
        found, lambda each: each.type, of, max(0, request.page_size), request.page_token
    )
    return Monitoring.ListMetricDescriptorsResponse(
        metric_descriptors=[descriptor(metric, project) for metric in shown],
        next_page_token=token,
    )


def get_metric_descriptor(call: Call) -> NodeMessage:
    parent, _, type_ = call.request.name.partition("/metricDescriptors/")
    if not type_:
        raise malformed("name", call.request.name, "projects/*/metricDescriptors/**")
    project = project_of(parent)
    if type_ not in by_type():
        raise ApiError(Code.NOT_FOUND, f"Could not find descriptor for metric '{type_}'.")
    return descriptor(by_type()[type_], project)


def _selected(
    call: Call, project: str, metric: Metric, selection: Selection, asked: SeriesWindow
) -> Iterator[Series]:
    if call.effects.emptied:
        return
    for each in series.of_metric(call.world, project, metric, asked):
        if selection.holds(facts_of(metric, project, each.metric, each.resource)):
            yield each


def _lines(
    found: Iterable[Series], metric: Metric, steps: tuple[Aggregation, ...], asked: SeriesWindow
) -> Iterator[Keyed]:
    """Align and reduce; without a reducer each series waits until its page comes."""
    if all(step.reducer == "REDUCE_NONE" for step in steps):
        yield from ((each.key, partial(_line, each, metric, steps, asked)) for each in found)
        return
    first, *others = steps
    lines = [_line(each, metric, (first,), asked) for each in found]
    lines = alignment.reduced([each for each in lines if each.points], first)
    for step in others:
        lines = alignment.reduced([alignment.aligned(each, step, asked) for each in lines], step)
    for each in lines:
        yield json.dumps([each.resource, each.metric]), partial(_as_it_is, each)


def _line(
    each: Series, metric: Metric, steps: tuple[Aggregation, ...], asked: SeriesWindow
) -> Line:
    line = Line(each.metric, each.resource, each.points(asked), metric.kind, metric.value)
    for step in steps:
        line = alignment.aligned(line, step, asked)
    return line


def _as_it_is(line: Line) -> Line:
    return line


def _begun(token: str, of: str) -> Begun:
    """Read how far the pages before got; raises ApiError, also for what nobody here wrote."""
    try:
        at, key, used = json.loads(read_token(token, of))
        return float(at), str(key), max(0, int(used))
    except (ValueError, TypeError, OverflowError, RecursionError):
        text = "The page token is invalid for this list."
        raise ApiError(Code.INVALID_ARGUMENT, text) from None


def _cut(
    lines: Iterable[Keyed], limit: int, begun: Begun | None, *, headers: bool
) -> tuple[list[Line], list[object]]:
    """Take lines up to the limit, and say where to go on: at which line, after how many points."""
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


def _list_of(request: NodeMessage) -> str:
    """Spell what is listed, whatever the page."""
    bare = copied(request)
    bare.ClearField("page_size")
    bare.ClearField("page_token")
    return str(bare.SerializeToString(deterministic=True).hex())
