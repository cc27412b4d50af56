"""Time series: how they are selected, aligned, reduced and paged, and what is refused."""

from __future__ import annotations

import pytest

from service.emulator.errors import Code
from service.emulator.nodes.nodes import instance_id
from tests.emulator.factories import START, Cloud, configured
from tests.emulator.series import (
    DOUBLE,
    DUTY,
    GAUGE,
    ON_TIME,
    ask,
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


FILTERS = {
    'resource.labels.zone = "us-central2-b"': 2,
    'resource.label.zone = "us-central2-b"': 2,
    'resource.labels.zone != "us-central2-b"': 0,
    'resource.labels.zone = starts_with("us-")': 2,
    'resource.labels.zone = ends_with("-b")': 2,
    'resource.labels.zone = has_substring("central9")': 0,
    'resource.labels.zone = monitoring.regex.full_match("us-[a-z0-9]+-b")': 2,
    'resource.labels.zone = one_of("us-west4-a", "us-central2-b")': 2,
    'resource.labels.project_id = "lab"': 2,
    'project = "lab"': 2,
    'project = "other"': 0,
    'resource.type = "tpu_worker"': 2,
    '(resource.labels.worker_id = "0" OR resource.labels.worker_id = "7")': 2,
    'NOT resource.labels.worker_id = "0"': 0,
    'metadata.user_labels.team = "nlp"': 0,
}


@pytest.mark.parametrize(("text", "count"), FILTERS.items(), ids=FILTERS)
def test_a_filter_selects_series(cloud, text, count):
    cloud.ready("a")
    cloud.ready("b")
    cloud.wait(120)
    assert len(listed(cloud, "memory/usage", text)) == count
    # Two terms side by side both have to hold.
    unjoined = f'{text} metric.type="tpu.googleapis.com/memory/usage"'
    assert len(ask(cloud, unjoined).time_series) == count


NO_METRIC = 'must specify a restriction on "metric.type"'
COMBINATION = "does not specify a valid combination of metric and monitored resource"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", NO_METRIC),
        ('resource.type = "tpu_worker"', NO_METRIC),
        ('metric.type = starts_with("tpu.googleapis.com/accelerator/")', NO_METRIC),
        (f'{filter_of(DUTY)} OR metric.type = "tpu.googleapis.com/memory/usage"', NO_METRIC),
        ("metric.type =", "syntax error at line 1, column 14, token 'EOF'"),
        ('metric.type = "a', "syntax error at line 1, column 15, token '\"'"),
        (f"{filter_of(DUTY)} AND AND", "syntax error"),
        (f"({filter_of(DUTY)}", "syntax error"),
        ('name = "x"', 'the field "name" is not known'),
        (f"{filter_of(DUTY)} loose", "is not known"),
        (filter_of(DUTY, 'resource.labels.location =~ "x"'), "operator"),
        (filter_of(DUTY, 'resource.labels.location = sounds_like("x")'), "sounds_like"),
        (
            filter_of(DUTY, 'resource.labels.location = monitoring.regex.full_match("(")'),
            "regular expression",
        ),
        (filter_of(DUTY, 'resource.labels.node_id = "1"'), COMBINATION),
        (filter_of(DUTY, 'resource.type = "tpu_worker"'), COMBINATION),
        (filter_of("memory/usage", 'metric.labels.core = "1"'), COMBINATION),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(cloud, text, why):
    error = refusal(cloud, text)
    assert error.code is Code.INVALID_ARGUMENT
    assert why in error.message


def test_a_metric_that_nobody_knows_is_not_found(cloud):
    error = refusal(cloud, 'metric.type = "tpu.googleapis.com/node/duty_cycle"')
    assert error.code is Code.NOT_FOUND
    assert 'Cannot find metric(s) that match type = "tpu.googleapis.com/node/dut' in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"interval": {}},
        {"interval": {"end_time": {"seconds": 1}, "start_time": {"seconds": 2}}},
        {"interval": {"end_time": {"seconds": 10**17}}},
        {"name": "lab"},
        {"page_token": "x"},
        {"page_size": -1},
        {"order_by": "time"},
        {"aggregation": {"cross_series_reducer": 1}},
        {"aggregation": {"per_series_aligner": 12}},
        {"aggregation": {"per_series_aligner": 12, "alignment_period": {"seconds": 59}}},
        {"aggregation": {"per_series_aligner": 12, "alignment_period": {"seconds": 10**9}}},
        {"aggregation": {"per_series_aligner": 2, "alignment_period": {"seconds": 60}}},
        {"aggregation": {"per_series_aligner": 77, "alignment_period": {"seconds": 60}}},
        {"aggregation": {"group_by_fields": ["zone"]}},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(cloud, fields):
    assert refusal(cloud, filter_of(DUTY), **fields).code is Code.INVALID_ARGUMENT


def test_an_interval_without_a_start_is_one_moment(cloud):
    cloud.ready()
    cloud.wait(600)
    (series,) = listed(cloud, "memory/usage")
    at = {"end_time": {"seconds": ends(series)[3]}}
    (alone,) = listed(cloud, "memory/usage", interval=at)
    assert list(alone.points) == [series.points[3]]


