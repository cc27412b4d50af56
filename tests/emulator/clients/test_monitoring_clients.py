"""Google's Monitoring clients take the emulator for the cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import monitoring_v3
from google.cloud.monitoring_v3.services.metric_service.transports import (
    MetricServiceGrpcAsyncIOTransport,
    MetricServiceGrpcTransport,
)

from service.emulator.app import build_world, run_in_thread
from service.emulator.telemetry.metrics import METRICS
from tests.emulator.factories import PARENT, START, Web, name_of
from tests.emulator.google_clients import packaged
from tests.emulator.series import DUTY, filter_of


@pytest.fixture(scope="module")
def lab() -> Iterator[SimpleNamespace]:
    """A served emulator with one busy node that is ten minutes old by its own clock."""
    hand = SimpleNamespace(now=START)
    world = build_world(clock=lambda: hand.now)
    with run_in_thread(world) as emulator:
        web = Web(emulator.rest_url)
        body = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
        web.ask("POST", f"/v2/{PARENT}/nodes?nodeId=a", body)
        hand.now += 20
        order = {"name": name_of("a"), "duty_cycle": 42}
        web.ask("POST", "/_emulator/nodes/activity", order)
        hand.now += 600
        yield SimpleNamespace(emulator=emulator, now=int(hand.now))


def request(lab, **more):
    interval = {"start_time": {"seconds": lab.now - 500}, "end_time": {"seconds": lab.now}}
    return {
        "name": "projects/lab",
        "filter": filter_of(DUTY),
        "interval": interval,
        "view": monitoring_v3.ListTimeSeriesRequest.TimeSeriesView.FULL,
        **more,
    }


def test_googles_client_reads_series_over_grpc(lab):
    with grpc.insecure_channel(lab.emulator.grpc_address) as channel:
        client = monitoring_v3.MetricServiceClient(
            transport=MetricServiceGrpcTransport(channel=channel)
        )
        found = list(client.list_time_series(request=request(lab, page_size=5)))
        assert {point.value.double_value for each in found for point in each.points} == {42.0}
        with pytest.raises(exceptions.NotFound):
            client.list_time_series(request=request(lab, filter='metric.type = "x"'))
        with pytest.raises(exceptions.InvalidArgument):
            client.list_time_series(request=request(lab, filter=""))
        assert len(list(client.list_metric_descriptors(name="projects/lab"))) == len(METRICS)
        with pytest.raises(exceptions.MethodNotImplemented):
            client.create_time_series(name="projects/lab", time_series=[])


async def read_asynchronously(lab) -> set[float]:
    async with grpc.aio.insecure_channel(lab.emulator.grpc_address) as channel:
        client = monitoring_v3.MetricServiceAsyncClient(
            transport=MetricServiceGrpcAsyncIOTransport(channel=channel)
        )
        pager = await client.list_time_series(request=request(lab))
        return {point.value.double_value async for each in pager for point in each.points}


def test_googles_asynchronous_client_reads_series(lab):
    assert asyncio.run(read_asynchronously(lab)) == {42.0}


def test_the_discovery_client_reads_series_over_rest(lab):
    with packaged(lab.emulator.rest_url, "monitoring", "v3") as service:
        listing = service.projects().timeSeries()
        answer = listing.list(
            name="projects/lab",
            filter=filter_of(DUTY),
            interval_startTime="2027-01-15T08:00:00Z",
            interval_endTime="2027-01-15T08:30:00Z",
            aggregation_alignmentPeriod="1800s",
            aggregation_perSeriesAligner="ALIGN_MAX",
            aggregation_crossSeriesReducer="REDUCE_MAX",
            aggregation_groupByFields=["resource.labels.location"],
        ).execute()
        (series,) = answer["timeSeries"]
        assert series["points"][0]["value"] == {"doubleValue": 42.0}
        assert series["resource"]["labels"] == {"location": "us-central2-b"}
        descriptors = service.projects().metricDescriptors()
        name = f"projects/lab/metricDescriptors/tpu.googleapis.com/{DUTY}"
        assert descriptors.get(name=name).execute()["metricKind"] == "GAUGE"
