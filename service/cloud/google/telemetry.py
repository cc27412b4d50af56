"""Cloud Monitoring: reads the activity of each worker of a project, minute by minute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
from google.cloud.monitoring_v3 import Aggregation, ListTimeSeriesRequest, TimeInterval
from google.cloud.monitoring_v3.services.metric_service import MetricServiceClient
from google.cloud.monitoring_v3.services.metric_service.transports import (
    MetricServiceGrpcTransport,
)

from service.cloud.google.calls import call_client
from service.cloud.google.errors import translate_errors
from service.cloud.google.pages import all_of, unwrap_pages
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.ports import Sample
from service.domain.errors import CloudNotFound
from service.domain.idle.signals.signal import CHIPS_KINDS, HOST_BYTES, Kind

MONITORING_HOST = "monitoring.googleapis.com"
PERIOD = 60
"""Seconds that one point covers; Google samples no more often."""

GAP_SECONDS = 300
"""Seconds for which one direction of a network may be missing while the other is known."""

PAGE_SIZE = 100_000
"""Points on a page: Google's maximum."""

_Aligner, _Reducer = Aggregation.Aligner, Aggregation.Reducer
_OF_NODE = ("zone", "node_id", "worker_id")
_OF_INSTANCE = ("worker_id",)


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric, how the values of a worker's chips or cores are combined, and the labels of the
    resource that identify the worker."""

    type: str
    aligner: Any
    reducer: Any
    labels: tuple[str, ...]


_METRICS: Mapping[Kind, tuple[_Metric, ...]] = {
    Kind.DUTY_CYCLE: (
        _Metric(
            "tpu.googleapis.com/accelerator/duty_cycle",
            _Aligner.ALIGN_MAX,
            _Reducer.REDUCE_MAX,
            _OF_INSTANCE,
        ),
    ),
    Kind.TENSORCORE: (
        _Metric(
            "tpu.googleapis.com/accelerator/tensorcore_utilization",
            _Aligner.ALIGN_MAX,
            _Reducer.REDUCE_MAX,
            _OF_INSTANCE,
        ),
    ),
    Kind.TENSORCORE_IDLE: (
        _Metric(
            "tpu.googleapis.com/tpu/tensorcore/idle_duration",
            _Aligner.ALIGN_MIN,
            _Reducer.REDUCE_MIN,
            _OF_NODE,
        ),
    ),
    **{
        kind: (
            _Metric(
                f"compute.googleapis.com/instance/tpu/{kind}",
                _Aligner.ALIGN_MAX,
                _Reducer.REDUCE_MAX,
                ("instance_id",),
            ),
        )
        for kind in (*CHIPS_KINDS, Kind.SCHEDULED_CHIPS)
    },
    Kind.CPU: (
        _Metric(
            "tpu.googleapis.com/cpu/utilization",
            _Aligner.ALIGN_MAX,
            _Reducer.REDUCE_MAX,
            _OF_NODE,
        ),
    ),
    Kind.NETWORK: tuple(
        _Metric(
            f"tpu.googleapis.com/network/{way}_bytes_count",
            _Aligner.ALIGN_RATE,
            _Reducer.REDUCE_SUM,
            _OF_NODE,
        )
        for way in ("received", "sent")
    ),
}
"""Sources: reference/cloud-tpu-api.md section 5, reference/jobs.md J9."""


def monitoring_client(channel: grpc.Channel) -> MetricServiceClient:
    """Google's client over a channel. Its `api_endpoint` names Google even on the emulator's
    channel."""
    return MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))


class GoogleTelemetry:
    """`service.cloud.ports.Telemetry` over Google's own client."""

    def __init__(self, client: MetricServiceClient, patience: Allowances = PATIENT) -> None:
        self._client = client
        self._allowance = patience.listing

    def read_samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        """Read the points of (since, until], page by page. A failed page fails the whole read.

        Monitoring answers NOT_FOUND for a metric that a project never had: that is no error.
        """
        by_metric: list[list[Sample]] = []
        for metric in _METRICS[kind]:
            samples: list[Sample] = []
            by_metric.append(samples)
            with suppress(CloudNotFound):
                for series in self._list_series(project, metric, since, until):
                    samples.extend(_read_samples(series, metric.labels))
        return by_metric[0] if len(by_metric) == 1 else _sum_directions(by_metric)

    def _list_series(self, project: str, metric: _Metric, since: int, until: int) -> Iterator[Any]:
        request = ListTimeSeriesRequest(
            name=f"projects/{project}",
            filter=f'metric.type = "{metric.type}"',
            interval=TimeInterval(start_time={"seconds": since}, end_time={"seconds": until}),
            aggregation=Aggregation(
                alignment_period={"seconds": PERIOD},
                per_series_aligner=metric.aligner,
                cross_series_reducer=metric.reducer,
                group_by_fields=[f"resource.label.{label}" for label in metric.labels],
            ),
            page_size=PAGE_SIZE,
        )
        with translate_errors():
            pager = call_client(self._client.list_time_series, request, self._allowance)
            for page in all_of(unwrap_pages(pager.pages)):
                yield from page.time_series


def _sum_directions(directions: Sequence[Sequence[Sample]]) -> Sequence[Sample]:
    """The sums of both directions of a network. Single points of one direction may be missing. A
    direction that is missing for minutes proves no rest: the sample is left out then, unless the
    other direction alone is work."""
    minutes: dict[tuple[str, int, str, int], list[Sample]] = {}
    ends: list[set[tuple[str, int, str, int]]] = [set() for _ in directions]
    for direction, known in zip(directions, ends, strict=True):
        for sample in direction:
            key = sample.node_uid, sample.worker, sample.instance_id, sample.end
            minutes.setdefault(key, []).append(sample)
            known.add(key)
    summed = []
    for (*worker, end), samples in minutes.items():
        amount = sum(sample.value for sample in samples)
        nearby = range(end - GAP_SECONDS, end + GAP_SECONDS + 1, PERIOD)
        is_known = len(samples) == len(directions) or all(
            any((*worker, near) in known for near in nearby) for known in ends
        )
        if is_known or amount > HOST_BYTES:
            summed.append(samples[0]._replace(value=amount))
    return summed


def _read_samples(series: Any, labels: Sequence[str]) -> Iterator[Sample]:
    """Yield the points of one worker. A series without a worker is left out."""
    found = series.resource.labels
    if any(label not in found for label in labels):
        return
    if labels == _OF_NODE:
        number = found["worker_id"]
        if not number.isdecimal():
            return
        node, worker, instance = found["node_id"], int(number), ""
    else:
        node, worker, instance = "", 0, found[labels[-1]]
    for point in series.points:
        end = point.interval.end_time.seconds
        value = point.value
        amount = value.double_value or float(value.int64_value)
        yield Sample(node, worker, instance, end - PERIOD, end, amount)
