"""A deletion that fails late leaves things as if it had never been asked for."""

from __future__ import annotations

import pytest

from service.emulator.surfaces import control
from tests.emulator import queued_resources
from tests.emulator.factories import Cloud, configured, name_of


def fail_deletes(cloud: Cloud) -> None:
    queued_resources.order(cloud, "DeleteNode", "fail_operation")


def begin_to_stop(cloud: Cloud) -> None:
    cloud.ask("StopNode", name=cloud.ready())


def begin_to_start(cloud: Cloud) -> None:
    begin_to_stop(cloud)
    cloud.wait(10)
    cloud.ask("StartNode", name=name_of("a"))


def begin_maintenance(cloud: Cloud) -> None:
    control.maintain_node(cloud.world, {"name": cloud.ready()})


def begin_restart(cloud: Cloud) -> None:
    control.break_host(cloud.world, {"name": cloud.ready()})


@pytest.mark.parametrize(
    ("begin", "during", "end"),
    [
        (lambda cloud: cloud.create(), "CREATING", "READY"),
        (begin_to_stop, "STOPPING", "STOPPED"),
        (begin_to_start, "STARTING", "READY"),
        (begin_maintenance, "REPAIRING", "READY"),
        (begin_restart, "RESTARTING", "READY"),
    ],
)
def test_what_was_under_way_comes_to_its_end(cloud, begin, during, end):
    begin(cloud)
    fail_deletes(cloud)
    assert cloud.state() == during
    operation = cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(8)
    assert cloud.operation(operation).HasField("error")
    cloud.wait(100)
    assert cloud.state() == end


def test_a_preempted_node_that_stays_is_deleted_before_its_queued_resource_is_reset(cloud):
    queued_resources.bring(cloud, "SUSPENDED")
    fail_deletes(cloud)
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(1)
    queued_resources.renew(cloud)
    cloud.wait(100)
    assert queued_resources.state(cloud) == "ACTIVE"
    born = [each.uid for each in cloud.history if each.after == "CREATING"]
    gone = [each.uid for each in cloud.history if not each.after]
    assert len(born) == 2
    assert gone == born[:1]


def test_a_preemptible_node_gets_no_older_than_a_day_by_a_deletion_that_fails():
    cloud = configured(durations={"delete": 600})
    cloud.ready(scheduling_config={"preemptible": True})
    cloud.wait(86_400 - 60)
    fail_deletes(cloud)
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(1000)
    assert cloud.state() == "TERMINATED"
