"""The bill: whole seconds from READY to leaving READY, whatever a node went through."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from tests.emulator.factories import START, ZONE, configured, name_of

BASE = int(START)


def facts(entry):
    return (entry["start"] - BASE, entry["end"] - BASE, entry["seconds"], entry["rule"])


def test_an_entry_says_what_was_used_and_how(cloud):
    cloud.ready(accelerator_type="v4-32", scheduling_config={"spot": True})
    uid = cloud.get().id
    cloud.wait(1000)
    assert cloud.bill() == [
        {
            "name": name_of("a"),
            "uid": uid,
            "accelerator_type": "v4-32",
            "zone": ZONE,
            "provisioning_model": "spot",
            "start": BASE + 20,
            "end": BASE + 1020,
            "seconds": 1000,
            "chips": 16,
            "rule": "ready",
        }
    ]


def test_creating_and_deleting_cost_nothing(cloud):
    cloud.create()
    assert cloud.bill() == []
    cloud.wait(50)
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(500)
    assert [facts(each) for each in cloud.bill()] == [(20, 50, 30, "ready")]


def test_a_stopped_node_costs_nothing(cloud):
    name = cloud.ready()
    cloud.wait(30)
    cloud.ask("StopNode", name=name)
    cloud.wait(1000)
    cloud.ask("StartNode", name=name)
    cloud.wait(115)
    assert [facts(each) for each in cloud.bill()] == [
        (20, 50, 30, "ready"),
        (1065, 1165, 100, "ready"),
    ]


def test_maintenance_interrupts_the_bill(cloud):
    cloud.ready()
    cloud.wait(10)
    control.maintain_node(cloud.world, {"name": name_of("a")})
    cloud.wait(70)
    assert [facts(each) for each in cloud.bill()] == [(20, 30, 10, "ready"), (90, 100, 10, "ready")]


@pytest.mark.parametrize(
    ("age", "seconds", "rule"),
    [
        (30, 0, "preempted-in-first-minute"),
        (59, 0, "preempted-in-first-minute"),
        (60, 40, "ready"),
        (90, 70, "ready"),
    ],
)
def test_the_first_minute_is_free_for_whom_it_was_the_last(cloud, age, seconds, rule):
    cloud.ready(scheduling_config={"spot": True})
    cloud.wait(age - 20)
    control.preempt_node(cloud.world, {"name": name_of("a")})
    cloud.wait(1000)
    assert [facts(each) for each in cloud.bill()] == [(20, age, seconds, rule)]


def test_the_first_minute_is_free_in_all_its_parts():
    cloud = configured(durations={"repair": 5})
    cloud.ready(scheduling_config={"spot": True})
    cloud.wait(10)
    control.maintain_node(cloud.world, {"name": name_of("a")})
    cloud.wait(15)
    control.preempt_node(cloud.world, {"name": name_of("a")})
    cloud.wait(1000)
    assert [facts(each) for each in cloud.bill()] == [
        (20, 30, 0, "preempted-in-first-minute"),
        (35, 45, 0, "preempted-in-first-minute"),
    ]


def test_a_node_deleted_in_its_first_minute_is_paid_for(cloud):
    name = cloud.ready()
    cloud.wait(10)
    cloud.ask("DeleteNode", name=name)
    assert [facts(each) for each in cloud.bill()] == [(20, 30, 10, "ready")]


def test_seconds_are_cut_off_at_both_ends(cloud):
    name = cloud.ready()
    cloud.wait(0.8)
    cloud.ask("DeleteNode", name=name)
    assert [facts(each) for each in cloud.bill()] == [(20, 21, 1, "ready")]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("", "", [(20, 120, 100), (220, 320, 100)]),
        (BASE + 50, BASE + 100, [(50, 100, 50)]),
        (BASE + 100, BASE + 230, [(100, 120, 20), (220, 230, 10)]),
        (BASE + 120, BASE + 220, []),
        (BASE + 300, "", [(300, 320, 20)]),
        ("", BASE + 21, [(20, 21, 1)]),
        ("2027-01-15T08:00:50Z", "2027-01-15T10:01:40+02:00", [(50, 100, 50)]),
        (BASE + 100, BASE + 50, []),
    ],
)
def test_a_window_clips_the_bill(cloud, start, end, expected):
    for wait in (100, 100):
        name = cloud.ready()
        cloud.wait(wait)
        cloud.ask("DeleteNode", name=name)
        cloud.wait(80)
    shown = control.list_bill(cloud.world, str(start), str(end))["entries"]
    assert [facts(each)[:3] for each in shown] == expected


@pytest.mark.parametrize("moment", ["yesterday", "nan", "inf", "2027-01-15T08:00:50", "1e999"])
def test_a_window_is_made_of_moments(cloud, moment):
    with pytest.raises(ApiError, match="must be unix seconds or RFC 3339"):
        control.list_bill(cloud.world, moment, "")
