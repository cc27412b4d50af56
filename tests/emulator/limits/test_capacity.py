"""Hardware runs out late, inside the operation, and what is queued waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Node
from tests.emulator.factories import START, configured, moment, name_of
from tests.emulator.queued_resources import (
    active,
    look,
    order,
    preempt,
    remove,
    spec,
    state,
    submit,
)

V4 = "us-central2-b/v4"
SPOT: dict[str, Any] = {"scheduling_config": {"spot": True}}
RESERVED: dict[str, Any] = {"scheduling_config": {"reserved": True}}
RESERVATION = {"reservation_name": "projects/lab/locations/us-central2-b/reservations/mine"}
WAITING = "WAITING_FOR_RESOURCES"


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def test_capacity_that_is_taken_stocks_out_late():
    cloud = configured(capacity={V4: 8})
    cloud.ready("a")
    operation = cloud.create("b", accelerator_type="v4-16")
    cloud.create("c")
    cloud.wait(20)
    error = cloud.operation(operation).error
    assert error.code == Code.RESOURCE_EXHAUSTED
    assert error.message.startswith('There is no more capacity in the zone "us-central2-b"')
    assert (cloud.state("b"), cloud.state("c")) == ("GONE", "READY")


def test_a_stockout_can_be_opaque():
    cloud = configured(capacity={V4: 0}, stockout_code=13)
    operation = cloud.create(**SPOT)
    cloud.wait(20)
    error = cloud.operation(operation).error
    assert (error.code, error.message) == (Code.INTERNAL, "an internal error has occurred")


def test_reserved_capacity_that_is_gone_has_words_of_its_own():
    cloud = configured(capacity={f"{V4}/reserved": 4})
    cloud.ready("a", **RESERVED)
    operation = cloud.create("b", **RESERVED)
    cloud.ready("c")
    error = cloud.operation(operation).error
    assert error.code == Code.FAILED_PRECONDITION
    assert error.message.startswith(
        "Insufficient reserved capacity. Contact customer support to increase your reservation."
        " [EID: 0x"
    )


def test_a_reservation_has_no_end_where_none_is_set():
    cloud = configured(capacity={f"{V4}/on_demand": 0})
    cloud.ready("a", **RESERVED)
    assert cloud.state("a") == "READY"


def test_the_narrower_limit_counts_its_own_model_only():
    cloud = configured(capacity={V4: 12, f"{V4}/spot": 4})
    cloud.ready("a")
    cloud.ready("b", **SPOT)
    cloud.ready("c", **SPOT)
    assert (cloud.state("b"), cloud.state("c")) == ("READY", "GONE")
    cloud.ready("d")
    assert cloud.state("d") == "READY"


def test_spot_takes_nothing_that_is_in_use():
    cloud = configured(capacity={V4: 4})
    cloud.ready("a")
    operation = cloud.create("b", **SPOT)
    cloud.wait(20)
    assert cloud.operation(operation).error.code == Code.RESOURCE_EXHAUSTED
    assert cloud.state("a") == "READY"


def test_a_stopped_node_gives_its_hardware_away():
    cloud = configured(capacity={V4: 4})
    name = cloud.ready("a")
    cloud.ask("StopNode", name=name)
    cloud.wait(10)
    cloud.ready("b")
    operation = cloud.ask("StartNode", name=name)
    cloud.wait(15)
    assert cloud.operation(operation).error.code == Code.RESOURCE_EXHAUSTED
    assert cloud.state("a") == "STOPPED"


def test_a_node_holds_its_hardware_until_it_is_gone():
    cloud = configured(capacity={V4: 4}, durations={"delete": 100})
    cloud.ask("DeleteNode", name=cloud.ready("a"))
    cloud.ready("b")
    assert (cloud.state("a"), cloud.state("b")) == ("DELETING", "GONE")


def test_a_node_that_never_was_ready_held_no_hardware():
    cloud = configured(capacity={V4: 4}, durations={"delete": 100})
    cloud.create("a")
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.ready("b")
    assert (cloud.state("a"), cloud.state("b")) == ("DELETING", "READY")


def test_a_node_under_repair_keeps_its_hardware():
    cloud = configured(capacity={V4: 4})
    control.maintain_node(cloud.world, {"name": cloud.ready("a")})
    cloud.ready("b")
    assert (cloud.state("a"), cloud.state("b")) == ("REPAIRING", "GONE")


def test_what_is_queued_waits_until_hardware_comes_free():
    cloud = configured(capacity={V4: 4}, durations={"examine": 10**6})
    name = cloud.ready("a")
    submit(cloud)
    cloud.wait(1000)
    assert (state(cloud), cloud.state("n")) == (WAITING, "GONE")
    cloud.ask("DeleteNode", name=name)
    cloud.wait(7.9)
    assert state(cloud) == WAITING
    cloud.wait(0.1)
    assert state(cloud) == "PROVISIONING"


@pytest.mark.parametrize("how", ["preempted", "stopped"])
def test_hardware_comes_free_in_more_ways_than_one(how):
    cloud = configured(capacity={V4: 4}, durations={"examine": 10**6})
    name = cloud.ready("a", **(SPOT if how == "preempted" else {}))
    submit(cloud)
    cloud.wait(100)
    if how == "preempted":
        preempt(cloud, "a")
    else:
        cloud.ask("StopNode", name=name)
        cloud.wait(10)
    assert state(cloud) == "PROVISIONING"


def test_what_is_queued_looks_again_when_there_is_more():
    cloud = configured(capacity={V4: 0}, durations={"examine": 10**6})
    submit(cloud)
    cloud.wait(1000)
    control.change_config(cloud.world, {"capacity": {V4: 4}})
    assert state(cloud) == "PROVISIONING"


def test_what_is_queued_looks_again_from_time_to_time():
    cloud = configured(capacity={V4: 5}, odds={"spot_rhythm": 1})
    cloud.wait(8 * 3600)
    submit(cloud, spot={})
    cloud.wait(3600)
    assert state(cloud) == WAITING
    cloud.wait(12 * 3600)
    assert state(cloud) == "ACTIVE"


def test_all_slices_get_hardware_together_or_none():
    cloud = configured(capacity={V4: 8})
    cloud.ready("a")
    submit(cloud, "q", spec("s", count=2))
    cloud.wait(100)
    assert (state(cloud), cloud.state("s-0")) == (WAITING, "GONE")
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(8 + 22)
    assert state(cloud) == "ACTIVE"


def test_hardware_is_held_from_provisioning_on():
    cloud = configured(capacity={V4: 4})
    submit(cloud)
    cloud.wait(10)
    cloud.create("late")
    cloud.wait(20)
    assert (cloud.state("n"), cloud.state("late")) == ("READY", "GONE")


def test_a_node_may_take_what_the_queue_only_waits_for():
    cloud = configured(capacity={V4: 4})
    cloud.create("quick")
    submit(cloud)
    cloud.wait(9)
    assert state(cloud) == WAITING
    cloud.wait(40)
    assert (cloud.state("quick"), state(cloud)) == ("GONE", "ACTIVE")


def test_the_oldest_in_the_queue_is_served_first():
    cloud = configured(capacity={V4: 4})
    cloud.ready("a")
    for queued_id in ("first", "second"):
        submit(cloud, queued_id, spec(f"{queued_id}-n"))
        cloud.wait(1)
    cloud.wait(100)
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(8)
    assert (state(cloud, "first"), state(cloud, "second")) == ("PROVISIONING", WAITING)


def test_a_small_request_passes_one_that_does_not_fit():
    cloud = configured(capacity={V4: 4})
    submit(cloud, "large", spec("l", accelerator_type="v4-16"))
    submit(cloud, "small", spec("s"))
    cloud.wait(100)
    assert (state(cloud, "large"), state(cloud, "small")) == (WAITING, "ACTIVE")


def test_what_is_suspended_gives_its_hardware_to_the_next():
    cloud = configured(capacity={V4: 4})
    active(cloud, "q", spot={})
    submit(cloud, "next", spec("m"))
    cloud.wait(100)
    preempt(cloud)
    assert state(cloud, "next") == "PROVISIONING"


def test_what_waits_can_be_deleted():
    cloud = configured(capacity={V4: 0})
    submit(cloud)
    cloud.wait(100)
    remove(cloud)
    cloud.wait(4)
    assert state(cloud) == "GONE"
    control.change_config(cloud.world, {"capacity": {}})
    cloud.wait(100)
    assert cloud.state("n") == "GONE"


def test_a_reservation_in_use_is_waited_for_and_one_too_small_is_not():
    cloud = configured(capacity={f"{V4}/reserved": 4})
    active(cloud, "q", **RESERVATION)
    submit(cloud, "next", spec("m"), **RESERVATION)
    submit(cloud, "large", spec("l", accelerator_type="v4-16"), **RESERVATION)
    cloud.wait(100)
    assert (state(cloud, "next"), state(cloud, "large")) == (WAITING, "FAILED")
    error = look(cloud, "large").state.failed_data.error
    assert error.code == Code.FAILED_PRECONDITION
    assert "Insufficient reserved capacity" in error.message


def test_a_stockout_on_command_makes_it_wait_that_long():
    cloud = configured(durations={"examine": 10**6})
    order(cloud, "CreateQueuedResource", "stockout", delay_seconds=600)
    submit(cloud)
    control.settle_world(cloud.world)
    cloud.wait(599)
    assert state(cloud) == WAITING
    cloud.wait(1)
    assert state(cloud) == "PROVISIONING"


def test_a_stockout_without_end_makes_it_wait_until_it_expires(cloud):
    order(cloud, "CreateQueuedResource", "stockout")
    submit(cloud, queueing_policy={"valid_until_duration": {"seconds": 10**6}})
    cloud.wait(10**6 - 1)
    assert state(cloud) == WAITING
    cloud.wait(1)
    assert state(cloud) == "FAILED"


def test_everything_happens_at_its_own_time_however_late_one_looks():
    cloud = configured(capacity={V4: 4})
    cloud.ask("DeleteNode", name=cloud.ready("a"))
    submit(cloud)
    cloud.wait(10_000)
    born = next(each.at for each in cloud.history if each.name == name_of("n"))
    assert born == START + 20 + 10
    assert moment(cloud.get("n").create_time) == pytest.approx(born)
    assert cloud.get("n").state == Node.State.READY


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"capacity": {"mars-1-a/v4": 1}}, "unknown capacity key mars-1-a/v4; known: PLACE/"),
        ({"capacity": {"us-central2-b/v99": 1}}, "a generation of v2, v3"),
        ({"capacity": {"us-central2-b/v4/cheap": 1}}, "a model of on_demand, spot"),
        ({"capacity": {"us-central2-b/v4/": 1}}, "a model of on_demand, spot"),
        ({"capacity": {"us-central2/v4": 1}}, "with a zone,"),
        ({"capacity": {"us-central2-b": 1}}, "unknown capacity key us-central2-b"),
        ({"quotas": {"us-central9/v4": 1}}, "with a zone or a region,"),
        ({"stockout_code": 9}, "stockout_code must be one of 8, 13"),
        ({"create_rate_per_minute": -1}, "must be a whole number, at least 0"),
        ({"closed_queues": "x"}, "closed_queues must be a list of texts"),
        ({"closed_queues": ["us-central2-b/v4-9"]}, "unknown closed_queues entry"),
        ({"no_flex_start": [1]}, "no_flex_start must be a list of texts"),
    ],
)
def test_a_limit_that_could_never_be_reached_is_a_mistake(cloud, patch, text):
    error = refusal(control.change_config, cloud.world, patch)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message
