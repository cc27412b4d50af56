"""Faults on command: what each does to a call, which calls it fits, and how often."""

from __future__ import annotations

import pytest

from service.emulator.api.calls.dispatch import answer_message
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from tests.emulator.factories import (
    EVERYWHERE,
    METHODS,
    PARENT,
    START,
    Cloud,
    metadata,
    moment,
    name_of,
)

OTHER_ZONE = "projects/lab/locations/us-central1-a"


def order(cloud: Cloud, rpc: str, action: str, **more):
    return control.add_fault(cloud.world, {"rpc": rpc, "action": action, **more})


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def test_a_stockout_comes_late_inside_the_operation(cloud):
    order(cloud, "CreateNode", "stockout")
    operation = cloud.create()
    cloud.wait(19)
    assert cloud.state() == "CREATING"
    assert not cloud.operation(operation).done
    cloud.wait(1)
    assert cloud.state() == "GONE"
    done = cloud.operation(operation)
    assert done.error.code == Code.RESOURCE_EXHAUSTED
    assert done.error.message.startswith(
        'There is no more capacity in the zone "us-central2-b"; you can try in another zone where'
        " Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x"
    )


def test_a_start_may_find_its_capacity_gone(cloud):
    name = cloud.ready()
    cloud.ask("StopNode", name=name)
    cloud.wait(10)
    order(cloud, "StartNode", "stockout")
    operation = cloud.ask("StartNode", name=name)
    cloud.wait(15)
    assert cloud.state() == "STOPPED"
    assert cloud.operation(operation).error.code == Code.RESOURCE_EXHAUSTED


def test_quota_refuses_at_once_and_says_which(cloud):
    order(cloud, "CreateNode", "quota")
    error = refusal(
        cloud.create,
        parent="projects/lab/locations/us-east5-a",
        accelerator_type="v6e-8",
        scheduling_config={"spot": True},
    )
    assert error.code is Code.RESOURCE_EXHAUSTED
    assert error.http_status == 429
    assert error.message == (
        "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded."
        " Limit: 0 in region us-east5."
    )
    assert error.details[0].violations[0].subject == "project:lab"
    cloud.create()


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"code": "UNAVAILABLE", "message": "come again"}, Code.UNAVAILABLE, "come again"),
        ({"code": 7}, Code.PERMISSION_DENIED, "PERMISSION_DENIED on command"),
        ({}, Code.INTERNAL, "an internal error has occurred"),
    ],
)
def test_any_error_can_be_had(cloud, more, code, message):
    order(cloud, "ListNodes", "error", **more)
    error = refusal(cloud.ask, "ListNodes", parent=PARENT)
    assert (error.code, error.message) == (code, message)


def test_a_lost_response_has_had_its_effect(cloud):
    order(cloud, "CreateNode", "lose_response")
    assert refusal(cloud.create).code is Code.UNAVAILABLE
    assert cloud.state() == "CREATING"


def test_a_delay_holds_back_the_answer_and_not_the_effect(cloud):
    order(cloud, "CreateNode", "delay", delay_seconds=3)
    method = METHODS["CreateNode"]
    request = method.request(parent=PARENT, node_id="a", node=cloud_node())
    assert answer_message(cloud.world, method, request).delay_seconds == 3
    assert cloud.state() == "CREATING"


def cloud_node():
    return {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}


def test_a_slow_operation_is_open_after_its_node_is_ready(cloud):
    order(cloud, "CreateNode", "slow_operation", delay_seconds=100)
    operation = cloud.create()
    cloud.wait(20)
    assert cloud.state() == "READY"
    assert not cloud.operation(operation).done
    cloud.wait(100)
    done = cloud.operation(operation)
    assert done.done
    assert moment(metadata(done).end_time) == START + 120


def test_a_node_can_be_used_while_its_operation_is_slow(cloud):
    order(cloud, "CreateNode", "slow_operation", delay_seconds=100)
    name = cloud.ready()
    cloud.ask("StopNode", name=name)
    cloud.wait(10)
    assert cloud.state() == "STOPPED"


def test_a_partial_list_names_the_zone_it_could_not_reach(cloud):
    cloud.create("here")
    cloud.create("there", OTHER_ZONE, accelerator_type="v2-8")
    order(cloud, "ListNodes", "partial_list", match={"zone": "us-central1-a"}, times=2)
    page = cloud.ask("ListNodes", parent=EVERYWHERE)
    assert [each.name for each in page.nodes] == [name_of("here")]
    assert list(page.unreachable) == [OTHER_ZONE]
    page = cloud.ask("ListNodes", parent=OTHER_ZONE)
    assert (list(page.nodes), list(page.unreachable)) == ([], [OTHER_ZONE])
    page = cloud.ask("ListNodes", parent=EVERYWHERE)
    assert (len(page.nodes), list(page.unreachable)) == (2, [])


def test_a_partial_list_leaves_another_zone_alone(cloud):
    cloud.create()
    order(cloud, "ListNodes", "partial_list", match={"zone": "us-central1-a"})
    page = cloud.ask("ListNodes", parent=PARENT)
    assert (len(page.nodes), list(page.unreachable)) == (1, [])


