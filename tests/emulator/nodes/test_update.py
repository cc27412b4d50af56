"""What UpdateNode changes, and what it refuses."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Node
from tests.emulator.factories import name_of


def update(cloud, paths, **fields):
    wanted = Node(name=name_of("a"), **fields)
    return cloud.ask("UpdateNode", node=wanted, update_mask={"paths": paths})


def refusal(cloud, paths, **fields):
    with pytest.raises(ApiError) as caught:
        update(cloud, paths, **fields)
    return caught.value


@pytest.mark.parametrize(
    ("paths", "fields"),
    [
        (["description"], {"description": "new"}),
        (["tags"], {"tags": ["x", "y"]}),
        (["labels"], {"labels": {"b": "2"}}),
        (["labels"], {}),
        (["metadata"], {"metadata": {"k": "v"}}),
        (["data_disks"], {"data_disks": [{"source_disk": "d", "mode": 2}]}),
        (["labels", "metadata"], {"labels": {"b": "2"}, "metadata": {"k": "v"}}),
    ],
)
def test_the_masked_fields_are_replaced_as_wholes(cloud, paths, fields):
    cloud.ready(labels={"a": "1"}, tags=["old"], description="old")
    before = cloud.get()
    operation = update(cloud, paths, **fields, runtime_version="not in the mask")
    assert cloud.get() == before
    cloud.wait(2)
    expected = before
    for path in paths:
        expected.ClearField(path)
    expected.MergeFrom(Node(**fields))
    assert cloud.get() == expected
    shown = Node()
    assert cloud.operation(operation).response.Unpack(shown)
    assert shown == expected


def test_external_addresses_can_be_switched_off_and_on(cloud):
    cloud.ready(network_config={"enable_external_ips": True, "network": "n"})
    for enabled in (False, True):
        update(
            cloud,
            ["network_config.enable_external_ips"],
            network_config={"enable_external_ips": enabled},
        )
        cloud.wait(2)
        shown = cloud.get()
        assert bool(shown.network_endpoints[0].access_config.external_ip) is enabled
        assert shown.network_config.network == "n"


@pytest.mark.parametrize(
    "paths",
    [[], ["accelerator_type"], ["labels", "state"], ["*"], ["network_config"], ["labels.a"]],
)
def test_a_mask_names_what_can_be_changed(cloud, paths):
    cloud.ready()
    assert refusal(cloud, paths).code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("paths", "fields"),
    [
        (["labels"], {"labels": {"A": ""}}),
        (["data_disks"], {"data_disks": [{}]}),
        (["metadata"], {"metadata": {"": "v"}}),
    ],
)
def test_new_values_are_checked_like_those_of_a_new_node(cloud, paths, fields):
    cloud.ready()
    assert refusal(cloud, paths, **fields).code is Code.INVALID_ARGUMENT


def test_a_second_update_in_flight_is_a_conflict(cloud):
    name = cloud.ready()
    update(cloud, ["tags"])
    assert refusal(cloud, ["tags"]).http_status == 409
    with pytest.raises(ApiError) as caught:
        cloud.ask("StopNode", name=name)
    assert caught.value.code is Code.ABORTED


def test_a_preempted_node_cannot_be_updated(cloud):
    cloud.ready(scheduling_config={"spot": True})
    control.preempt_node(cloud.world, {"name": name_of("a")})
    error = refusal(cloud, ["tags"])
    assert error.code is Code.INVALID_ARGUMENT
    assert "update is not supported while in state PREEMPTED" in error.message


def test_an_update_overtaken_by_preemption_fails_and_changes_nothing(cloud):
    cloud.ready(scheduling_config={"spot": True})
    operation = update(cloud, ["description"], description="new")
    control.preempt_node(cloud.world, {"name": name_of("a")})
    cloud.wait(10)
    assert cloud.operation(operation).error.code == Code.INVALID_ARGUMENT
    assert cloud.get().description == ""


def test_a_node_that_does_not_exist_cannot_be_updated(cloud):
    assert refusal(cloud, ["tags"]).code is Code.NOT_FOUND
