"""Calls of Cloud Monitoring for a check of ten thousand nodes: Google's own client, and a server on
this machine that answers in pages as Google does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.cloud.monitoring_v3 import ListTimeSeriesRequest, ListTimeSeriesResponse

from service.cloud.google.channel import open_channel
from service.cloud.google.telemetry import (
    MONITORING_HOST,
    PAGE_SIZE,
    PERIOD,
    GoogleTelemetry,
    monitoring_client,
)
from service.domain.idle.signals.signal import MONITORED
from tests.bench.figure import Figure
from tests.hands import NOON

OVERLAP = 300
"""Seconds before the last read that a read covers again, as points may be late."""

GOOGLES_MOST = 100_000
"""Points on a page of Google's, whatever a request asks for."""

METRICS = len(MONITORED) + 1
"""Google counts the network in two metrics."""


class PagedMonitoring(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Answers each metric with a point a minute of each node, and counts the calls. A series is
    not divided between pages."""

    def __init__(self, nodes: int) -> None:
        self.calls = 0
        self._nodes = nodes

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[ListTimeSeriesRequest, ListTimeSeriesResponse] | None:
        """The handler of the only method that is called."""
        if not handler_call_details.method.endswith("/ListTimeSeries"):
            return None
        return grpc.unary_unary_rpc_method_handler(
            lambda request, _: self._answer_page(request),
            ListTimeSeriesRequest.deserialize,
            ListTimeSeriesResponse.serialize,
        )

    def _answer_page(self, request: ListTimeSeriesRequest) -> ListTimeSeriesResponse:
        self.calls += 1
        interval = ListTimeSeriesRequest.pb(request).interval
        start, end = interval.start_time.seconds, interval.end_time.seconds
        minutes = range(start + PERIOD, end + 1, PERIOD)
        size = min(request.page_size or GOOGLES_MOST, GOOGLES_MOST) // len(minutes)
        first = int(request.page_token or 0)
        last = min(first + size, self._nodes)
        points = [
            {"interval": {"end_time": {"seconds": at}}, "value": {"double_value": 1.0}}
            for at in reversed(minutes)
        ]
        page = ListTimeSeriesResponse.pb(
            ListTimeSeriesResponse(time_series=[{"points": points}] * (last - first))
        )
        for number, series in enumerate(page.time_series, start=first):
            labels = {"zone": "us-west4-a", "node_id": str(number), "worker_id": "0"}
            series.resource.labels.update(labels | {"instance_id": str(number)})
        page.next_page_token = str(last) if last < self._nodes else ""
        return ListTimeSeriesResponse.wrap(page)


def measure_pages(nodes: int) -> list[Figure]:
    """The calls of a usual check, and of the first check after 15 minutes without a read."""
    monitoring = PagedMonitoring(nodes)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([monitoring])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with open_channel(f"127.0.0.1:{port}", MONITORING_HOST) as channel:
            telemetry = GoogleTelemetry(monitoring_client(channel))
            return [
                _count_calls(telemetry, lambda: monitoring.calls, nodes, seconds, name)
                for seconds, name in ((PERIOD, "a tick"), (900, "a tick after 15 min without one"))
            ]
    finally:
        server.stop(None)


def _count_calls(
    telemetry: GoogleTelemetry, count: Callable[[], int], nodes: int, seconds: int, name: str
) -> Figure:
    """The calls for one read of every metric, with what is promised of them."""
    before = count()
    points = nodes * ((seconds + OVERLAP) // PERIOD)
    for kind in MONITORED:
        found = len(telemetry.read_samples("lab", kind, NOON - seconds - OVERLAP, NOON))
        assert found == points, f"{found} of {points} points of {kind} were read"
    pages = -(-points // GOOGLES_MOST)
    return Figure(
        f"cleanup of {nodes} nodes: calls of Monitoring in {name}",
        count() - before,
        METRICS * pages,
        detail=f"{METRICS} metrics x 1 project x {pages} (pages of a metric): {points:,} points"
        f" of each metric, {PAGE_SIZE:,} on a page",
    )
