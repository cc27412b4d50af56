"""What CreateNode accepts, fills in and refuses."""

from __future__ import annotations

import re

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.wire import Node
from tests.emulator.factories import (
    PARENT,
    START,
    configured,
    metadata,
    moment,
    name_of,
    node,
)

OPERATION = re.compile(
    rf"{PARENT}/operations/operation-\d{{13}}-[0-9a-f]{{13}}(-[0-9a-f]{{8}}){{2}}"
)


def test_a_node_is_creating_until_its_time_has_come(cloud):
    operation = cloud.create()
    assert OPERATION.fullmatch(operation.name)
    assert not operation.done
    cloud.wait(19.9)
    assert cloud.state() == "CREATING"
    cloud.wait(0.2)
    assert cloud.state() == "READY"


def test_the_operation_tells_its_own_times_whenever_it_is_looked_at(cloud):
    operation = cloud.create()
    cloud.wait(3600)
    done = cloud.operation(operation)
    told = metadata(done)
    assert done.done
    assert (told.target, told.verb, told.api_version) == (name_of("a"), "create", "v2")
    assert moment(told.create_time) == START
    assert moment(told.end_time) == START + 20


def test_the_response_of_the_operation_is_the_ready_node(cloud):
    operation = cloud.create()
    cloud.wait(20)
    shown = Node()
    assert cloud.operation(operation).response.Unpack(shown)
    assert shown == cloud.get()
    assert shown.state == Node.State.READY


def test_the_cloud_fills_in_what_only_it_knows(cloud):
    cloud.ready(labels={"team": "nlp"}, accelerator_type="v4-32")
    shown = cloud.get()
    assert shown.name == name_of("a")
    assert 2**60 < shown.id < 2**63
    assert shown.health == Node.Health.HEALTHY
    assert shown.api_version == Node.ApiVersion.V2
    assert moment(shown.create_time) == START
    assert shown.labels == {"team": "nlp"}
    assert shown.network_config.network == "projects/lab/global/networks/default"
    assert shown.HasField("scheduling_config")
    assert shown.cidr_block.endswith("/29")
    assert len({each.ip_address for each in shown.network_endpoints}) == 4
    assert {each.port for each in shown.network_endpoints} == {8470}
    assert not any(each.access_config.external_ip for each in shown.network_endpoints)


def test_what_the_caller_says_of_output_fields_is_dropped(cloud):
    cloud.create(state=Node.State.READY, id=1, health_description="fine", name="mine")
    shown = cloud.get()
    assert (shown.name, shown.health_description) == (name_of("a"), "")
    assert shown.state == Node.State.CREATING
    assert shown.id != 1


def test_external_addresses_come_when_they_are_asked_for(cloud):
    cloud.ready(network_config={"enable_external_ips": True})
    assert all(each.access_config.external_ip for each in cloud.get().network_endpoints)


def test_with_several_networks_the_endpoints_take_turns(cloud):
    networks = [{"network": "one", "enable_external_ips": True}, {"network": "two"}]
    cloud.ready(network_configs=networks, accelerator_type="v4-16")
    outer = [bool(each.access_config.external_ip) for each in cloud.get().network_endpoints]
    assert outer == [True, False, True, False]


@pytest.mark.parametrize(
    ("asked", "kind", "topology"),
    [
        ({"accelerator_type": "v4-16"}, "v4-16", "2x2x2"),
        ({"accelerator_type": f"{PARENT}/acceleratorTypes/v4-16"}, "v4-16", "2x2x2"),
        ({"accelerator_config": {"type_": 7, "topology": "2x2x2"}}, "v4-16", "2x2x2"),
        ({"accelerator_config": {"type_": 11, "topology": "2x4"}}, "v6e-8", "2x4"),
    ],
)
def test_a_type_and_its_configuration_say_the_same(cloud, asked, kind, topology):
    cloud.create(**{"accelerator_type": "", **asked})
    shown = cloud.get()
    assert (shown.accelerator_type, shown.accelerator_config.topology) == (kind, topology)