def test_a_partial_list_without_a_zone_reaches_none(cloud):
    cloud.create()
    order(cloud, "ListNodes", "partial_list")
    page = cloud.ask("ListNodes", parent=EVERYWHERE)
    assert len(page.nodes) == 0
    assert len(page.unreachable) == 40


@pytest.mark.parametrize(
    "match",
    [
        {"zone": "us-central2-b"},
        {"zone": ["us-east5-a", "us-central2-b"]},
        {"project": "lab", "node_id": "a"},
        {"name": name_of("a")},
        {"accelerator_type": "v4-16", "provisioning_model": "spot"},
        {"generation": "v4"},
        {"runtime_version": "tpu-ubuntu2204-base"},
    ],
)
@pytest.mark.parametrize(
    "kind",
    [
        {"accelerator_type": "v4-16"},
        {"accelerator_type": "", "accelerator_config": {"type_": 7, "topology": "2x2x2"}},
    ],
)
def test_a_fault_fits_by_what_the_request_says(cloud, match, kind):
    order(cloud, "CreateNode", "error", match=match)
    cloud.create(
        "b", OTHER_ZONE.replace("lab", "other"), accelerator_type="v2-8", runtime_version="v2-alpha"
    )
    assert refusal(cloud.create, scheduling_config={"spot": True}, **kind).code is Code.INTERNAL


@pytest.mark.parametrize("rpc", ["GetNode", "StopNode", "DeleteNode"])
def test_a_fault_fits_by_what_the_node_is(cloud, rpc):
    name = cloud.ready()
    order(cloud, rpc, "error", match={"generation": "v4", "node_id": "a"})
    assert refusal(cloud.ask, rpc, name=name).code is Code.INTERNAL


@pytest.mark.parametrize(("times", "hits"), [(1, 1), (3, 3), (0, 5), (-1, 5)])
def test_a_fault_lasts_as_many_times_as_asked(cloud, times, hits):
    order(cloud, "ListNodes", "error", times=times)
    failed = 0
    for _ in range(5):
        try:
            cloud.ask("ListNodes", parent=PARENT)
        except ApiError:
            failed += 1
    assert failed == hits


def test_every_call_can_fail_at_once(cloud):
    order(cloud, "*", "error", code="UNAVAILABLE", times=-1)
    for rpc in ("ListNodes", "ListLocations"):
        field = {"parent": PARENT} if rpc == "ListNodes" else {"name": "projects/lab"}
        assert refusal(cloud.ask, rpc, **field).code is Code.UNAVAILABLE


def test_faults_are_listed_and_dropped(cloud):
    first = order(cloud, "ListNodes", "error", match={"zone": "us-central2-b"})
    second = order(cloud, "GetNode", "delay", delay_seconds=1, times=-1)
    assert control.list_faults(cloud.world) == {"faults": [first, second]}
    assert first["match"] == {"zone": "us-central2-b"}
    assert control.drop_faults(cloud.world, str(first["id"])) == {"faults": [second]}
    assert refusal(control.drop_faults, cloud.world, "99").code is Code.NOT_FOUND
    assert control.drop_faults(cloud.world, "") == {"faults": []}


