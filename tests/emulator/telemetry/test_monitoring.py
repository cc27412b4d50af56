"""Time series: what Monitoring shows of a node, and what it withholds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.nodes.nodes import instance_id
from service.emulator.surfaces import control
from service.emulator.telemetry.metrics import METRICS
from service.emulator.telemetry.series import chip_coordinate
from tests.emulator.factories import Cloud, configured, name_of
from tests.emulator.series import (
    DELTA,
    DUTY,
    ON_TIME,
    busy,
    ends,
    filter_of,
    listed,
    refusal,
    values,
)


@pytest.fixture
def cloud() -> Cloud:
    """A cloud whose points can be seen at once."""
    return configured(telemetry=ON_TIME)


def test_a_busy_chip_has_a_point_a_minute_the_newest_first(cloud):
    busy(cloud, cloud.ready(), duty_cycle=70)
    cloud.wait(600)
    series = listed(cloud, DUTY)
    assert len(series) == 4
    for each in series:
        assert len(each.points) == 10
        assert ends(each) == sorted(ends(each), reverse=True)
        assert {later - earlier for later, earlier in pairwise(ends(each))} == {60}
        assert values(each)[:-1] == [70.0] * 9
        point = each.points[0].interval
        assert point.start_time == point.end_time


def test_an_accelerator_that_never_started_has_no_duty_cycle_but_its_host_is_there(cloud):
    cloud.ready()
    cloud.wait(600)
    assert listed(cloud, DUTY) == []
    cores = listed(cloud, "cpu/utilization")
    total = sum(values(core)[0] for core in cores)
    assert 1 <= total <= 3
    (uptime,) = listed(cloud, "instance/uptime_total")
    assert values(uptime)[0] - values(uptime)[1] == 60
    assert all(
        max(values(each)) < 1 for each in listed(cloud, "accelerator/tensorcore_utilization")
    )


def test_an_accelerator_that_stopped_working_has_a_duty_cycle_of_nothing(cloud):
    name = cloud.ready()
    busy(cloud, name, duty_cycle=70)
    cloud.wait(300)
    busy(cloud, name, duty_cycle=0)
    cloud.wait(600)
    assert values(listed(cloud, DUTY)[0])[:3] == [0, 0, 0]


def test_duty_cycles_are_labelled_by_instance_alone(cloud):
    name = cloud.ready()
    busy(cloud, name, duty_cycle=1)
    cloud.wait(120)
    (first, *_) = listed(cloud, DUTY)
    instance = instance_id(cloud.world.nodes[name], 0)
    assert first.resource.type == "tpu.googleapis.com/GceTpuWorker"
    assert dict(first.resource.labels) == {
        "resource_container": "lab",
        "location": "us-central2-b",
        "worker_id": str(instance),
    }
    assert first.metric.labels["accelerator_id"].startswith(f"{instance}-")


def test_what_is_measured_of_a_host_carries_the_nodes_number(cloud):
    name = cloud.ready()
    cloud.wait(120)
    (series,) = listed(cloud, "memory/usage")
    assert series.resource.type == "tpu_worker"
    assert dict(series.resource.labels) == {
        "project_id": "lab",
        "zone": "us-central2-b",
        "node_id": str(cloud.world.nodes[name].message.id),
        "worker_id": "0",
    }


def test_duty_cycles_count_chips_in_the_slice_and_the_others_in_their_host(cloud):
    busy(cloud, cloud.ready(accelerator_type="v4-32"), duty_cycle=1)
    cloud.wait(120)

    def numbers(metric: str) -> list[int]:
        labels = [each.metric.labels["accelerator_id"] for each in listed(cloud, metric)]
        return sorted(int(label.rpartition("-")[2]) for label in labels)

    assert numbers(DUTY) == list(range(16))
    assert numbers("accelerator/tensorcore_utilization") == sorted([0, 1, 2, 3] * 4)


@pytest.mark.parametrize("kind", ["v4-8", "v4-512", "v5litepod-1", "v5litepod-8", "v5litepod-64"])
def test_every_chip_of_a_slice_has_a_coordinate_of_its_own(cloud, kind):
    zone = "us-west4-a" if kind.startswith("v5") else "us-central2-b"
    parent = f"projects/lab/locations/{zone}"
    runtime = "v2-alpha-tpuv5-lite" if kind.startswith("v5") else "tpu-ubuntu2204-base"
    name = cloud.ready("a", parent, accelerator_type=kind, runtime_version=runtime)
    record = cloud.world.nodes[name]
    each = record.accelerator.chips // record.accelerator.hosts
    found = [
        chip_coordinate(record, worker, chip)
        for worker in range(record.accelerator.hosts)
        for chip in range(each)
    ]
    assert sorted(found) == list(range(record.accelerator.chips))


def test_the_cores_of_a_host_add_up_to_what_was_told(cloud):
    busy(cloud, cloud.ready(), cpu=240)
    cloud.wait(180)
    found = {
        each.metric.labels["core"]: values(each)[0] for each in listed(cloud, "cpu/utilization")
    }
    assert found == {"0": 100, "1": 100, "2": 40, "3": 0}


def test_bytes_are_counted_over_their_minute(cloud):
    busy(cloud, cloud.ready(), received=1000)
    cloud.wait(180)
    (series,) = listed(cloud, "network/received_bytes_count")
    point = series.points[0]
    assert point.value.int64_value == 60_000
    assert point.interval.end_time.seconds - point.interval.start_time.seconds == 60
    assert series.metric_kind == DELTA


def test_idleness_grows_from_the_last_work(cloud):
    name = cloud.ready()
    busy(cloud, name, duty_cycle=50)
    cloud.wait(300)
    busy(cloud, name, duty_cycle=0)
    stopped = cloud.now
    cloud.wait(300)
    series = listed(cloud, "tpu/tensorcore/idle_duration")[0]
    assert values(series)[0] == round(ends(series)[0] - stopped)
    assert values(series)[-1] == 0


@pytest.mark.parametrize("verb", ["preempt", "stop", "delete"])
def test_a_machine_that_is_down_has_no_points(cloud, verb):
    name = cloud.ready(**({"scheduling_config": {"spot": True}} if verb == "preempt" else {}))
    cloud.wait(300)
    match verb:
        case "preempt":
            control.preempt_node(cloud.world, {"name": name})
        case "stop":
            cloud.ask("StopNode", name=name)
        case _:
            cloud.ask("DeleteNode", name=name)
    gone = cloud.now
    cloud.wait(600)
    (series,) = listed(cloud, "memory/usage")
    assert len(series.points) == 5
    assert ends(series)[0] <= gone


def test_a_reused_name_is_another_node(cloud):
    name = cloud.ready()
    cloud.wait(120)
    cloud.ask("DeleteNode", name=name)
    cloud.wait(60)
    cloud.ready()
    cloud.wait(120)
    assert len({each.resource.labels["node_id"] for each in listed(cloud, "memory/usage")}) == 2


def test_a_series_can_be_seen_only_after_its_own_delay():
    cloud = configured(telemetry={"delay_seconds": 180})
    for node_id in "abcdef":
        cloud.ready(node_id)
    cloud.wait(600)
    lags = [cloud.now - ends(each)[0] for each in listed(cloud, "memory/usage")]
    assert len(set(lags)) > 1
    assert all(lag < 180 + 60 for lag in lags)
    assert max(lags) > 60


def test_points_that_come_late_come_all_the_same():
    cloud = configured(telemetry={"delay_seconds": 100, "late_share": 0.5})
    cloud.ready()
    cloud.wait(1200)
    before = set(ends(listed(cloud, "memory/usage", seconds=300)[0]))
    interval = {
        "start_time": {"seconds": int(cloud.now) - 300},
        "end_time": {"seconds": int(cloud.now)},
    }
    cloud.wait(600)
    after = set(ends(listed(cloud, "memory/usage", interval=interval)[0]))
    assert before < after
    assert len(after) == 5


def test_lost_points_stay_lost():
    cloud = configured(telemetry={**ON_TIME, "gap_share": 0.3})
    cloud.ready()
    cloud.wait(60_000)
    (series,) = listed(cloud, "memory/usage", seconds=60_000)
    assert 600 < len(series.points) < 800
    assert listed(cloud, "memory/usage", seconds=60_000) == [series]


@pytest.mark.parametrize(
    ("missing", "left"),
    [
        (["us-central2-b"], 0),
        (["v4"], 0),
        (["memory/usage"], 0),
        (["tpu.googleapis.com/memory/usage"], 0),
        (["v4 memory/usage"], 0),
        (["v4 cpu/utilization"], 1),
        (["v5e", "us-west4-a", ""], 1),
    ],
)
def test_some_zones_generations_and_metrics_say_nothing(missing, left):
    cloud = configured(telemetry={**ON_TIME, "missing": missing})
    cloud.ready()
    cloud.wait(120)
    assert len(listed(cloud, "memory/usage")) == left


def test_one_worker_of_a_slice_may_be_without_telemetry():
    name = "projects/lab/locations/us-central2-b/nodes/a"
    missing = [f"{name} worker-1", "worker-2 cpu/utilization"]
    cloud = configured(telemetry={**ON_TIME, "missing": missing})
    assert cloud.ready("a", accelerator_type="v4-32") == name
    cloud.wait(120)

    def workers(metric):
        found = listed(cloud, metric)
        return {each.resource.labels["worker_id"] for each in found}

    assert workers("memory/usage") == {"0", "2", "3"}
    assert workers("cpu/utilization") == {"0", "3"}


@pytest.mark.parametrize("metric", ["memory/usage", "network/sent_bytes_count"])
def test_a_family_is_switched_off_and_on_in_a_zone_while_others_go_on(metric):
    cloud = configured(telemetry={**ON_TIME, "missing": [f"us-central2-b {metric}"]})
    cloud.ready()
    cloud.wait(120)
    assert listed(cloud, metric) == []
    assert len(listed(cloud, "cpu/utilization")) > 0
    control.change_config(cloud.world, {"telemetry": {"missing": []}})
    assert len(listed(cloud, metric)) == 1


def test_after_six_weeks_one_point_in_ten_is_left(cloud):
    cloud.ready()
    cloud.wait(50 * 86_400)
    (series,) = listed(cloud, "memory/usage", seconds=50 * 86_400)
    found = ends(series)
    assert {later - earlier for later, earlier in pairwise(found)} == {60, 600}
    assert found[-2] - found[-1] == 600


def test_a_preemption_is_counted_for_each_machine(cloud):
    cloud.create("s", accelerator_type="v4-16", scheduling_config={"spot": True})
    cloud.wait(320)
    control.preempt_node(cloud.world, {"name": name_of("s")})
    cloud.wait(120)
    series = listed(cloud, "instance/interruption_count")
    assert [values(each) for each in series] == [[1], [1]]
    reasons = {each.metric.labels["interruption_reason"] for each in series}
    names = [each.metric.labels["instance_name"] for each in series]
    assert reasons == {"Eviction"}
    assert sorted(name[-4:] for name in names) == ["-w-0", "-w-1"]
    wanted = 'metric.labels.interruption_reason = "HostError"'
    assert listed(cloud, "instance/interruption_count", wanted) == []


def test_a_fault_can_strike_one_metric(cloud):
    cloud.ready()
    cloud.wait(120)
    match = {"metric": f"tpu.googleapis.com/{DUTY}", "project": "lab"}
    order = {"rpc": "ListTimeSeries", "action": "error", "code": "UNAVAILABLE", "match": match}
    control.add_fault(cloud.world, order)
    assert len(listed(cloud, "memory/usage")) == 1
    assert refusal(cloud, filter_of(DUTY)).code is Code.UNAVAILABLE


def test_an_outage_may_look_like_an_empty_project(cloud):
    cloud.ready()
    cloud.wait(120)
    control.add_fault(cloud.world, {"rpc": "ListTimeSeries", "action": "empty_list"})
    assert listed(cloud, "memory/usage") == []
    assert len(listed(cloud, "memory/usage")) == 1


def test_metrics_are_described(cloud):
    found = cloud.ask("ListMetricDescriptors", name="projects/lab").metric_descriptors
    assert [each.type for each in found] == [metric.type for metric in METRICS]
    name = "projects/lab/metricDescriptors/tpu.googleapis.com/accelerator/duty_cycle"
    duty = cloud.ask("GetMetricDescriptor", name=name)
    assert (duty.unit, [label.key for label in duty.labels]) == ("%", ["accelerator_id"])
    text = 'metric.type = starts_with("tpu.googleapis.com/network/")'
    some = cloud.ask("ListMetricDescriptors", name="projects/lab", filter=text, page_size=1)
    assert len(some.metric_descriptors) == 1
    assert some.next_page_token


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("projects/lab/metricDescriptors/x.googleapis.com/y", Code.NOT_FOUND),
        ("projects/lab", Code.INVALID_ARGUMENT),
    ],
)
def test_what_is_no_metric_is_not_described(cloud, name, code):
    with pytest.raises(ApiError) as caught:
        cloud.ask("GetMetricDescriptor", name=name)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"gap_share": 2}, "gap_share must be a number from 0 to 1"),
        ({"delay_seconds": -1}, "delay_seconds must be a number"),
        ({"missing": "v4"}, "missing must be a list of texts"),
        ({"cores": 0}, "cores must be a whole number from 1"),
        ({"colour": 1}, "unknown settings colour; known: delay_seconds"),
        (3, "must be a JSON object"),
    ],
)
def test_settings_that_make_no_sense_are_refused(cloud, patch, text):
    with pytest.raises(ApiError, match=text):
        control.change_config(cloud.world, {"telemetry": patch})


def test_nothing_is_kept_for_a_node_that_nobody_asks_about(cloud):
    record = cloud.world.nodes[cloud.ready()]
    cloud.wait(7 * 86_400)
    assert len(record.activity.runs) == 1
    assert record.activity.as_dict() == {}
