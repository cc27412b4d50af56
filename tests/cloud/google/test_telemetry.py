"""What the workers of a project did, read through Google's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from google.api_core import exceptions
from google.cloud.monitoring_v3 import ListTimeSeriesResponse
from google.cloud.monitoring_v3.services.metric_service import MetricServiceClient

from service.cloud.google.retries import ONCE
from service.cloud.google.telemetry import GoogleTelemetry, monitoring_client
from service.domain.errors import CloudUnavailable, NotAllowed
from service.domain.idle.signals.signal import MONITORED, Kind
from service.emulator.nodes.nodes import instance_id
from service.emulator.surfaces.channel import LocalChannel
from tests.emulator.factories import Cloud, configured
from tests.emulator.series import ON_TIME, busy

MANUAL = Path(__file__).parents[3] / "service/manual/cleanup.md"


@pytest.fixture
def cloud() -> Cloud:
    """A cloud whose points can be seen at once."""
    return configured(telemetry=ON_TIME)


def read(cloud: Cloud, kind: Kind, seconds: int = 600) -> list[Any]:
    now = int(cloud.now)
    client = monitoring_client(LocalChannel(cloud.world))
    found = GoogleTelemetry(client, ONCE).read_samples("lab", kind, now - seconds, now)
    return sorted(found, key=lambda one: (one.node_uid, one.instance_id, one.worker, one.end))


def test_the_busiest_core_of_each_worker_is_told_minute_by_minute(cloud):
    name = cloud.ready(accelerator_type="v4-32")
    busy(cloud, name, cpu=250)
    cloud.wait(600)
    found = read(cloud, Kind.CPU)
    record = cloud.world.nodes[name]
    assert {point.node_uid for point in found} == {str(record.message.id)}
    assert sorted({point.worker for point in found}) == list(range(record.accelerator.hosts))
    assert {point.end - point.start for point in found} == {60}
    assert max(point.value for point in found) == 100
    assert len(found) >= 9 * record.accelerator.hosts


def test_the_busiest_chip_is_told_by_its_instance(cloud):
    name = cloud.ready()
    busy(cloud, name, duty_cycle=70)
    cloud.wait(600)
    found = read(cloud, Kind.DUTY_CYCLE)
    record = cloud.world.nodes[name]
    assert {point.instance_id for point in found} == {str(instance_id(record, 0))}
    assert {point.node_uid for point in found} == {""}
    assert found[-1].value == 70


def test_the_core_that_worked_last_counts_as_idle_for_the_shortest(cloud):
    name = cloud.ready()
    cloud.wait(300)
    busy(cloud, name, tensorcore=20)
    cloud.wait(120)
    busy(cloud, name, tensorcore=0)
    cloud.wait(300)
    values = [point.value for point in read(cloud, Kind.TENSORCORE_IDLE)]
    assert min(values) == 0
    assert 200 <= values[-1] <= 300


def test_the_network_is_told_in_bytes_a_second_for_both_ways(cloud):
    name = cloud.ready()
    busy(cloud, name, received=5e6, sent=1e3)
    cloud.wait(600)
    values = {round(point.value) for point in read(cloud, Kind.NETWORK, 240)}
    assert values == {5_001_000}


def network(client, **ways):
    """What is read where each way of the network has those bytes a second by the end of a minute;
    None where the project never had that metric."""

    def answer(request, **_):
        way = next(way for way in ways if f"network/{way}_bytes_count" in request.filter)
        if ways[way] is None:
            raise exceptions.NotFound("Cannot find metric(s)")
        labels = {"zone": "z", "node_id": "1", "worker_id": "0"}
        points = [{**point(value), "interval": at(end)} for end, value in ways[way].items()]
        series = [{"resource": {"type": "tpu_worker", "labels": labels}, "points": points}]
        return Mock(pages=[ListTimeSeriesResponse(time_series=series)])

    client.list_time_series.side_effect = answer
    found = GoogleTelemetry(client, ONCE).read_samples("lab", Kind.NETWORK, 0, 600)
    return {point.end: point.value for point in found}


def at(end):
    return {"end_time": {"seconds": end}}


def test_one_way_of_the_network_alone_proves_no_rest(client):
    stopped = dict.fromkeys(range(60, 600, 60), 5)
    assert max(network(client, received=stopped, sent={60: 1})) == 360
    assert network(client, received={60: 5, 120: 7}, sent={60: 1}) == {60: 6, 120: 7}
    assert network(client, received={60: 5}, sent=None) == {}
    assert network(client, received=None, sent={60: 5}) == {}


def test_one_way_of_the_network_alone_may_be_work(client):
    assert network(client, received={}, sent={60: 2e6}) == {60: 2e6}
    assert network(client, received={60: 600_000}, sent={60: 600_000}) == {60: 1_200_000}


def test_an_accelerator_that_never_started_has_no_duty_cycle(cloud):
    cloud.ready()
    cloud.wait(600)
    assert read(cloud, Kind.DUTY_CYCLE) == []
    assert read(cloud, Kind.CPU)


@pytest.mark.parametrize("kind", [Kind.SCHEDULED_CHIPS, Kind.ACTIVE_CHIPS, Kind.UTILIZED_CHIPS])
def test_chips_are_told_by_their_instance(cloud, kind):
    name = cloud.ready()
    busy(cloud, name, duty_cycle=70, tensorcore=30)
    cloud.wait(300)
    record = cloud.world.nodes[name]
    found = read(cloud, kind, 180)
    assert {(point.instance_id, point.value) for point in found} == {
        (str(instance_id(record, 0)), 4)
    }


def test_the_manual_states_the_calls_of_a_check_and_the_size_of_a_page(client):
    client.list_time_series.return_value = Mock(pages=[ListTimeSeriesResponse()])
    for kind in MONITORED:
        GoogleTelemetry(client, ONCE).read_samples("lab", kind, 0, 60)
    calls = client.list_time_series.call_args_list
    manual = " ".join(MANUAL.read_text().split())
    assert (len(calls), len(MONITORED)) == (9, 8)
    assert "nine calls for the eight signals" in manual
    assert {call.kwargs["request"].page_size for call in calls} == {100_000}
    assert "holds 100,000 points" in manual


def test_a_metric_that_does_not_exist_is_no_error(client):
    client.list_time_series.side_effect = exceptions.NotFound("Cannot find metric(s)")
    assert GoogleTelemetry(client, ONCE).read_samples("lab", Kind.NETWORK, 0, 60) == []


@pytest.fixture
def client() -> Any:
    return create_autospec(MetricServiceClient, instance=True, spec_set=True)


@pytest.mark.parametrize("kind", MONITORED)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exceptions.ServiceUnavailable("no"), CloudUnavailable),
        (exceptions.PermissionDenied("no"), NotAllowed),
    ],
)
def test_a_read_that_fails_is_never_an_empty_answer(client, kind, error, expected):
    client.list_time_series.side_effect = error
    with pytest.raises(expected):
        GoogleTelemetry(client, ONCE).read_samples("lab", kind, 0, 60)


def test_a_series_that_names_no_worker_is_left_out(client):
    series: list[dict[str, Any]] = [
        {"resource": {"type": "tpu_worker", "labels": labels}, "points": [point(7)]}
        for labels in (
            {"zone": "z", "node_id": "1", "worker_id": "0"},
            {"zone": "z", "node_id": "1", "worker_id": "x"},
            {"zone": "z", "node_id": "1"},
        )
    ]
    page = ListTimeSeriesResponse(time_series=series)
    client.list_time_series.return_value.pages = [page]
    (found,) = GoogleTelemetry(client, ONCE).read_samples("lab", Kind.CPU, 0, 60)
    assert (found.node_uid, found.worker, found.start, found.end, found.value) == ("1", 0, 0, 60, 7)


def point(value: float) -> dict[str, Any]:
    return {"interval": {"end_time": {"seconds": 60}}, "value": {"double_value": value}}
