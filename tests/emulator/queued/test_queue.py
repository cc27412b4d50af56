"""What a queued resource goes through, and what its nodes have to do with it."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Empty, Node, Tpu
from tests.emulator.factories import START, configured, metadata, moment, name_of
from tests.emulator.queued_resources import (
    ARRIVES,
    STATES,
    active,
    bring,
    initiator,
    look,
    order,
    preempt,
    queued_name,
    remove,
    renew,
    spec,
    state,
    submit,
)

ID = "0b5d6c3e-7a53-4f0e-9d2a-3d1f7a1c9e55"
OTHER_ID = "1c5d6c3e-7a53-4f0e-9d2a-3d1f7a1c9e55"


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def test_each_state_comes_in_its_time(cloud):
    submit(cloud)
    seen = []
    for since in ARRIVES.values():
        for seconds in (since - 0.25, since):
            cloud.wait(max(0, START + seconds - cloud.now))
            seen.append(state(cloud))
    assert seen == ["CREATING", *(each for each in ARRIVES for _ in range(2))][:-1]


def test_the_operation_ends_when_the_request_is_accepted(cloud):
    operation = submit(cloud)
    cloud.wait(3600)
    done = cloud.operation(operation)
    told = metadata(done)
    assert (told.verb, told.target) == ("create", queued_name())
    assert (moment(told.create_time), moment(told.end_time)) == (START, START + 3)
    answered = Tpu.QueuedResource()
    assert done.response.Unpack(answered)
    assert answered.state.HasField("accepted_data")


@pytest.mark.parametrize("wanted", STATES)
def test_a_state_shows_its_own_data_and_no_other(cloud, wanted):
    bring(cloud, wanted)
    data = wanted.lower() + "_data"
    expected = None if wanted == "WAITING_FOR_RESOURCES" else data
    assert look(cloud).state.WhichOneof("state_data") == expected


def test_what_was_asked_is_shown_with_what_the_cloud_adds(cloud):
    submit(cloud, "q", spec("n", labels={"team": "nlp"}, health=1, name="x"), spot={})
    shown = look(cloud)
    assert shown.name == queued_name()
    assert moment(shown.create_time) == START
    (asked,) = shown.tpu.node_spec
    assert asked.node.labels == {"team": "nlp"}
    assert (asked.node.name, asked.node.health) == ("", 0)
    assert asked.node.queued_resource == queued_name()


def test_nodes_appear_when_they_are_provisioned_and_not_before(cloud):
    submit(cloud, spot={})
    cloud.wait(9)
    assert cloud.state("n") == "GONE"
    cloud.wait(1)
    node = cloud.get("n")
    assert node.state == Node.State.CREATING
    assert node.queued_resource == queued_name()
    assert node.scheduling_config.spot
    assert not node.multislice_node
    cloud.wait(20)
    assert (cloud.state("n"), state(cloud)) == ("READY", "PROVISIONING")
    assert cloud.get("n").network_endpoints
    cloud.wait(2)
    assert state(cloud) == "ACTIVE"


@pytest.mark.parametrize(
    ("tier", "model"),
    [
        ({}, "on_demand"),
        ({"guaranteed": {}}, "on_demand"),
        ({"spot": {}}, "spot"),
        (
            {
                "guaranteed": {"min_duration": {"seconds": 60}},
                "reservation_name": "projects/x/locations/us-central2-b/reservations/-",
            },
            "reserved",
        ),
    ],
)
def test_the_tier_is_how_its_nodes_are_provisioned(cloud, tier, model):
    active(cloud, "q", **tier)
    assert cloud.history[-1].provisioning_model == model


def test_slices_are_named_by_their_prefix_and_come_together(cloud):
    submit(cloud, "q", spec("slice", count=3, accelerator_type="v4-16"))
    cloud.wait(10)
    names = [f"slice-{index}" for index in range(3)]
    assert [cloud.state(each) for each in names] == ["CREATING"] * 3
    assert all(cloud.get(each).multislice_node for each in names)
    cloud.wait(22)
    assert state(cloud) == "ACTIVE"
    assert len({cloud.get(each).network_endpoints[0].ip_address for each in names}) == 3


def test_slices_without_a_prefix_are_named_after_the_queued_resource(cloud):
    submit(cloud, "job", spec("", count=2))
    cloud.wait(10)
    assert cloud.state("job-1") == "CREATING"


def test_it_is_active_only_when_every_node_has_been_ready(cloud):
    submit(cloud, "q", spec("a"), spec("b"))
    cloud.wait(30)
    assert (cloud.state("a"), cloud.state("b")) == ("READY", "READY")
    control.maintain_node(cloud.world, {"name": name_of("a")})
    cloud.wait(2)
    assert (state(cloud), cloud.state("a")) == ("ACTIVE", "REPAIRING")
    cloud.wait(100)
    assert state(cloud) == "ACTIVE"


def test_a_preempted_node_takes_its_queued_resource_to_suspended(cloud):
    active(cloud, "q", spec("s", count=2), spot={})
    preempt(cloud, "s-0")
    assert (state(cloud), initiator(cloud)) == ("SUSPENDING", "SERVICE")
    assert (cloud.state("s-0"), cloud.state("s-1")) == ("PREEMPTED", "DELETING")
    cloud.wait(8)
    assert (state(cloud), initiator(cloud)) == ("SUSPENDED", "SERVICE")
    assert (cloud.state("s-0"), cloud.state("s-1")) == ("PREEMPTED", "GONE")
    cloud.wait(10**6)
    assert (state(cloud), cloud.state("s-0")) == ("SUSPENDED", "PREEMPTED")


def test_a_node_preempted_while_it_is_created_suspends_too(cloud):
    submit(cloud, spot={})
    cloud.wait(15)
    preempt(cloud)
    assert state(cloud) == "SUSPENDING"
    cloud.wait(100)
    assert state(cloud) == "SUSPENDED"


def test_a_deleted_node_leaves_its_queued_resource_suspended(cloud):
    active(cloud, "q", spec("s", count=2))
    cloud.ask("DeleteNode", name=name_of("s-1"))
    assert (state(cloud), initiator(cloud)) == ("SUSPENDING", "USER")
    cloud.wait(8)
    assert (state(cloud), initiator(cloud)) == ("SUSPENDED", "USER")
    assert (cloud.state("s-0"), cloud.state("s-1")) == ("GONE", "GONE")


def test_a_suspension_lasts_as_long_as_its_deletions():
    cloud = configured(durations={"suspend": 1, "delete": 300})
    active(cloud)
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(299)
    assert state(cloud) == "SUSPENDING"
    cloud.wait(1)
    assert state(cloud) == "SUSPENDED"


def test_a_node_that_survives_its_deletion_is_deleted_again(cloud):
    active(cloud)
    order(cloud, "DeleteNode", "fail_operation")
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(8)
    assert (state(cloud), cloud.state("n")) == ("SUSPENDING", "DELETING")
    cloud.wait(8)
    assert (state(cloud), cloud.state("n")) == ("SUSPENDED", "GONE")


@pytest.mark.parametrize("rpc", ["StopNode", "StartNode"])
def test_its_nodes_are_neither_stopped_nor_started(cloud, rpc):
    active(cloud)
    error = refusal(cloud.ask, rpc, name=name_of("n"))
    assert error.code is Code.FAILED_PRECONDITION
    assert "not supported for nodes of a queued resource" in error.message
    assert state(cloud) == "ACTIVE"


LATE = "accepted, and its operation fails"
GOES = "gone"
DELETES = {
    "CREATING": (LATE, LATE),
    "ACCEPTED": (GOES, GOES),
    "WAITING_FOR_RESOURCES": (GOES, GOES),
    "PROVISIONING": (LATE, LATE),
    "ACTIVE": (Code.FAILED_PRECONDITION, GOES),
    "FAILED": (GOES, GOES),
    "SUSPENDING": (LATE, LATE),
    "SUSPENDED": (GOES, GOES),
    "DELETING": (Code.FAILED_PRECONDITION, Code.FAILED_PRECONDITION),
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("before", STATES)
def test_what_a_delete_does_depends_on_the_state(cloud, before, force):
    bring(cloud, before)
    outcome = DELETES[before][force]
    if isinstance(outcome, Code):
        error = refusal(remove, cloud, force=force)
        assert (error.code, error.http_status) == (outcome, 400)
        assert state(cloud) == before
        return
    operation = remove(cloud, force=force)
    assert metadata(operation).verb == "delete"
    if outcome == LATE:
        assert state(cloud) == before
        cloud.wait(1.4)
        assert not cloud.operation(operation).done
        cloud.wait(0.1)
        failed = cloud.operation(operation).error
        assert failed.code == Code.FAILED_PRECONDITION
        assert f"delete is not supported while in state {before}" in failed.message
        assert state(cloud) != "GONE"
        return
    assert (state(cloud), initiator(cloud)) == ("DELETING", "USER")
    cloud.wait(8)
    assert state(cloud) == "GONE"
    assert cloud.operation(operation).response.Is(Empty.DESCRIPTOR)


@pytest.mark.parametrize("before", STATES)
def test_a_reset_queues_again_what_had_its_turn(cloud, before):
    bring(cloud, before)
    if before not in {"ACTIVE", "FAILED", "SUSPENDED"}:
        error = refusal(renew, cloud)
        assert error.code is Code.FAILED_PRECONDITION
        assert f"reset is not supported while in state {before}" in error.message
        return
    operation = renew(cloud)
    assert (state(cloud), initiator(cloud)) == ("SUSPENDING", "USER")
    cloud.wait(8)
    assert (state(cloud), cloud.state("n")) == ("WAITING_FOR_RESOURCES", "GONE")
    answered = Tpu.QueuedResource()
    assert cloud.operation(operation).response.Unpack(answered)
    cloud.wait(27)
    assert (state(cloud), cloud.state("n")) == ("ACTIVE", "READY")


@pytest.mark.parametrize("before", STATES)
def test_in_every_state_its_name_and_those_of_its_nodes_are_taken(cloud, before):
    bring(cloud, before)
    again = refusal(submit, cloud, "q", spec("other"))
    assert (again.code, again.message) == (
        Code.ALREADY_EXISTS,
        f"Resource '{queued_name()}' already exists",
    )
    rival = refusal(submit, cloud, "rival")
    assert (rival.code, rival.message) == (
        Code.ALREADY_EXISTS,
        f"Resource '{name_of('n')}' already exists",
    )
    assert refusal(cloud.create, "n").code is Code.ALREADY_EXISTS


def test_names_are_free_again_when_it_is_gone(cloud):
    active(cloud)
    remove(cloud, force=True)
    cloud.wait(8)
    cloud.create("n")
    submit(cloud, "q", spec("m"))
    assert (cloud.state("n"), state(cloud)) == ("CREATING", "CREATING")


def test_a_node_of_its_own_holds_its_name_against_the_queue(cloud):
    cloud.create("n")
    assert refusal(submit, cloud).message == f"Resource '{name_of('n')}' already exists"


def test_force_deletes_the_nodes_first(cloud):
    active(cloud, "q", spec("s", count=2), spot={})
    remove(cloud, force=True)
    assert [cloud.state(each) for each in ("s-0", "s-1")] == ["DELETING"] * 2
    cloud.wait(7.9)
    assert state(cloud) == "DELETING"
    cloud.wait(0.1)
    assert [state(cloud), cloud.state("s-0"), cloud.state("s-1")] == ["GONE"] * 3


def test_without_force_a_preempted_node_stays_behind_and_keeps_its_name(cloud):
    bring(cloud, "SUSPENDED")
    remove(cloud)
    cloud.wait(8)
    assert (state(cloud), cloud.state("n")) == ("GONE", "PREEMPTED")
    assert refusal(submit, cloud).message == f"Resource '{name_of('n')}' already exists"
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(8)
    submit(cloud)


def test_a_preempted_node_can_be_deleted_under_a_suspended_queued_resource(cloud):
    bring(cloud, "SUSPENDED")
    cloud.ask("DeleteNode", name=name_of("n"))
    remove(cloud)
    cloud.wait(7)
    assert state(cloud) == "DELETING"
    cloud.wait(1)
    assert state(cloud) == "GONE"


def test_a_delete_may_take_very_long():
    cloud = configured(durations={"remove": 12 * 60 + 38})
    active(cloud)
    operation = remove(cloud, force=True)
    cloud.wait(757)
    assert (state(cloud), cloud.state("n")) == ("DELETING", "GONE")
    cloud.wait(1)
    assert state(cloud) == "GONE"
    assert cloud.operation(operation).done


def test_the_operation_of_a_delete_may_end_long_after(cloud):
    active(cloud)
    order(cloud, "DeleteQueuedResource", "slow_operation", delay_seconds=758)
    operation = remove(cloud, force=True)
    cloud.wait(100)
    assert state(cloud) == "GONE"
    assert not cloud.operation(operation).done
    cloud.wait(758)
    assert cloud.operation(operation).done


def test_the_same_create_with_the_same_request_id_is_one(cloud):
    first = submit(cloud, request_id=ID)
    cloud.wait(1)
    assert submit(cloud, request_id=ID).name == first.name
    cloud.wait(100)
    again = submit(cloud, request_id=ID)
    assert (again.name, again.done) == (first.name, True)
    assert refusal(submit, cloud).code is Code.ALREADY_EXISTS


def test_the_same_delete_with_the_same_request_id_is_one(cloud):
    active(cloud)
    first = remove(cloud, force=True, request_id=ID)
    assert remove(cloud, force=True, request_id=ID).name == first.name
    assert refusal(remove, cloud, force=True, request_id=OTHER_ID).http_status == 400
    cloud.wait(60)
    assert remove(cloud, force=True, request_id=ID).done
    assert refusal(remove, cloud, force=True).code is Code.NOT_FOUND


def test_a_request_id_is_used_for_one_request_only(cloud):
    submit(cloud, request_id=ID)
    assert "was used for another" in refusal(submit, cloud, "r", request_id=ID).message
    assert "was used for another" in refusal(remove, cloud, request_id=ID).message


def test_a_request_id_is_forgotten_after_an_hour(cloud):
    submit(cloud, request_id=ID)
    cloud.wait(3600)
    assert refusal(submit, cloud, request_id=ID).code is Code.ALREADY_EXISTS


def test_a_refused_request_does_not_use_up_its_id(cloud):
    assert refusal(submit, cloud, "q", spec(""), request_id=ID).http_status == 400
    submit(cloud, request_id=ID)


def test_a_request_id_is_a_uuid(cloud):
    assert "must be a UUID" in refusal(submit, cloud, request_id="1").message


def test_a_lost_answer_can_be_asked_for_again(cloud):
    order(cloud, "CreateQueuedResource", "lose_response")
    assert refusal(submit, cloud, request_id=ID).code is Code.UNAVAILABLE
    submit(cloud, request_id=ID)
    assert state(cloud) == "CREATING"


@pytest.mark.parametrize("wanted", ["ACCEPTED", "WAITING_FOR_RESOURCES"])
def test_what_is_not_provisioned_in_time_fails_and_says_so(wanted):
    cloud = configured(
        capacity={"us-central2-b/v4": 0} if wanted == "WAITING_FOR_RESOURCES" else {},
        durations={"queue": 2 if wanted == "WAITING_FOR_RESOURCES" else 100},
    )
    submit(cloud, queueing_policy={"valid_until_duration": {"seconds": 60}})
    cloud.wait(59)
    assert state(cloud) == wanted
    cloud.wait(1)
    shown = look(cloud).state
    assert (state(cloud), initiator(cloud)) == ("FAILED", "SERVICE")
    assert shown.failed_data.error.code == Code.DEADLINE_EXCEEDED
    assert "before its valid-until time 2027-01-15T08:01:00.250Z" in shown.failed_data.error.message
    assert "cannot be provisioned any more" in refusal(renew, cloud).message
    cloud.wait(10**6)
    assert state(cloud) == "FAILED"


def test_what_expires_while_it_is_created_is_accepted_and_fails(cloud):
    operation = submit(cloud, queueing_policy={"valid_until_duration": {"seconds": 1}})
    cloud.wait(3)
    assert state(cloud) == "FAILED"
    assert cloud.operation(operation).HasField("response")


def test_what_began_in_time_may_end_after_it(cloud):
    submit(cloud, queueing_policy={"valid_until_duration": {"seconds": 11}})
    cloud.wait(100)
    assert state(cloud) == "ACTIVE"


@pytest.mark.parametrize(
    "policy",
    [
        {"valid_after_duration": {"seconds": 600}},
        {"valid_after_time": {"seconds": int(START) + 600, "nanos": 250_000_000}},
        {
            "valid_interval": {
                "start_time": {"seconds": int(START) + 600, "nanos": 250_000_000},
                "end_time": {"seconds": int(START) + 900},
            }
        },
    ],
)
def test_nothing_is_provisioned_before_its_time_however_one_hurries(cloud, policy):
    submit(cloud, queueing_policy=policy)
    control.settle_world(cloud.world)
    assert state(cloud) == "ACCEPTED"
    cloud.wait(599)
    assert state(cloud) == "ACCEPTED"
    cloud.wait(1)
    assert state(cloud) == "WAITING_FOR_RESOURCES"
    cloud.wait(27)
    assert state(cloud) == "ACTIVE"


def test_speed_leaves_the_callers_own_times_alone():
    cloud = configured(speed=100, capacity={"us-central2-b/v4": 0})
    submit(cloud, queueing_policy={"valid_until_duration": {"seconds": 60}})
    cloud.wait(59)
    assert state(cloud) == "WAITING_FOR_RESOURCES"
    cloud.wait(1)
    assert state(cloud) == "FAILED"


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        ({"preemptible": True}, "preemptible"),
        ({"spot": True}, "spot"),
        ({"preemptible": True, "spot": True}, "spot"),
    ],
)
def test_a_node_may_name_its_model_where_the_queued_resource_names_no_tier(flags, model):
    # The request of Google's sample CreateSpotQueuedResource.java, and the like with spot.
    cloud = configured(capacity={f"us-central2-b/v4/{model}": 4})
    active(cloud, "q", spec(scheduling_config=flags))
    node = cloud.get("n")
    shown = node.scheduling_config
    assert {flag: True for flag in ("preemptible", "spot") if getattr(shown, flag)} == flags
    assert cloud.world.nodes[node.name].provisioning_model == model
    submit(cloud, "r", spec("m", scheduling_config=flags))
    cloud.wait(100)
    assert state(cloud, "r") == "WAITING_FOR_RESOURCES"
    preempt(cloud)
    cloud.wait(100)
    assert state(cloud) == "SUSPENDED"
    assert state(cloud, "r") == "ACTIVE"


def test_each_node_is_bought_as_it_says(cloud):
    active(cloud, "q", spec("n", scheduling_config={"spot": True}), spec("m"))
    assert cloud.world.nodes[name_of("n")].provisioning_model == "spot"
    assert cloud.world.nodes[name_of("m")].provisioning_model == "on_demand"


def test_strict_queued_scheduling_fails_a_node_that_names_its_model():
    cloud = configured(strict_queued_scheduling=True)
    operation = submit(cloud, "q", spec(scheduling_config={"preemptible": True}))
    cloud.wait(3)
    assert state(cloud) == "FAILED"
    assert "scheduling_config of a node must not be set" in cloud.operation(operation).error.message


def test_two_tiers_at_once_break_it_inside_the_operation(cloud):
    operation = submit(cloud, "q", spec(scheduling_config={"preemptible": True}), spot={})
    assert state(cloud) == "CREATING"
    cloud.wait(3)
    assert state(cloud) == "FAILED"
    failed = cloud.operation(operation).error
    assert failed.code == Code.INVALID_ARGUMENT
    assert "scheduling_config of a node must not be set" in failed.message
    assert look(cloud).state.failed_data.error == failed
    assert "cannot be provisioned any more" in refusal(renew, cloud).message


def test_a_fault_makes_it_fail_while_it_is_provisioned(cloud):
    order(
        cloud,
        "CreateQueuedResource",
        "fail_provisioning",
        match={"queued_resource_id": "q", "provisioning_model": "spot", "generation": "v4"},
    )
    submit(cloud, "other", spec("m"), spot={})
    operation = submit(cloud, "q", spec("s", count=2), spot={})
    cloud.wait(29)
    assert state(cloud) == "PROVISIONING"
    cloud.wait(1)
    failed = look(cloud).state.failed_data.error
    assert (state(cloud), failed.code) == ("FAILED", Code.INTERNAL)
    assert failed.message == "an internal error has occurred"
    assert not cloud.operation(operation).HasField("error")
    cloud.wait(8)
    assert (cloud.state("s-0"), cloud.state("s-1")) == ("GONE", "GONE")
    assert {each.after for each in cloud.history if each.name.startswith(name_of("s"))} == {
        "CREATING",
        "DELETING",
        "",
    }
    assert state(cloud, "other") == "ACTIVE"


def test_a_fault_makes_its_creation_fail(cloud):
    order(cloud, "CreateQueuedResource", "fail_operation", code=9, message="no")
    operation = submit(cloud)
    cloud.wait(3)
    assert (state(cloud), cloud.operation(operation).error.message) == ("FAILED", "no")


@pytest.mark.parametrize("rpc", ["DeleteQueuedResource", "ResetQueuedResource"])
def test_a_fault_makes_its_end_fail_without_effect(cloud, rpc):
    name = active(cloud)
    order(cloud, rpc, "fail_operation")
    how = {"force": True} if rpc == "DeleteQueuedResource" else {}
    operation = cloud.ask(rpc, name=name, **how)
    cloud.wait(1.5)
    assert cloud.operation(operation).error.code == Code.INTERNAL
    assert state(cloud) == "ACTIVE"


def test_its_nodes_are_billed_like_any_other(cloud):
    active(cloud, "q", spec("s", count=2), spot={})
    cloud.wait(70)
    preempt(cloud, "s-0")
    cloud.wait(100)
    billed = {each["name"]: each for each in cloud.bill()}
    assert billed.keys() == {name_of("s-0"), name_of("s-1")}
    assert {each["seconds"] for each in billed.values()} == {72}
    assert {each["provisioning_model"] for each in billed.values()} == {"spot"}


def test_the_control_route_shows_it(cloud):
    bring(cloud, "WAITING_FOR_RESOURCES")
    (shown,) = control.describe_state(cloud.world)["queued_resources"]
    assert (shown["name"], shown["state"]["state"]) == (queued_name(), "WAITING_FOR_RESOURCES")


def test_a_reset_of_the_world_forgets_the_queue(cloud):
    bring(cloud, "WAITING_FOR_RESOURCES")
    control.reset_world(cloud.world)
    assert state(cloud) == "GONE"
    active(cloud)