def aggregation(period: int, aligner: str, reducer: str = "REDUCE_NONE", *group_by: str):
    return {
        "alignment_period": {"seconds": period},
        "per_series_aligner": aligner,
        "cross_series_reducer": reducer,
        "group_by_fields": group_by,
    }


@pytest.mark.parametrize(
    ("aligner", "value"),
    [
        ("ALIGN_MEAN", 40),
        ("ALIGN_MAX", 80),
        ("ALIGN_MIN", 0),
        ("ALIGN_SUM", 400),
        ("ALIGN_COUNT", 10),
        ("ALIGN_NEXT_OLDER", 0),
        ("ALIGN_PERCENTILE_50", 40),
    ],
)
def test_points_are_aligned_to_periods_that_end_with_the_interval(cloud, aligner, value):
    name = cloud.ready()
    phase = instance_id(cloud.world.nodes[name], 0) % 60
    # So that the work begins and ends between two of this machine's points.
    cloud.wait((phase - cloud.now) % 60)
    busy(cloud, name, duty_cycle=80)
    cloud.wait(300)
    busy(cloud, name, duty_cycle=0)
    cloud.wait(300)
    (first, *_) = listed(cloud, DUTY, seconds=600, aggregation=aggregation(600, aligner))
    assert values(first) == [pytest.approx(value)]
    assert ends(first) == [int(cloud.now)]


def test_a_rate_is_bytes_a_second(cloud):
    busy(cloud, cloud.ready(), sent=5000)
    cloud.wait(900)
    rate = aggregation(300, "ALIGN_RATE")
    (series,) = listed(cloud, "network/sent_bytes_count", seconds=300, aggregation=rate)
    assert values(series) == [pytest.approx(5000)]
    assert (series.metric_kind, series.value_type) == (GAUGE, DOUBLE)


@pytest.mark.parametrize(
    ("reducer", "value"),
    [("REDUCE_MAX", 90), ("REDUCE_MIN", 10), ("REDUCE_MEAN", 50), ("REDUCE_SUM", 400)],
)
def test_series_are_reduced_by_the_labels_asked_for(cloud, reducer, value):
    for node_id, duty in (("a", 10), ("b", 90)):
        busy(cloud, cloud.ready(node_id), duty_cycle=duty)
    cloud.wait(600)
    wanted = aggregation(60, "ALIGN_MEAN", reducer, "resource.labels.location")
    (series,) = listed(cloud, DUTY, seconds=120, aggregation=wanted)
    assert values(series) == [pytest.approx(value)] * 2
    assert dict(series.resource.labels) == {"location": "us-central2-b"}
    assert dict(series.metric.labels) == {}


def test_series_are_counted_by_worker(cloud):
    for node_id in "ab":
        busy(cloud, cloud.ready(node_id), duty_cycle=1)
    cloud.wait(600)
    wanted = aggregation(60, "ALIGN_MEAN", "REDUCE_COUNT", "resource.labels.worker_id")
    found = listed(cloud, DUTY, seconds=60, aggregation=wanted)
    assert [values(each) for each in found] == [[4], [4]]
    then = aggregation(60, "ALIGN_MAX", "REDUCE_SUM")
    (both,) = listed(cloud, DUTY, seconds=60, aggregation=wanted, secondary_aggregation=then)
    assert values(both) == [8]


def test_headers_come_without_points(cloud):
    cloud.ready()
    cloud.wait(120)
    (series,) = listed(cloud, "memory/usage", view=1)
    assert series.resource.labels["worker_id"] == "0"
    assert len(series.points) == 0


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pages_may_end_inside_a_series_and_lose_nothing(cloud, size):
    for node_id in "abc":
        cloud.ready(node_id)
    cloud.wait(300)
    whole = ask(cloud, filter_of("memory/usage")).time_series
    found: dict[str, list[int]] = {}
    token = ""
    interval = {"start_time": {"seconds": int(START)}, "end_time": {"seconds": int(cloud.now)}}
    while True:
        page = ask(
            cloud,
            filter_of("memory/usage"),
            page_size=size,
            page_token=token,
            interval=interval,
        )
        assert sum(len(each.points) for each in page.time_series) <= size
        for each in page.time_series:
            found.setdefault(each.resource.labels["node_id"], []).extend(ends(each))
        # What comes between two pages is not of this list.
        cloud.wait(60)
        token = page.next_page_token
        if not token:
            break
    assert found == {each.resource.labels["node_id"]: ends(each) for each in whole}


def test_a_token_is_good_for_its_own_list_only(cloud):
    cloud.ready()
    cloud.wait(300)
    token = ask(cloud, filter_of("memory/usage"), page_size=1).next_page_token
    text = filter_of("network/sent_bytes_count")
    assert refusal(cloud, text, page_size=1, page_token=token).code is Code.INVALID_ARGUMENT
