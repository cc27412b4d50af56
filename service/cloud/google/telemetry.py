"""Cloud Monitoring in our words: what each worker of a project did, minute by minute."""

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

from service.cloud.google.calls import ask
from service.cloud.google.errors import translated
from service.cloud.google.pages import all_of, raw
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.ports import Sample
from service.domain.errors import CloudNotFound
from service.domain.idle.signal import CHIPS_KINDS, HOST_BYTES, Kind

MONITORING_HOST = "monitoring.googleapis.com"
PERIOD = 60
"""Seconds that one point sums up; Google samples no more often."""

GAP_SECONDS = 300
"""For so long one way of a network may be missing while the other one is known."""

PAGE_SIZE = 100_000
"""Points on a page: the most that Google gives."""

_Aligner, _Reducer = Aggregation.Aligner, Aggregation.Reducer
_OF_NODE = ("zone", "node_id", "worker_id")
_OF_INSTANCE = ("worker_id",)


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric, how the chips or cores of a worker are brought together, and by which labels of the
    resource the worker is known."""

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
    """Google's client over a channel; its `api_endpoint` names Google even on the emulator's."""
    return MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))


class GoogleTelemetry:
    """`service.cloud.ports.Telemetry` over Google's own client."""

    def __init__(self, client: MetricServiceClient, patience: Allowances = PATIENT) -> None:
        self._client = client
        self._allowance = patience.listing

    def samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        """Every point of (since, until], page by page. One page that fails fails the whole.

        Monitoring answers NOT_FOUND for a metric that a project never had: that is no error.
        """
        found = [self._of(project, metric, since, until) for metric in _METRICS[kind]]
        return found[0] if len(found) == 1 else _summed(found)

    def _of(self, project: str, metric: _Metric, since: int, until: int) -> Sequence[Sample]:
        found: list[Sample] = []
        with suppress(CloudNotFound):
            for series in self._series(project, metric, since, until):
                found.extend(_samples(series, metric.labels))
        return found

    def _series(self, project: str, metric: _Metric, since: int, until: int) -> Iterator[Any]:
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
        with translated():
            pager = ask(self._client.list_time_series, request, self._allowance)
            for page in all_of(raw(pager.pages)):
                yield from page.time_series


def _summed(ways: Sequence[Sequence[Sample]]) -> Sequence[Sample]:
    """Both ways of a network together. Points of one way may be missing here and there; one that
    is not heard of for minutes proves no rest, so nothing is said then, unless the other is work.
    """
    minutes: dict[tuple[str, int, str, int], list[Sample]] = {}
    ends: list[set[tuple[str, int, str, int]]] = [set() for _ in ways]
    for way, known in zip(ways, ends, strict=True):
        for one in way:
            key = one.node_uid, one.worker, one.instance_id, one.end
            minutes.setdefault(key, []).append(one)
            known.add(key)
    summed = []
    for (*worker, end), some in minutes.items():
        amount = sum(one.value for one in some)
        is_heard = len(some) == len(ways) or all(
            any((*worker, near) in known for near in _near(end)) for known in ends
        )
        if is_heard or amount > HOST_BYTES:
            summed.append(some[0]._replace(value=amount))
    return summed


def _near(end: int) -> range:
    """The ends of the minutes around one."""
    return range(end - GAP_SECONDS, end + GAP_SECONDS + 1, PERIOD)


def _samples(series: Any, labels: Sequence[str]) -> Iterator[Sample]:
    """The points of one worker. A series that names no worker is left out."""
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
