"""Series and metric descriptors as messages of the Monitoring API."""

from __future__ import annotations

import math

from google.api import label_pb2, launch_stage_pb2, metric_pb2

from service.emulator.telemetry.alignment import Line
from service.emulator.telemetry.messages import Monitoring
from service.emulator.telemetry.metrics import Metric
from service.emulator.telemetry.samples import PERIOD
from service.emulator.wire import NodeMessage

Kind = metric_pb2.MetricDescriptor.MetricKind
ValueType = metric_pb2.MetricDescriptor.ValueType
DELAY_SECONDS = 180


def build_time_series(line: Line, metric: Metric, *, headers: bool) -> NodeMessage:
    """Return a line as a time series; with `headers` without its points."""
    shown = Monitoring.TimeSeries(
        metric_kind=Kind.Value(line.kind), value_type=ValueType.Value(line.value)
    )
    shown.metric.type = metric.type
    shown.metric.labels.update(line.metric)
    shown.resource.type = metric.resource
    shown.resource.labels.update(line.resource)
    if headers:
        return shown
    whole = line.value == "INT64"
    for end, start, value in line.points:
        point = shown.points.add()
        _set_moment(point.interval.end_time, end)
        _set_moment(point.interval.start_time, start)
        if whole:
            point.value.int64_value = round(value)
        else:
            point.value.double_value = value
    return shown


def _set_moment(moment: NodeMessage, at: float) -> None:
    # Setting two numbers is three times as fast as copying a message.
    moment.seconds = math.floor(at)
    moment.nanos = int((at % 1) * 1_000_000) * 1000


def build_descriptor(metric: Metric, project: str) -> NodeMessage:
    found = metric_pb2.MetricDescriptor(
        name=f"projects/{project}/metricDescriptors/{metric.type}",
        type=metric.type,
        metric_kind=metric.kind,
        value_type=metric.value,
        unit=metric.unit,
        display_name=metric.title,
        description=f"{metric.title}, sampled every {PERIOD} seconds.",
        labels=[label_pb2.LabelDescriptor(key=label) for label in metric.labels],
        launch_stage=launch_stage_pb2.LaunchStage.GA,
        monitored_resource_types=[metric.resource],
    )
    found.metadata.sample_period.seconds = PERIOD
    found.metadata.ingest_delay.seconds = DELAY_SECONDS
    return found
