"""Legacy TPU Nodes: made and told of in v1, in one world and on one bill with the TPU VMs."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Empty, Node, TpuV1
from tests.emulator.factories import moment, name_of

PARENT = "projects/lab/locations/us-central1-a"
NAME = name_of("old", PARENT)
State = TpuV1.Node.State


def create(cloud, node_id="old", parent=PARENT, **overrides):
    node = {"accelerator_type": "v2-8", "tensorflow_version": "2.12.0", **overrides}
    return cloud.ask("v1.CreateNode", parent=parent, node_id=node_id, node=node)


def get(cloud, name=NAME):
    return cloud.ask("v1.GetNode", name=name)


def legacy(cloud, **overrides):
    """Create a legacy node and wait until it is READY."""
    create(cloud, **overrides)
    cloud.wait(20)
    return get(cloud)


def result(cloud, operation):
    """Unpack what an operation answered with, in v1."""
    node = TpuV1.Node()
    assert cloud.operation(operation).response.Unpack(node)
    return node


def test_a_legacy_node_has_one_address_and_the_port_of_old(cloud):
    node = legacy(cloud, cidr_block="10.240.0.0/29")
    assert (node.ip_address, node.port) == ("10.240.0.2", "8470")
    (endpoint,) = node.network_endpoints
    assert (endpoint.ip_address, endpoint.port) == ("10.240.0.2", 8470)
    assert node.tensorflow_version == "2.12.0"
    assert node.api_version == TpuV1.Node.ApiVersion.V1
    assert node.service_account.endswith("@cloud-tpu.iam.gserviceaccount.com")
    assert node.network == "projects/lab/global/networks/default"


def test_every_worker_of_a_legacy_slice_has_an_endpoint(cloud):
    node = legacy(cloud, accelerator_type="v2-32")
    assert len(node.network_endpoints) == 4
    assert node.ip_address == node.network_endpoints[0].ip_address


def test_what_is_asked_for_is_shown_again(cloud):
    asked = {
        "description": "mine",
        "labels": {"team": "nlp"},
        "network": "global/networks/old",
        "use_service_networking": True,
        "scheduling_config": {"preemptible": True},
    }
    node = legacy(cloud, **asked)
    assert (node.description, dict(node.labels)) == ("mine", {"team": "nlp"})
    assert (node.network, node.use_service_networking) == ("global/networks/old", True)
    assert node.scheduling_config.preemptible


def test_the_operation_speaks_v1(cloud):
    made = create(cloud)
    cloud.wait(20)
    assert result(cloud, made) == get(cloud)
    metadata = TpuV1.OperationMetadata()
    assert cloud.operation(made).metadata.Unpack(metadata)
    assert (metadata.api_version, metadata.verb) == ("v1", "create")
    assert metadata.target == NAME
    assert moment(metadata.end_time) == cloud.now


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_deletion_answers_with_nothing(cloud, version):
    legacy(cloud, labels={"team": "nlp"})
    gone = cloud.ask(f"{version}.DeleteNode", name=NAME)
    cloud.wait(8)
    assert cloud.operation(gone).response.Is(Empty.DESCRIPTOR)
    with pytest.raises(ApiError, match="was not found"):
        get(cloud)


def test_a_reimaged_node_runs_another_version(cloud):
    legacy(cloud)
    asked = cloud.ask("v1.ReimageNode", name=NAME, tensorflow_version="2.16.1")
    assert get(cloud).state == State.REIMAGING
    assert get(cloud).tensorflow_version == "2.12.0"
    cloud.wait(30)
    assert result(cloud, asked).tensorflow_version == "2.16.1"
    assert get(cloud).state == State.READY
    assert [(each["start"], each["end"]) for each in cloud.bill()] == [
        (1_800_000_020, 1_800_000_020),
        (1_800_000_050, 1_800_000_050),
    ]


def test_a_reimage_that_fails_leaves_the_old_version(cloud):
    legacy(cloud)
    order = {"rpc": "ReimageNode", "action": "fail_operation"}
    control.add_fault(cloud.world, order)
    asked = cloud.ask("v1.ReimageNode", name=NAME, tensorflow_version="2.16.1")
    cloud.wait(30)
    assert cloud.operation(asked).HasField("error")
    assert (get(cloud).state, get(cloud).tensorflow_version) == (State.READY, "2.12.0")


def test_a_legacy_node_is_stopped_and_started(cloud):
    legacy(cloud)
    cloud.ask("v1.StopNode", name=NAME)
    cloud.wait(10)
    assert get(cloud).state == State.STOPPED
    started = cloud.ask("v1.StartNode", name=NAME)
    cloud.wait(15)
    assert result(cloud, started).state == State.READY


def test_both_kinds_are_billed_alike(cloud):
    legacy(cloud)
    cloud.ready("new", PARENT, accelerator_type="v2-8")
    cloud.wait(100)
    assert [(each["seconds"], each["chips"]) for each in cloud.bill()] == [(120, 4), (100, 4)]


def test_every_version_lists_both_kinds_and_tells_them_apart(cloud):
    legacy(cloud)
    cloud.ready("new", PARENT, accelerator_type="v2-8")
    shown = {
        version: [
            node.api_version for node in cloud.ask(f"{version}.ListNodes", parent=PARENT).nodes
        ]
        for version in ("v1", "v2", "v2alpha1")
    }
    of = Node.ApiVersion
    assert shown == {
        "v1": [of.V2_ALPHA1, of.V1],
        "v2": [of.V2, of.V1],
        "v2alpha1": [of.V2_ALPHA1, of.V1],
    }


def test_v1_lists_in_pages(cloud):
    for node_id in "abc":
        create(cloud, node_id)
    first = cloud.ask("v1.ListNodes", parent=PARENT, page_size=2)
    token = first.next_page_token
    second = cloud.ask("v1.ListNodes", parent=PARENT, page_size=2, page_token=token)
    names = [node.name.rpartition("/")[2] for node in (*first.nodes, *second.nodes)]
    assert (names, second.next_page_token) == (["a", "b", "c"], "")


def test_a_legacy_node_seen_in_v2_names_its_software(cloud):
    legacy(cloud)
    assert cloud.ask("GetNode", name=NAME).runtime_version == "2.12.0"


def test_tpu_vms_are_not_reimaged(cloud):
    name = cloud.ready("new", PARENT, accelerator_type="v2-8")
    with pytest.raises(ApiError, match="not supported for TPU VMs") as caught:
        cloud.ask("v1.ReimageNode", name=name, tensorflow_version="2.16.1")
    assert caught.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"tensorflow_version": "2.4"}, 'The field "TensorflowVersion" cannot be "2.4".'),
        ({"tensorflow_version": ""}, 'The field "TensorflowVersion" cannot be "".'),
        ({"tensorflow_version": "tpu-vm-base"}, "TensorflowVersion"),
        ({"accelerator_type": ""}, 'The field "AcceleratorType" cannot be "".'),
        ({"accelerator_type": "v5litepod-4"}, "the accelerator v5litepod-4 was not found in zone"),
        ({"accelerator_type": "v9-8"}, "the accelerator v9-8 was not found in zone"),
        ({"labels": {"A": "b"}}, "resource labels are invalid"),
        ({"cidr_block": "10.0.0.0/30"}, 'The field "CidrBlock" cannot be "10.0.0.0/30".'),
        ({"cidr_block": "10.0.0.0/29", "use_service_networking": True}, "exclude each other"),
        ({"scheduling_config": {"preemptible": True, "reserved": True}}, "more than one of"),
    ],
)
def test_what_cannot_be_is_refused_at_once(cloud, overrides, text):
    with pytest.raises(ApiError) as caught:
        create(cloud, **overrides)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert text in caught.value.message
    assert list(cloud.world.nodes) == []


def test_v4_never_came_as_a_legacy_node(cloud):
    with pytest.raises(ApiError, match="the accelerator v4-8 was not found in zone us-central2-b"):
        create(cloud, parent="projects/lab/locations/us-central2-b", accelerator_type="v4-8")


def test_a_name_is_taken_whatever_the_version(cloud):
    legacy(cloud)
    with pytest.raises(ApiError, match="already exists"):
        cloud.create("old", PARENT, accelerator_type="v2-8")


def test_only_the_old_generations_are_offered(cloud):
    kinds = cloud.ask("v1.ListAcceleratorTypes", parent=PARENT).accelerator_types
    assert {each.type_.partition("-")[0] for each in kinds} == {"v2", "v3"}
    kind = cloud.ask("v1.GetAcceleratorType", name=f"{PARENT}/acceleratorTypes/v3-8")
    assert kind in kinds
    with pytest.raises(ApiError, match="was not found"):
        cloud.ask("v1.GetAcceleratorType", name=f"{PARENT}/acceleratorTypes/v5litepod-4")


def test_the_versions_can_be_looked_up(cloud):
    versions = cloud.ask("v1.ListTensorFlowVersions", parent=PARENT, page_size=1000)
    found = {each.version for each in versions.tensorflow_versions}
    assert {"1.15", "2.16.1", "nightly", "pytorch-1.13"} < found
    assert "2.4" not in found
    name = f"{PARENT}/tensorflowVersions/2.16.1"
    assert cloud.ask("v1.GetTensorFlowVersion", name=name).version == "2.16.1"
    only = cloud.ask("v1.ListTensorFlowVersions", parent=PARENT, filter='version="2.2"')
    assert [each.version for each in only.tensorflow_versions] == ["2.2"]


def test_a_fault_strikes_a_call_in_every_version(cloud):
    order = {"rpc": "CreateNode", "action": "stockout", "match": {"generation": "v2"}}
    control.add_fault(cloud.world, order)
    made = create(cloud)
    cloud.wait(20)
    assert "no more capacity" in cloud.operation(made).error.message


def test_how_long_a_reimage_takes_can_be_told(cloud):
    legacy(cloud)
    control.change_config(cloud.world, {"durations": {"reimage": 5}})
    cloud.ask("v1.ReimageNode", name=NAME, tensorflow_version="2.16.1")
    cloud.wait(5)
    assert get(cloud).state == State.READY
