"""What a node did: told once, known for any moment after."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.nodes import activity
from service.emulator.nodes.activity import MAX_STEPS, record_activity
from service.emulator.surfaces import control
from tests.emulator.factories import Cloud


def record_of(cloud: Cloud, name: str):
    return cloud.world.nodes[name]


def course(record, key: str, worker: int = 0, chip: int | None = None):
    return record.activity.get_course(record.activity.runs[-1], key, worker, chip)


@pytest.fixture
def record(cloud):
    return record_of(cloud, cloud.ready())


@pytest.fixture
def pod(cloud):
    """Four hosts of four chips each."""
    return record_of(cloud, cloud.ready("pod", accelerator_type="v4-32"))


def test_a_node_nobody_told_anything_of_has_no_course(record, cloud):
    assert course(record, "duty_cycle").value_at(cloud.now) is None
    assert course(record, "cpu").mean_over(cloud.now, cloud.now + 60) is None


def test_a_value_holds_until_the_next_is_told(record, cloud):
    start = cloud.now
    record_activity(record, start + 10, {"duty_cycle": 80})
    record_activity(record, start + 40, {"duty_cycle": 20})
    found = course(record, "duty_cycle")
    assert [found.value_at(start + at) for at in (9, 10, 39, 40, 1e6)] == [None, 80, 80, 20, 20]


def test_a_mean_weighs_each_value_by_its_time(record, cloud):
    start = cloud.now
    record_activity(record, start, {"duty_cycle": 90})
    record_activity(record, start + 20, {"duty_cycle": 30})
    assert course(record, "duty_cycle").mean_over(start, start + 60) == pytest.approx(50)


def test_a_burst_shows_in_the_minute_it_falls_into(record, cloud):
    start = cloud.now
    record_activity(record, start, {"duty_cycle": 0})
    record_activity(record, start + 61, {"duty_cycle": 100})
    record_activity(record, start + 67, {"duty_cycle": 0})
    found = course(record, "duty_cycle")
    means = [found.mean_over(start + at, start + at + 60) for at in (0, 60, 120)]
    assert means == pytest.approx([0, 10, 0])


def test_what_is_told_late_takes_its_place_in_time(record, cloud):
    start = cloud.now
    record_activity(record, start + 100, {"cpu": 3})
    record_activity(record, start + 50, {"cpu": 90})
    found = course(record, "cpu")
    assert (found.value_at(start + 60), found.value_at(start + 110)) == (90, 3)


def test_of_two_at_one_moment_the_later_told_counts(record, cloud):
    record_activity(record, cloud.now, {"cpu": 1})
    record_activity(record, cloud.now, {"cpu": 2})
    assert course(record, "cpu").value_at(cloud.now) == 2


def test_a_worker_and_a_chip_may_differ_from_the_rest(pod, cloud):
    record_activity(pod, cloud.now, {"duty_cycle": 50, "cpu": 10})
    record_activity(pod, cloud.now, {"duty_cycle": 60}, worker=1)
    record_activity(pod, cloud.now, {"duty_cycle": 70}, worker=1, chip=3)
    found = [
        course(pod, "duty_cycle", worker, chip).value_at(cloud.now)
        for worker, chip in ((0, 0), (1, 0), (1, 3))
    ]
    assert found == [50, 60, 70]
    assert course(pod, "cpu", 1).value_at(cloud.now) == 10


def test_the_last_word_wins_over_the_narrower(pod, cloud):
    record_activity(pod, cloud.now, {"duty_cycle": 70}, worker=1, chip=3)
    record_activity(pod, cloud.now + 5, {"duty_cycle": 0})
    assert course(pod, "duty_cycle", 1, 3).value_at(cloud.now + 5) == 0


def test_a_chip_without_a_worker_is_counted_in_the_slice(pod, cloud):
    record_activity(pod, cloud.now, {"duty_cycle": 70}, chip=6)
    assert course(pod, "duty_cycle", 1, 2).value_at(cloud.now) == 70
    assert course(pod, "duty_cycle", 0, 2).value_at(cloud.now) is None


def test_what_ran_dies_with_its_machine(cloud):
    name = cloud.ready()
    record = record_of(cloud, name)
    record_activity(record, cloud.now, {"duty_cycle": 90})
    cloud.wait(100)
    control.maintain_node(cloud.world, {"name": name})
    cloud.wait(60)
    first, second = record.activity.runs
    assert first.end == second.start - 60
    assert record.activity.get_course(first, "duty_cycle", 0, 0).value_at(first.end) == 90
    assert record.activity.get_course(second, "duty_cycle", 0, 0).value_at(cloud.now) is None


def test_what_is_told_before_a_boot_counts_from_the_boot(cloud):
    cloud.create()
    record = next(iter(cloud.world.nodes.values()))
    record_activity(record, cloud.now, {"cpu": 40})
    cloud.wait(20)
    assert course(record, "cpu").value_at(cloud.now) == 40


def test_a_run_lasts_while_the_node_is_ready(cloud):
    name = cloud.ready()
    record, begun = record_of(cloud, name), cloud.now
    cloud.wait(30)
    cloud.ask("StopNode", name=name)
    ended = cloud.now
    cloud.wait(100)
    (run,) = record.activity.runs
    assert (run.start, run.end) == (begun, ended)


def test_history_is_bounded_and_says_since_when_it_is_known(record, cloud):
    for second in range(MAX_STEPS + 1):
        record_activity(record, cloud.now + second, {"cpu": second % 100})
    oldest = course(record, "cpu").steps[0]
    assert record.activity.since == oldest.at > cloud.now
    assert len(course(record, "cpu").steps) <= MAX_STEPS


@pytest.mark.parametrize(
    ("changes", "where", "text"),
    [
        ({"gpu": 1}, {}, "unknown activity gpu; known: duty_cycle"),
        ({"duty_cycle": 101}, {}, "duty_cycle must be a number from 0 to 100"),
        ({"cpu": float("nan")}, {}, "cpu must be a number"),
        ({"cpu": True}, {}, "cpu must be a number"),
        ({"cpu": 1}, {"worker": 1}, "has workers 0 to 0, not 1"),
        ({"duty_cycle": 1}, {"worker": 0, "chip": 4}, "has chips 0 to 3, not 4"),
        ({"duty_cycle": 1}, {"chip": -1}, "not -1"),
    ],
)
def test_what_cannot_be_is_refused(record, cloud, changes, where, text):
    with pytest.raises(ApiError, match=text) as caught:
        record_activity(record, cloud.now, changes, **where)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert record.activity.as_dict() == {}


def test_the_control_route_tells_of_a_node_a_worker_or_a_chip(cloud):
    name = cloud.ready("pod", accelerator_type="v4-32")
    control.set_activity(cloud.world, {"name": name, "duty_cycle": 5, "cpu": 120})
    order = {"name": name, "worker": 2, "chip": 1, "duty_cycle": 95, "received": 1e6}
    shown = control.set_activity(cloud.world, order)["activity"]
    assert (shown["duty_cycle"], shown["cpu"]) == (5, 120)
    assert shown["parts"] == [{"worker": 2, "chip": 1, "duty_cycle": 95, "received": 1e6}]
    assert course(record_of(cloud, name), "duty_cycle", 2, 1).value_at(cloud.now) == 95


@pytest.mark.parametrize("wrong", [{"worker": "0"}, {"worker": 9}, {"chip": 1.5}, {"chip": True}])
def test_the_control_route_refuses_a_part_that_is_not_there(cloud, wrong):
    order = {"name": cloud.ready(), "duty_cycle": 1, **wrong}
    with pytest.raises(ApiError) as caught:
        control.set_activity(cloud.world, order)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_every_key_has_a_highest_value():
    assert {"duty_cycle", "tensorcore", "cpu", "memory", "received", "sent"} <= set(
        activity.HIGHEST
    )
