"""v2alpha1: the world of v2 in other words, request ids, maintenance by hand, reservations."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.config import reservations
from service.emulator.errors import ApiError, Code
from service.emulator.schema import to_extended
from service.emulator.surfaces import control
from service.emulator.wire import Node, Tpu, TpuV2Alpha1
from tests.emulator.factories import PARENT, START, configured, moment, name_of

NAME = name_of("a")
BODY = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}
ID = "0c3c9a3c-7f2e-4a0e-9b46-1f5f3a8f0b6e"
Upcoming = TpuV2Alpha1.UpcomingMaintenance
FLAT = "projects/lab/locations/us-west4-a"


def create(cloud, node_id="a", request_id="", **overrides):
    return cloud.ask(
        "v2alpha1.CreateNode",
        parent=PARENT,
        node_id=node_id,
        node={**BODY, **overrides},
        request_id=request_id,
    )


def get(cloud, name=NAME):
    return cloud.ask("v2alpha1.GetNode", name=name)


def result(cloud, operation, message_class):
    message = message_class()
    assert cloud.operation(operation).response.Unpack(message)
    return message


def announced(cloud, notice=600, name=NAME):
    """Have a maintenance announced for a node, some seconds ahead."""
    start = cloud.now + notice
    cloud.world.get_node(name).maintenance = (start, start + 60)
    return start


def test_a_node_is_seen_in_both_versions(cloud):
    create(cloud, labels={"team": "nlp"})
    cloud.ready("b")
    shown = cloud.ask("v2alpha1.ListNodes", parent=PARENT).nodes
    assert [node.name for node in shown] == [NAME, name_of("b")]
    assert isinstance(shown[0], TpuV2Alpha1.Node)
    assert dict(cloud.get("a").labels) == {"team": "nlp"}
    assert get(cloud, name_of("b")).accelerator_config.topology == "2x2x1"


def test_a_node_says_which_version_made_it(cloud):
    create(cloud)
    cloud.ready("b")
    of = Node.ApiVersion
    assert (cloud.get("a").api_version, cloud.get("b").api_version) == (of.V2_ALPHA1, of.V2)
    # v2alpha1 has no word for V2.
    assert get(cloud, name_of("b")).api_version == of.V2_ALPHA1


def test_an_operation_keeps_to_the_version_that_began_it(cloud):
    ours, theirs = create(cloud), cloud.create("b")
    cloud.wait(20)
    assert result(cloud, ours, TpuV2Alpha1.Node) == get(cloud)
    assert result(cloud, theirs, Tpu.Node) == cloud.get("b")
    metadata = TpuV2Alpha1.OperationMetadata()
    assert cloud.operation(ours).metadata.Unpack(metadata)
    assert (metadata.api_version, metadata.verb) == ("v2alpha1", "create")
    assert moment(metadata.end_time) == cloud.now


@pytest.mark.parametrize("rpc", ["StopNode", "StartNode", "UpdateNode"])
def test_every_change_speaks_v2alpha1(cloud, rpc):
    cloud.ready()
    if rpc == "StartNode":
        cloud.ask("StopNode", name=NAME)
        cloud.wait(10)
    if rpc == "UpdateNode":
        fields = {
            "node": {"name": NAME, "labels": {"a": "b"}},
            "update_mask": {"paths": ["labels"]},
        }
    else:
        fields = {"name": NAME}
    begun = cloud.ask(f"v2alpha1.{rpc}", **fields)
    cloud.wait(20)
    assert result(cloud, begun, TpuV2Alpha1.Node) == get(cloud)


def test_a_cancelled_operation_still_speaks_v2alpha1(cloud):
    begun = create(cloud)
    cloud.ask("CancelOperation", name=begun.name)
    metadata = TpuV2Alpha1.OperationMetadata()
    assert cloud.operation(begun).metadata.Unpack(metadata)
    assert metadata.cancel_requested


def test_what_v2_does_not_know_is_kept(cloud):
    disk = {"customer_encryption_key": {"kms_key_name": "k"}, "enable_confidential_compute": True}
    create(cloud, autocheckpoint_enabled=True, boot_disk_config=disk)
    node = get(cloud)
    assert node.autocheckpoint_enabled
    assert node.boot_disk_config.customer_encryption_key.kms_key_name == "k"
    assert node.boot_disk_config.enable_confidential_compute
    cloud.wait(20)
    cloud.ask("StopNode", name=NAME)
    cloud.wait(10)
    assert get(cloud).autocheckpoint_enabled


def test_a_maintenance_cannot_be_requested_for(cloud):
    create(cloud, upcoming_maintenance={"window_start_time": "now"})
    assert not get(cloud).HasField("upcoming_maintenance")


def test_the_same_request_twice_is_one_operation(cloud):
    first = create(cloud, request_id=ID)
    cloud.wait(3)
    assert create(cloud, request_id=ID).name == first.name


def test_a_deletion_asked_for_twice_is_one_operation(cloud):
    cloud.ready()
    first = cloud.ask("v2alpha1.DeleteNode", name=NAME, request_id=ID)
    cloud.wait(8)
    again = cloud.ask("v2alpha1.DeleteNode", name=NAME, request_id=ID)
    assert (again.name, again.done) == (first.name, True)


def test_another_request_with_the_same_id_is_refused(cloud):
    create(cloud, request_id=ID)
    with pytest.raises(ApiError, match="was used for another request") as caught:
        create(cloud, "b", request_id=ID)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_request_that_was_refused_may_be_made_again(cloud):
    with pytest.raises(ApiError):
        create(cloud, request_id=ID, accelerator_type="v9-8")
    create(cloud, request_id=ID)
    assert cloud.state() == "CREATING"


def test_a_simulated_maintenance_repairs_the_node(cloud):
    cloud.ready(accelerator_type="v4-16")
    begun = cloud.ask("v2alpha1.SimulateMaintenanceEvent", name=NAME, worker_ids=["1"])
    node = get(cloud)
    assert (node.state, node.health) == (Node.State.REPAIRING, Node.Health.UNHEALTHY_MAINTENANCE)
    assert node.upcoming_maintenance.maintenance_status == Upcoming.MaintenanceStatus.ONGOING
    cloud.wait(60)
    assert result(cloud, begun, TpuV2Alpha1.Node).state == Node.State.READY
    assert not get(cloud).HasField("upcoming_maintenance")


def test_a_maintenance_of_a_worker_that_is_not_there_is_refused(cloud):
    cloud.ready()
    with pytest.raises(ApiError, match='Worker "1" does not exist'):
        cloud.ask("v2alpha1.SimulateMaintenanceEvent", name=NAME, worker_ids=["1"])


def test_what_is_not_ready_is_not_maintained(cloud):
    create(cloud)
    with pytest.raises(ApiError, match="not supported while in state CREATING") as caught:
        cloud.ask("v2alpha1.SimulateMaintenanceEvent", name=NAME)
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_a_maintenance_that_a_deletion_interrupts_ends_with_an_error(cloud):
    cloud.ready()
    begun = cloud.ask("v2alpha1.SimulateMaintenanceEvent", name=NAME)
    cloud.ask("DeleteNode", name=NAME)
    cloud.wait(60)
    assert cloud.operation(begun).error.code == Code.CANCELLED


def test_an_announced_maintenance_is_shown_with_its_window(cloud):
    cloud.ready()
    start = announced(cloud, 600)
    shown = get(cloud).upcoming_maintenance
    assert shown.type_ == Upcoming.MaintenanceType.SCHEDULED
    assert shown.maintenance_status == Upcoming.MaintenanceStatus.PENDING
    assert shown.can_reschedule
    assert shown.window_start_time == "2027-01-15T08:10:20.250Z"
    assert shown.window_end_time == "2027-01-15T08:11:20.250Z"
    (listed,) = cloud.ask("v2alpha1.ListNodes", parent=PARENT).nodes
    assert listed.upcoming_maintenance == shown
    cloud.wait(start - cloud.now)
    shown = get(cloud).upcoming_maintenance
    assert shown.maintenance_status == Upcoming.MaintenanceStatus.ONGOING


def test_v2_tells_of_the_maintenance_too_though_only_rest_can_read_it(cloud):
    cloud.ready()
    announced(cloud)
    shown: Any = to_extended(cloud.get())
    assert shown.upcoming_maintenance.window_start_time


def test_an_announced_maintenance_may_be_started_early(cloud):
    cloud.ready()
    announced(cloud, 600)
    begun = cloud.ask("v2alpha1.PerformMaintenance", name=NAME)
    assert cloud.state() == "REPAIRING"
    cloud.wait(60)
    assert result(cloud, begun, TpuV2Alpha1.Node).state == Node.State.READY
    with pytest.raises(ApiError, match="no upcoming maintenance"):
        cloud.ask("v2alpha1.PerformMaintenance", name=NAME)


def test_a_maintenance_done_early_does_not_come_again():
    cloud = configured(odds={"maintenances_per_day": 0.9, "maintenance_notice_seconds": 86_400})
    cloud.ready()
    record = cloud.world.get_node(NAME)
    while record.maintenance is None:
        cloud.wait(600)
    start, _ = record.maintenance
    control.change_config(cloud.world, {"odds": {"maintenances_per_day": 0}})
    cloud.ask("v2alpha1.PerformMaintenance", name=NAME)
    cloud.wait(start - cloud.now + 30)
    assert cloud.state() == "READY"


@pytest.mark.parametrize(
    ("kind", "possible"),
    [("v5litepod-4", False), ("v5litepod-8", True), ("v5litepod-16", True)],
)
def test_only_large_enough_nodes_are_maintained_by_hand(cloud, kind, possible):
    name = cloud.ready("a", FLAT, accelerator_type=kind, runtime_version="v2-alpha-tpuv5-lite")
    announced(cloud, name=name)
    if possible:
        cloud.ask("v2alpha1.PerformMaintenance", name=name)
        return
    assert not get(cloud, name).upcoming_maintenance.can_reschedule
    with pytest.raises(ApiError, match="cannot be started by hand") as caught:
        cloud.ask("v2alpha1.PerformMaintenance", name=name)
    assert caught.value.code is Code.FAILED_PRECONDITION


def ordered(**more):
    return {"zone": "us-central2-b", "generation": "v4", "chips": 64, **more}


def test_reservations_are_listed_with_what_is_used_of_them():
    cloud = configured(reservations=[ordered(), ordered(name="later", start=START + 60)])
    cloud.ready(scheduling_config={"reserved": True}, accelerator_type="v4-16")
    cloud.ready("b")
    cloud.ask("StopNode", name=name_of("b"))
    found = cloud.ask("v2alpha1.ListReservations", parent=PARENT).reservations
    assert [each.name for each in found] == [
        f"{PARENT}/reservations/later",
        f"{PARENT}/reservations/reservation-0",
    ]
    later, mine = found
    of = TpuV2Alpha1.Reservation.State
    assert (later.state, mine.state) == (of.APPROVED, of.ACTIVE)
    assert (mine.standard.size, mine.standard.usage.total) == (64, 8)
    assert mine.standard.capacity_units == TpuV2Alpha1.Reservation.Standard.CapacityUnits.CHIPS
    assert moment(later.standard.interval.start_time) == START + 60
    cloud.wait(60)
    assert cloud.ask("v2alpha1.ListReservations", parent=PARENT).reservations[0].state == of.ACTIVE


def test_a_reservation_ends():
    cloud = configured(reservations=[ordered(end="2027-01-15T08:00:10Z")])
    of = TpuV2Alpha1.Reservation.State
    for seconds, state in ((0, of.ACTIVE), (20, of.EXPIRED)):
        cloud.wait(seconds)
        (found,) = cloud.ask("v2alpha1.ListReservations", parent=PARENT).reservations
        assert found.state == state


def test_reservations_of_every_zone_are_listed_in_pages():
    cloud = configured(
        reservations=[ordered(), ordered(zone="us-west4-a", generation="v5e"), ordered(name="x")]
    )
    ask = {"parent": "projects/lab/locations/-", "page_size": 2}
    first = cloud.ask("v2alpha1.ListReservations", **ask)
    second = cloud.ask("v2alpha1.ListReservations", **ask, page_token=first.next_page_token)
    assert (len(first.reservations), len(second.reservations)) == (2, 1)
    assert len(cloud.ask("v2alpha1.ListReservations", parent=FLAT).reservations) == 1


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, "must be a list"),
        ([5], "must be a JSON object"),
        ([{"colour": 1}], "unknown reservation key colour"),
        ([ordered(zone="mars")], "unknown zone 'mars'"),
        ([ordered(generation="v9")], "unknown generation 'v9'"),
        ([ordered(chips=0)], "whole number"),
        ([ordered(chips=True)], "whole number"),
        ([ordered(name="A")], "name of a reservation"),
        ([ordered(start="soon")], "start of a reservation"),
        ([ordered(end=1e300)], "end of a reservation"),
        ([ordered(name="x"), ordered(name="x")], "different names"),
    ],
)
def test_a_reservation_that_cannot_be_is_refused(raw, text):
    with pytest.raises(ApiError, match=text):
        reservations.reservations_of(raw, "reservations")


def test_a_provisioning_model_is_read_as_the_flag_that_means_the_same(web):
    path = f"/v2alpha1/{PARENT}/nodes"
    wanted = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    for model, flag in (("SPOT", "spot"), ("RESERVATION_BOUND", "reserved"), ("STANDARD", "")):
        config = {"provisioningModel": model, "reservationName": "mine"}
        node_id = model.lower().replace("_", "-")
        body = {**wanted, "schedulingConfig": config}
        assert web.ask("POST", f"{path}?nodeId={node_id}", body)[0] == 200
        _, node = web.ask("GET", f"{path}/{node_id}")
        shown = {key for key, value in node["schedulingConfig"].items() if value is True}
        assert shown == ({flag} if flag else set())
        assert node["schedulingConfig"]["provisioningModel"] == model
        assert node["schedulingConfig"]["reservationName"] == "mine"