def refusal(cloud, node_id="a", parent=PARENT, **overrides):
    with pytest.raises(ApiError) as caught:
        cloud.create(node_id, parent, **overrides)
    return caught.value


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            {"accelerator_type": "v5p-8"},
            (
                "Cloud TPU received a bad request. The requested accelerator configuration for"
                ' accelerator type, "v5p-8", could not be found in the zonal accelerator'
                ' configurations for "us-central2-b".; the accelerator v5p-8 was not found in zone'
                " us-central2-b [EID: 0x"
            ),
        ),
        ({"accelerator_config": {"type_": 7}}, "Exactly one of accelerator_type and"),
        ({"accelerator_type": ""}, "Exactly one of accelerator_type and"),
        (
            {"accelerator_type": "", "accelerator_config": {"type_": 99, "topology": "3x3"}},
            '"99:3x3", could not be found',
        ),
        (
            {"runtime_version": "v2-alpha-tpuv99"},
            (
                'Cloud TPU received an invalid argument. The field "RuntimeVersion" cannot be'
                ' "v2-alpha-tpuv99". [EID: 0x'
            ),
        ),
        ({"runtime_version": ""}, 'The field "RuntimeVersion" cannot be "".'),
        (
            {"labels": {"test-name": "pt-r1.9-x"}},
            (
                "resource labels are invalid: value \"pt-r1.9-x\" contains invalid character '.' at"
                ' index 5 for key "test-name"'
            ),
        ),
        ({"labels": {"Team": "x"}}, 'key "Team" must start with a lowercase letter'),
        ({"labels": {"te.am": "x"}}, "key \"te.am\" contains invalid character '.' at index 2"),
        ({"labels": {"k" * 64: "x"}}, "is longer than 63 characters"),
        ({"labels": {"k": "v" * 64}}, 'is longer than 63 characters for key "k"'),
        ({"labels": {f"k{n}": "" for n in range(65)}}, "65 labels given"),
        ({"scheduling_config": {"spot": True, "reserved": True}}, "more than one of"),
        ({"network_config": {}, "network_configs": [{}]}, "exclude each other"),
        ({"data_disks": [{}]}, 'The field "DataDisks.SourceDisk" cannot be ""'),
        ({"cidr_block": "10.0.0.1/29"}, 'The field "CidrBlock" cannot be "10.0.0.1/29"'),
        ({"cidr_block": "10.0.0.0/31"}, 'The field "CidrBlock" cannot be "10.0.0.0/31"'),
        ({"metadata": {"k": "v" * (256 * 1024 + 1)}}, 'The metadata value for "k" is longer'),
        ({"metadata": {"": "v"}}, "must have 1 to 128 characters"),
    ],
)
def test_what_cannot_be_made_is_refused_in_googles_words(cloud, overrides, text):
    error = refusal(cloud, **overrides)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message
    assert cloud.state() == "GONE"


@pytest.mark.parametrize("node_id", ["", "A", "1a", "a-", "a" * 64, "a_b", "ä", "a/b", "a\n"])
def test_a_node_id_is_spelled_like_a_machines_name(cloud, node_id):
    assert 'The field "NodeId" cannot be' in refusal(cloud, node_id).message


@pytest.mark.parametrize("node_id", ["a", "a1", "a-1", "a" * 63])
def test_a_good_node_id_is_taken(cloud, node_id):
    cloud.create(node_id)


def test_a_zone_without_tpus_is_not_supported(cloud):
    error = refusal(cloud, parent="projects/lab/locations/asia-south1-a")
    assert error.code is Code.INVALID_ARGUMENT
    assert 'The requested zone "asia-south1-a" is not supported. [EID: 0x' in error.message


@pytest.mark.parametrize("parent", ["", "lab", "projects/lab", f"{PARENT}/", f"{PARENT}/nodes/a"])
def test_a_malformed_parent_is_refused(cloud, parent):
    assert refusal(cloud, parent=parent).code is Code.INVALID_ARGUMENT


def test_a_name_is_taken_until_its_node_is_gone(cloud):
    cloud.ready(scheduling_config={"spot": True})
    name = name_of("a")
    assert refusal(cloud).code is Code.ALREADY_EXISTS
    cloud.world.run_due_events()
    cloud.ask("DeleteNode", name=name)
    assert refusal(cloud).code is Code.ALREADY_EXISTS
    cloud.wait(8)
    first = cloud.history[0].uid
    cloud.create()
    assert cloud.get().id != first


def test_a_runtime_that_does_not_fit_is_accepted_as_in_the_world(cloud):
    cloud.ready(runtime_version="tpu-vm-base")
    assert cloud.state() == "READY"


def test_a_strict_cloud_refuses_a_runtime_that_does_not_fit():
    cloud = configured(strict_runtimes=True)
    cloud.create("fits")
    assert "RuntimeVersion" in refusal(cloud, runtime_version="tpu-vm-base").message


def test_speed_shortens_durations_and_leaves_the_clock_alone():
    cloud = configured(speed=60)
    operation = cloud.create()
    cloud.wait(0.34)
    assert moment(metadata(cloud.operation(operation)).end_time) == pytest.approx(
        START + 20 / 60, abs=1e-5
    )


def test_the_same_seed_makes_the_same_names():
    first, second = configured(), configured()
    assert first.create().name == second.create().name


def test_an_answer_does_not_change_with_the_world(cloud):
    cloud.create()
    before = cloud.get()
    cloud.wait(20)
    assert before.state == Node.State.CREATING


def test_the_request_is_left_as_it_was(cloud):
    asked = node()
    cloud.ask("CreateNode", parent=PARENT, node_id="a", node=asked)
    assert asked == node()
