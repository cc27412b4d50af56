"""What a node goes through, and what it refuses to."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Empty, Node
from tests.emulator.factories import PARENT, START, Cloud, metadata, moment, name_of

SPOT = {"scheduling_config": {"spot": True}}
PREEMPTIBLE = {"scheduling_config": {"preemptible": True}}


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def preempt(cloud: Cloud, **extra):
    return control.preempt_node(cloud.world, {"name": name_of("a"), **extra})


def maintain(cloud: Cloud):
    return control.maintain_node(cloud.world, {"name": name_of("a")})


def test_deleting_shows_until_the_node_is_gone(cloud):
    name = cloud.ready()
    operation = cloud.ask("DeleteNode", name=name)
    assert cloud.state() == "DELETING"
    cloud.wait(8)
    assert cloud.state() == "GONE"
    assert cloud.operation(operation).response.Is(Empty.DESCRIPTOR)
    assert refusal(cloud.get).message == f"Resource '{name}' was not found"


def test_stop_and_start_lead_back_to_ready(cloud):
    name = cloud.ready()
    seen = []
    for rpc in ("StopNode", "StartNode"):
        operation = cloud.ask(rpc, name=name)
        seen.append(cloud.state())
        cloud.wait(15)
        seen.append(cloud.state())
        assert cloud.operation(operation).response.Is(Node.DESCRIPTOR)
    assert seen == ["STOPPING", "STOPPED", "STARTING", "READY"]


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"accelerator_type": "v4-16"}, "only available with single TPU nodes"),
        (SPOT, "stop is not supported for spot nodes"),
        (PREEMPTIBLE, "stop is not supported for preemptible nodes"),
    ],
)
def test_only_single_hosts_that_are_paid_in_full_can_be_stopped(cloud, overrides, text):
    name = cloud.ready(**overrides)
    error = refusal(cloud.ask, "StopNode", name=name)
    assert error.code is Code.FAILED_PRECONDITION
    assert text in error.message
    assert cloud.state() == "READY"


@pytest.mark.parametrize(
    ("rpc", "before"),
    [
        ("StartNode", []),
        ("StopNode", ["StopNode"]),
        ("StopNode", ["DeleteNode"]),
        ("StartNode", ["DeleteNode"]),
        ("DeleteNode", ["DeleteNode"]),
    ],
)
def test_a_step_from_the_wrong_state_is_refused(cloud, rpc, before):
    name = cloud.ready()
    for step in before:
        cloud.ask(step, name=name)
    error = refusal(cloud.ask, rpc, name=name)
    assert error.code is Code.FAILED_PRECONDITION
    assert "is not supported while in state" in error.message


@pytest.mark.parametrize("rpc", ["GetNode", "DeleteNode", "StopNode", "StartNode"])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"{PARENT}/nodes/none", Code.NOT_FOUND),
        ("projects/lab/locations/mars-1/nodes/a", Code.PERMISSION_DENIED),
        ("projects/lab/locations/-/nodes/a", Code.PERMISSION_DENIED),
        ("projects/lab/nodes/a", Code.INVALID_ARGUMENT),
        (f"{PARENT}/nodes/", Code.INVALID_ARGUMENT),
        ("", Code.INVALID_ARGUMENT),
    ],
)
def test_a_node_that_cannot_be_named_is_not_touched(cloud, rpc, name, code):
    assert refusal(cloud.ask, rpc, name=name).code is code


def test_a_node_deleted_while_creating_never_becomes_ready(cloud):
    creation = cloud.create()
    cloud.wait(5)
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(100)
    assert [each.after for each in cloud.history] == ["CREATING", "DELETING", ""]
    assert cloud.operation(creation).error.code == Code.CANCELLED


def test_a_preempted_node_stays_listed_and_holds_its_name(cloud):
    cloud.ready(**SPOT)
    preempt(cloud)
    cloud.wait(1_000_000)
    assert cloud.state() == "PREEMPTED"
    assert refusal(cloud.create).code is Code.ALREADY_EXISTS
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(8)
    assert cloud.state() == "GONE"


def test_preemption_during_creation_fails_the_operation(cloud):
    operation = cloud.create(**SPOT)
    preempt(cloud)
    done = cloud.operation(operation)
    assert done.error.code == Code.INVALID_ARGUMENT
    assert "update is not supported while in state PREEMPTED" in done.error.message
    cloud.wait(100)
    assert cloud.state() == "PREEMPTED"


def test_only_spot_nodes_are_preempted_unless_forced(cloud):
    cloud.ready()
    assert refusal(preempt, cloud).code is Code.FAILED_PRECONDITION
    preempt(cloud, force=True)
    assert cloud.state() == "PREEMPTED"


def test_a_node_is_not_preempted_twice(cloud):
    cloud.ready(**PREEMPTIBLE)
    preempt(cloud)
    assert refusal(preempt, cloud).code is Code.FAILED_PRECONDITION


def test_maintenance_repairs_a_ready_node(cloud):
    cloud.ready()
    maintain(cloud)
    shown = cloud.get()
    assert shown.state == Node.State.REPAIRING
    assert shown.health == Node.Health.UNHEALTHY_MAINTENANCE
    cloud.wait(60)
    shown = cloud.get()
    assert (shown.state, shown.health) == (Node.State.READY, Node.Health.HEALTHY)
    assert not shown.health_description


def test_maintenance_needs_a_ready_node(cloud):
    cloud.create()
    assert refusal(maintain, cloud).code is Code.FAILED_PRECONDITION


def test_each_thing_happens_at_its_own_time_however_late_one_looks(cloud):
    cloud.create("a")
    cloud.now += 1
    cloud.create("b")
    cloud.now += 5000
    cloud.world.run_due_events()
    assert [(each.at, each.name[-1]) for each in cloud.history if each.after == "READY"] == [
        (START + 20, "a"),
        (START + 21, "b"),
    ]


def test_settling_stamps_what_is_pending_with_now(cloud):
    operation = cloud.create()
    cloud.wait(3)
    assert control.settle_world(cloud.world) == {"settled": 1}
    assert cloud.state() == "READY"
    assert moment(metadata(cloud.operation(operation)).end_time) == START + 3
    cloud.wait(100)
    assert [each.after for each in cloud.history] == ["CREATING", "READY"]


def test_time_never_runs_back(cloud):
    cloud.ready()
    cloud.now -= 3600
    operation = cloud.ask("DeleteNode", name=name_of("a"))
    assert moment(metadata(operation).create_time) == START + 20
