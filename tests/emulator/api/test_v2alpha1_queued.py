"""Queued resources as v2alpha1 knows them: its tiers, flex-start, and maintenance of all nodes."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.schema import to_extended
from service.emulator.wire import Empty, Node, TpuV2Alpha1
from tests.emulator.factories import PARENT, Cloud, configured, moment, name_of
from tests.emulator.queued_resources import ARRIVES, queued_name, state, submit

BODY = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}
ID = "0c3c9a3c-7f2e-4a0e-9b46-1f5f3a8f0b6e"
HOUR = 3600
WEEK = 7 * 24 * HOUR


def spec(**overrides):
    return {"parent": PARENT, "node_id": "n", "node": BODY, **overrides}


def create(cloud, *specs, queued_id="q", request_id="", **resource):
    return cloud.ask(
        "v2alpha1.CreateQueuedResource",
        parent=PARENT,
        queued_resource_id=queued_id,
        queued_resource={"tpu": {"node_spec": list(specs) or [spec()]}, **resource},
        request_id=request_id,
    )


def active(cloud, *specs, **resource):
    create(cloud, *specs, **resource)
    cloud.wait(ARRIVES["ACTIVE"])
    assert state(cloud) == "ACTIVE"


def get(cloud):
    return cloud.ask("v2alpha1.GetQueuedResource", name=queued_name())


def perform(cloud, *names):
    return cloud.ask(
        "v2alpha1.PerformMaintenanceQueuedResource", name=queued_name(), node_names=names
    )


def announce(cloud, *node_ids):
    for node_id in node_ids:
        cloud.world.get_node(name_of(node_id)).maintenance = (
            cloud.now + HOUR,
            cloud.now + HOUR + 60,
        )


def ask_over_rest(web, **resource):
    """Create a queued resource as REST alone can; answers the status and the JSON."""
    node = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    specs = {"parent": PARENT, "nodeId": "n", "node": node}
    path = f"/v2alpha1/{PARENT}/queuedResources?queuedResourceId=q"
    return web.ask("POST", path, {"tpu": {"nodeSpec": specs}, **resource})


def test_googles_sample_of_a_preemptible_queued_resource_is_granted(cloud):
    node = {
        "name": "n",
        **BODY,
        "scheduling_config": {"preemptible": True},
        "queued_resource": queued_name(),
    }
    active(cloud, spec(node=node), name="q")
    assert cloud.get("n").scheduling_config.preemptible


def test_the_nodes_of_a_multislice_are_counted_by_another_name(cloud):
    params = {"node_count": 2, "node_id_prefix": "s", "workload_type": "AVAILABILITY_OPTIMIZED"}
    active(cloud, {"parent": PARENT, "multi_node_params": params, "node": BODY})
    (shown,) = get(cloud).tpu.node_spec
    of = TpuV2Alpha1.QueuedResource.Tpu.NodeSpec.MultiNodeParams.WorkloadType
    assert shown.multi_node_params.node_count == 2
    assert shown.multi_node_params.workload_type == of.AVAILABILITY_OPTIMIZED
    (seen,) = cloud.ask("GetQueuedResource", name=queued_name()).tpu.node_spec
    assert (seen.multislice_params.node_count, seen.multislice_params.node_id_prefix) == (2, "s")
    assert sorted(cloud.world.nodes) == [name_of("s-0"), name_of("s-1")]


def test_two_ways_to_name_the_nodes_exclude_each_other(cloud):
    with pytest.raises(ApiError, match="exclude each other"):
        create(cloud, spec(multi_node_params={"node_count": 2}))


@pytest.mark.parametrize(
    ("tier", "model"),
    [
        ({"best_effort": {}}, "spot"),
        ({"spot": {}}, "spot"),
        ({"guaranteed": {"reserved": True}}, "reserved"),
        ({"guaranteed": {}}, "on_demand"),
        ({}, "on_demand"),
    ],
)
def test_the_tier_says_what_the_nodes_are(cloud, tier, model):
    active(cloud, **tier)
    assert cloud.world.get_node(name_of("n")).provisioning_model == model
    shown = get(cloud)
    assert shown.WhichOneof("tier") == next(iter(tier), None)
    assert shown.guaranteed.reserved is (model == "reserved")


def test_the_operations_speak_v2alpha1(cloud):
    made = create(cloud)
    cloud.wait(ARRIVES["ACTIVE"])
    answer = TpuV2Alpha1.QueuedResource()
    assert cloud.operation(made).response.Unpack(answer)
    assert answer.name == queued_name()
    reset = cloud.ask("v2alpha1.ResetQueuedResource", name=queued_name())
    cloud.wait(30)
    assert cloud.operation(reset).response.Is(TpuV2Alpha1.QueuedResource.DESCRIPTOR)


def test_a_deletion_answers_with_nothing_as_the_real_one_does(cloud):
    active(cloud)
    gone = cloud.ask("v2alpha1.DeleteQueuedResource", name=queued_name(), force=True)
    cloud.wait(30)
    done = cloud.operation(gone)
    assert done.response.Is(Empty.DESCRIPTOR)
    assert done.metadata.Is(TpuV2Alpha1.OperationMetadata.DESCRIPTOR)


def test_what_v2_makes_is_listed_in_v2alpha1(cloud):
    submit(cloud, spot={})
    (listed,) = cloud.ask("v2alpha1.ListQueuedResources", parent=PARENT).queued_resources
    assert listed == get(cloud)
    assert listed.WhichOneof("tier") == "spot"


def test_the_same_request_twice_is_one_operation(cloud):
    first = create(cloud, request_id=ID)
    assert create(cloud, request_id=ID).name == first.name


def test_flex_start_ends_when_its_time_is_up(web):
    assert (
        ask_over_rest(web, provisioningModel="FLEX_START", runDuration={"maxRunDuration": "3600s"})[
            0
        ]
        == 200
    )
    web.ask("POST", "/_emulator/settle")
    _, node = web.ask("GET", f"/v2alpha1/{name_of('n')}")
    assert node["schedulingConfig"]["terminationTimestamp"] > node["createTime"]
    # v2 has no field for it.
    _, node = web.ask("GET", f"/v2/{name_of('n')}")
    assert "terminationTimestamp" not in node["schedulingConfig"]


@pytest.mark.parametrize(
    ("run", "status"),
    [
        ({}, 200),
        ({"runDuration": {"maxRunDuration": f"{WEEK}s"}}, 200),
        ({"runDuration": {"maxRunDuration": f"{WEEK + 1}s"}}, 400),
        ({"runDuration": {"maxRunDuration": "-1s"}}, 400),
        ({"runDuration": {"terminationTime": "2020-01-01T00:00:00Z"}}, 400),
        ({"runDuration": {"terminationTime": "2900-01-01T00:00:00Z"}}, 200),
        ({"spot": {}}, 400),
    ],
)
def test_a_run_has_a_length_within_bounds(web, run, status):
    assert ask_over_rest(web, provisioningModel="FLEX_START", **run)[0] == status


@pytest.mark.parametrize(
    ("model", "tier", "status"),
    [
        ("STANDARD", {"spot": {}}, 200),
        ("SPOT", {"spot": {}}, 200),
        ("SPOT", {}, 200),
        ("RESERVATION_BOUND", {"guaranteed": {"reserved": True}}, 200),
        ("RESERVATION_BOUND", {"spot": {}}, 400),
    ],
)
def test_the_model_goes_with_the_tier(web, model, tier, status):
    assert ask_over_rest(web, provisioningModel=model, **tier)[0] == status


def flexible(seconds):
    cloud = Cloud()
    resource: Any = to_extended(TpuV2Alpha1.QueuedResource(tpu={"node_spec": [spec()]}))
    resource.provisioning_model = 4
    resource.run_duration.max_run_duration.seconds = seconds
    asked = TpuV2Alpha1.QueuedResource.FromString(resource.SerializeToString())
    cloud.ask(
        "v2alpha1.CreateQueuedResource",
        parent=PARENT,
        queued_resource_id="q",
        queued_resource=asked,
    )
    cloud.wait(ARRIVES["ACTIVE"])
    return cloud


def test_the_nodes_of_a_flex_start_are_deleted_at_its_end():
    cloud = flexible(HOUR)
    node: Any = to_extended(cloud.ask("v2alpha1.GetNode", name=name_of("n")))
    ends = moment(node.scheduling_config.termination_timestamp)
    assert ends == cloud.now + HOUR
    assert cloud.world.get_node(name_of("n")).provisioning_model == "flex_start"
    cloud.wait(HOUR + 30)
    assert (state(cloud), cloud.state("n")) == ("SUSPENDED", "GONE")


def test_an_end_after_the_last_year_is_not_shown(web):
    assert ask_over_rest(web, runDuration={"maxRunDuration": "315576000000s"})[0] == 200
    web.ask("POST", "/_emulator/settle")
    _, node = web.ask("GET", f"/v2alpha1/{name_of('n')}")
    assert (node["state"], "terminationTimestamp" in node["schedulingConfig"]) == ("READY", False)


def test_all_nodes_are_maintained_together(cloud):
    params = {"node_count": 2, "node_id_prefix": "s"}
    active(cloud, {"parent": PARENT, "multi_node_params": params, "node": BODY})
    announce(cloud, "s-0", "s-1")
    begun = perform(cloud)
    assert [cloud.state(each) for each in ("s-0", "s-1")] == ["REPAIRING"] * 2
    cloud.wait(60)
    answer = TpuV2Alpha1.QueuedResource()
    assert cloud.operation(begun).response.Unpack(answer)
    assert answer.state.state == TpuV2Alpha1.QueuedResourceState.State.ACTIVE
    assert [cloud.state(each) for each in ("s-0", "s-1")] == ["READY"] * 2


@pytest.mark.parametrize("name", ["s-1", name_of("s-1")])
def test_nodes_may_be_named(cloud, name):
    params = {"node_count": 2, "node_id_prefix": "s"}
    active(cloud, {"parent": PARENT, "multi_node_params": params, "node": BODY})
    announce(cloud, "s-0", "s-1")
    perform(cloud, name)
    assert [cloud.state(each) for each in ("s-0", "s-1")] == ["READY", "REPAIRING"]


def test_all_can_be_maintained_or_none_is(cloud):
    params = {"node_count": 2, "node_id_prefix": "s"}
    active(cloud, {"parent": PARENT, "multi_node_params": params, "node": BODY})
    announce(cloud, "s-0")
    with pytest.raises(ApiError, match="no upcoming maintenance") as caught:
        perform(cloud)
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert [cloud.state(each) for each in ("s-0", "s-1")] == ["READY"] * 2


def test_a_stranger_is_not_maintained(cloud):
    active(cloud)
    cloud.ready("other")
    with pytest.raises(ApiError, match="is not a node of"):
        perform(cloud, "other")


def test_only_what_is_active_is_maintained(cloud):
    create(cloud)
    with pytest.raises(ApiError, match="not supported while in state CREATING"):
        perform(cloud)


def test_maintenance_that_fails_leaves_the_nodes_ready():
    cloud = configured(durations={"repair": 10})
    active(cloud)
    announce(cloud, "n")
    order = {"rpc": "PerformMaintenanceQueuedResource", "action": "fail_operation"}
    cloud.world.faults.add(order, cloud.now)
    begun = perform(cloud)
    cloud.wait(10)
    assert cloud.operation(begun).HasField("error")
    assert cloud.state("n") == "READY"


def test_the_maintenance_of_each_node_can_be_asked_for(cloud):
    active(cloud)
    announce(cloud, "n")
    (info,) = cloud.ask(
        "v2alpha1.GetMaintenanceInfo", name=queued_name()
    ).node_upcoming_maintenances
    assert info.node_name == name_of("n")
    assert info.node_uid == cloud.get("n").id
    assert info.upcoming_maintenance.maintenance_status == 1
    assert cloud.get("n").state == Node.State.READY