@pytest.mark.parametrize(
    ("wrong", "known"),
    [
        ({"rpc": "CreateNode", "action": "explode"}, "known: stockout, quota, error"),
        ({"rpc": "BuildNode", "action": "error"}, "known: ListNodes, GetNode"),
        ({"rpc": "GetNode", "action": "stockout"}, "known: CreateNode, StartNode"),
        ({"action": "error"}, "unknown rpc None"),
        ({"rpc": "GetNode", "action": "error", "match": {"colour": "x"}}, "known: project, zone"),
        ({"rpc": "GetNode", "action": "error", "match": {"zone": 1}}, "must be a text"),
        ({"rpc": "GetNode", "action": "error", "match": 1}, "must be a JSON object"),
        ({"rpc": "GetNode", "action": "error", "code": "NOPE"}, "known: OK, CANCELLED"),
        ({"rpc": "GetNode", "action": "error", "code": 99}, "unknown code 99"),
        ({"rpc": "GetNode", "action": "error", "message": 1}, "message must be a text"),
        ({"rpc": "GetNode", "action": "error", "times": "x"}, "times must be"),
        ({"rpc": "GetNode", "action": "error", "times": -2}, "times must be"),
        ({"rpc": "GetNode", "action": "delay", "delay_seconds": -1}, "delay_seconds must be"),
        ({"rpc": "GetNode", "action": "error", "when": 1}, "unknown fault key when"),
        ([], "must be a JSON object"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_what_is_known(cloud, wrong, known):
    error = refusal(control.add_fault, cloud.world, wrong)
    assert error.code is Code.INVALID_ARGUMENT
    assert known in error.message


def test_a_failed_operation_leaves_nothing_of_a_create(cloud):
    order(cloud, "CreateNode", "fail_operation", code="INTERNAL")
    operation = cloud.create()
    cloud.wait(20)
    assert cloud.state() == "GONE"
    error = cloud.operation(operation).error
    assert (error.code, error.message) == (Code.INTERNAL, "an internal error has occurred")


@pytest.mark.parametrize("rpc", ["DeleteNode", "StopNode"])
def test_a_failed_operation_leaves_the_node_as_it_was(cloud, rpc):
    name = cloud.ready()
    order(cloud, rpc, "fail_operation", code="UNAVAILABLE", message="try again")
    operation = cloud.ask(rpc, name=name)
    assert cloud.state() != "READY"
    cloud.wait(20)
    assert cloud.state() == "READY"
    assert cloud.operation(operation).error.message == "try again"


def test_an_operation_may_say_it_failed_while_its_node_is_ready_and_billed(cloud):
    order(cloud, "CreateNode", "misreport_operation", code=13)
    operation = cloud.create()
    cloud.wait(30)
    assert cloud.operation(operation).error.code == Code.INTERNAL
    assert cloud.state() == "READY"
    assert cloud.bill()[0]["seconds"] == 10


def test_a_lost_operation_is_known_to_nobody_but_goes_on(cloud):
    order(cloud, "CreateNode", "lose_operation")
    operation = cloud.create()
    assert refusal(cloud.operation, operation).code is Code.NOT_FOUND
    cloud.wait(20)
    assert cloud.state() == "READY"


def test_a_lost_response_may_look_like_a_deadline(cloud):
    order(cloud, "CreateNode", "lose_response", code="DEADLINE_EXCEEDED")
    assert refusal(cloud.create).code is Code.DEADLINE_EXCEEDED
    assert cloud.state() == "CREATING"


def listed(cloud: Cloud, **more) -> list[str]:
    answered = cloud.ask("ListNodes", parent=PARENT, **more)
    return [each.name.rpartition("/")[2] for each in answered.nodes]


def test_an_empty_list_says_nothing_of_what_it_leaves_out(cloud):
    cloud.ready("a")
    order(cloud, "ListNodes", "empty_list")
    answered = cloud.ask("ListNodes", parent=PARENT)
    assert (len(answered.nodes), list(answered.unreachable), answered.next_page_token) == (
        0,
        [],
        "",
    )
    assert listed(cloud) == ["a"]


def test_a_short_list_ends_in_the_middle(cloud):
    for node_id in ("a", "b", "c", "d"):
        cloud.ready(node_id)
    order(cloud, "ListNodes", "short_list")
    assert listed(cloud) == ["a", "b"]
    assert listed(cloud) == ["a", "b", "c", "d"]


def test_a_fault_can_strike_the_second_page_alone(cloud):
    cloud.ready("a")
    cloud.ready("b")
    order(cloud, "ListNodes", "error", match={"page": "next"}, code="UNAVAILABLE")
    first = cloud.ask("ListNodes", parent=PARENT, page_size=1)
    token = first.next_page_token
    again = refusal(cloud.ask, "ListNodes", parent=PARENT, page_size=1, page_token=token)
    assert again.code is Code.UNAVAILABLE


def test_a_stale_answer_shows_the_world_as_it_was(cloud):
    gone = cloud.ready("gone")
    cloud.ready("stopped")
    cloud.wait(10)
    cloud.ask("DeleteNode", name=gone)
    cloud.ask("StopNode", name=name_of("stopped"))
    cloud.wait(10)
    cloud.create("new")
    assert listed(cloud) == ["new", "stopped"]
    order(cloud, "ListNodes", "stale", delay_seconds=15)
    assert listed(cloud) == ["gone", "stopped"]
    order(cloud, "GetNode", "stale", delay_seconds=15, times=3)
    assert (cloud.state("gone"), cloud.state("stopped")) == ("READY", "READY")
    assert cloud.state("new") == "GONE"
    assert (cloud.state("gone"), cloud.state("stopped")) == ("GONE", "STOPPED")


def test_an_outage_begins_and_ends_by_the_clock(cloud):
    fault = {"code": "UNAVAILABLE", "after_seconds": 60, "for_seconds": 3600}
    order(cloud, "*", "error", **fault)
    cloud.create()
    for wait, answers in ((59, True), (1, False), (3599, False), (1, True)):
        cloud.wait(wait)
        if answers:
            assert cloud.state() == "READY"
        else:
            assert refusal(cloud.get).code is Code.UNAVAILABLE
    assert control.list_faults(cloud.world)["faults"] == []


def test_a_fault_by_chance_strikes_the_same_calls_for_the_same_seed():
    def struck(seed: int) -> list[bool]:
        cloud = Cloud(seed=seed)
        cloud.ready()
        order(cloud, "GetNode", "error", code="ABORTED", probability=0.4, times=0)
        return [cloud_fails(cloud) for _ in range(200)]

    def cloud_fails(cloud: Cloud) -> bool:
        try:
            cloud.get()
        except ApiError:
            return True
        return False

    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
    assert 50 < sum(struck(1)) < 110
